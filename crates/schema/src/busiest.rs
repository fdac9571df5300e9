//! What the jobs that run are busy with: what `/api/v1/busiest` answers, and a list of `weigh top`.

use serde::{Deserialize, Serialize};

/// The schema's name and version.
pub const BUSIEST: &str = "weigh.busiest/1";

/// What the jobs that run are busy with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusiestReport {
    /// Always [`BUSIEST`].
    pub schema: String,
    /// Jobs that run and fit the filter.
    pub jobs: u64,
    /// Files.
    pub files: BusiestKind,
    /// Sockets and pipes.
    pub connections: BusiestKind,
    /// What programs name.
    pub phases: BusiestKind,
    /// System calls.
    pub syscalls: BusiestKind,
}

/// Of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusiestKind {
    /// Those that take most time now, then those that took most.
    pub rows: Vec<BusiestRow>,
    /// How many there are.
    pub rows_total: u64,
    /// Jobs whose recordings hold nothing of this kind.
    pub jobs_without: u64,
    /// Jobs of which only the rows with most time are held.
    pub jobs_cut: u64,
}

/// One file, connection, phase or syscall of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusiestRow {
    /// The job's id; in `weigh top` the PID of its `weigh run`.
    pub job: String,
    /// Its name.
    pub name: String,
    /// Since the job began.
    pub total: Amounts,
    /// Growth in a second, over the last few; null where it is not known.
    pub per_second: Option<Amounts>,
}

/// What was done, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amounts {
    /// Time in calls; of phases and regions time in them.
    pub seconds: f64,
    /// Calls; of phases and regions how many have ended.
    pub calls: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes written.
    pub written_bytes: f64,
}

impl Amounts {
    /// Each number with its counterpart.
    pub fn zip(self, other: Amounts, join: impl Fn(f64, f64) -> f64) -> Amounts {
        Amounts {
            seconds: join(self.seconds, other.seconds),
            calls: join(self.calls, other.calls),
            read_bytes: join(self.read_bytes, other.read_bytes),
            written_bytes: join(self.written_bytes, other.written_bytes),
        }
    }

    /// Both together.
    pub fn plus(self, other: Amounts) -> Amounts {
        self.zip(other, |one, another| one + another)
    }
}
