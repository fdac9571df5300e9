//! Values of the node for the page, from this process's own collectors.

use std::time::{Duration, Instant};

use weigh_schema::top::TopReport;
use weigh_session::Source as _;
use weigh_session::products::top::{TopSettings, TopSource};
use weigh_web::NodeFeed;

/// Between two reports, until the server says otherwise.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// Reads the node's collectors in the thread that asks.
pub struct TopFeed(TopSource);

impl TopFeed {
    /// Opens the collectors.
    pub fn new(settings: TopSettings) -> TopFeed {
        TopFeed(TopSource::new(settings, None))
    }
}

impl NodeFeed for TopFeed {
    fn next(&mut self) -> Option<TopReport> {
        loop {
            let wait = self.0.deadline()?.saturating_duration_since(Instant::now());
            std::thread::sleep(wait);
            self.0.tick_if_due();
            if let Some(report) = self.0.take_report() {
                return Some(report);
            }
        }
    }

    fn set_interval(&mut self, interval: Duration) {
        self.0.set_interval(interval);
    }
}
