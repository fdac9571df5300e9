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

/// What is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopList {
    /// Jobs and processes of the node.
    #[default]
    Processes,
    /// How collectors fare.
    Collectors,
    /// How rules stand.
    Rules,
    /// What clients of the agent have published.
    Published,
    /// Processes of a job, by the PID of its `weigh run`.
    Job(u32),
    /// A process: threads, open files, limits.
    Process(u32),
    /// What jobs are busy with: files, connections, phases, syscalls; or one job, by the PID of its `weigh run`.
    Busiest(Option<u32>),
    /// What the keys do.
    Keys,
}

/// What the user has chosen to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopView {
    /// By what rows are sorted.
    pub sort: SortKey,
    /// Only rows with this in their command, user or PID.
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// What is listed.
    pub list: TopList,
    /// The row that is chosen; of a list in which nothing can be chosen, the first that is shown.
    pub row: usize,
    /// Whether there may be colours.
    pub color: bool,
}
