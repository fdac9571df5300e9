//! What a source of values asks of a machine and of a job: rights, scope, intrusiveness, cost.
//!
//! Each source declares it beside its code; the table of `docs/mechanisms.md` follows from the declarations.

use std::fmt;

/// Whether a source asks, is notified, or stands in between: as the levels of following.
pub use crate::following::Level as SourceMode;

/// How far a source interferes with what it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Intrusiveness {
    /// The job cannot notice it.
    None,
    /// The job is slower, or wakes up beside more activity, and does the same.
    Low,
    /// The job has something in it, or is stopped, that it could notice.
    Medium,
    /// Some programs behave differently.
    High,
}

impl fmt::Display for Intrusiveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Intrusiveness::None => "none",
            Intrusiveness::Low => "low",
            Intrusiveness::Medium => "medium",
            Intrusiveness::High => "high",
        })
    }
}

/// What a source asks, in words of a table.
#[derive(Clone, Copy, Debug)]
pub struct SourceTraits {
    /// Whether it asks, is notified, or stands in between.
    pub mode: SourceMode,
    /// The rights that it takes.
    pub rights: &'static str,
    /// What it looks at: a process, a job, a file system, the machine.
    pub scope: &'static str,
    /// How far it interferes.
    pub intrusiveness: Intrusiveness,
    /// What it costs, and whom.
    pub cost: &'static str,
}
