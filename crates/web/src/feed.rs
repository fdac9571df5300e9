//! Where values of the node come from: the binary hands it in, so that this crate knows no collector.

use std::time::Duration;

use weigh_schema::top::TopReport;

/// Reports of the node, one per interval.
pub trait NodeFeed {
    /// The next report; none when there will be no more. Blocks until it is due.
    fn next(&mut self) -> Option<TopReport>;

    /// How long it waits between two reports from now on.
    fn set_interval(&mut self, interval: Duration);
}

/// Opens a feed, in the thread that asks it: collectors need not be such as can go from one to another.
pub type FeedOpener = Box<dyn FnOnce() -> Box<dyn NodeFeed> + Send>;
