//! How much is kept apart of what a job reads and writes.

/// Whether each call is told, beside what is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Sums alone.
    Sums,
    /// Each call, too.
    Each,
}

/// Whose numbers are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowScope {
    /// Each process's.
    #[default]
    Processes,
    /// Each thread's.
    Threads,
}
