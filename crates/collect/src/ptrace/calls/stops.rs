//! Where threads stop.

/// Which calls stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// All of them, where they begin and where they end. Nothing stays behind in the job.
    All,
    /// Those that a filter in the job picks out. It stays there: without its tracer they fail.
    Filtered,
}
