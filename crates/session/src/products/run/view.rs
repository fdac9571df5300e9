//! What shows a run while it goes on: the caller's, for a product draws nothing.

use weigh_schema::event::JobReading;
use weigh_schema::limit::Limit;

/// A job at the end of a window.
pub struct RunState<'a> {
    /// Its sums.
    pub reading: &'a JobReading,
    /// The limits that it is held to.
    pub limits: &'a [Limit],
    /// Its living processes: they are looked for at each call.
    pub living: &'a dyn Fn() -> Vec<u32>,
}

/// Shows a run while it goes on.
pub trait RunView {
    /// The command has begun.
    fn begin(&mut self) {}

    /// A window has ended.
    fn draw(&mut self, state: &RunState<'_>);
}
