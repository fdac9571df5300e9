//! How far what measures interferes with what it measures.

use std::fmt;

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
