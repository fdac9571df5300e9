//! What the user has chosen to see.

/// By what processes are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// CPUs kept busy, most first.
    #[default]
    Cpu,
    /// Resident size, greatest first.
    Memory,
    /// Threads, most first.
    Threads,
    /// Number of the process.
    Pid,
}

/// What stands where a value is not known.
pub(super) const UNKNOWN: &str = "–";

/// What the user has chosen to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopView {
    /// By what rows are sorted.
    pub sort: SortKey,
    /// Only rows with this in their command, user or PID.
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// Whether collectors are listed in place of processes.
    pub shows_collectors: bool,
    /// The first row that is shown.
    pub first_row: usize,
    /// Whether there may be colours.
    pub color: bool,
}
