//! Where values of the node come from: the binary hands it in, so that this crate knows no collector and no agent.

use std::time::Duration;

use weigh_schema::top::TopReport;

/// What a feed says next.
#[derive(Clone, Debug)]
pub enum FeedEvent {
    /// The node at a tick.
    Report(Box<TopReport>),
    /// There are no values now, and why. The feed goes on trying.
    Outage(String),
}

/// Reports of the node, one per interval.
pub trait NodeFeed {
    /// What comes next; none when there will be no more. Blocks until it is due, a few seconds at most during an outage.
    fn next(&mut self) -> Option<FeedEvent>;

    /// How long it waits between two reports from now on.
    fn set_interval(&mut self, interval: Duration);

    /// Nobody looks until it is asked for the next event: it gives up what costs others something.
    fn rest(&mut self) {}
}

/// Opens a feed, in the thread that asks it: collectors need not be such as can go from one to another.
pub type FeedOpener = Box<dyn FnOnce() -> Box<dyn NodeFeed> + Send>;
