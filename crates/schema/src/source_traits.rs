//! What a source of values asks of a machine and of a job: rights, scope, intrusiveness, cost.
//!
//! Each source declares it beside its code; the table of `docs/mechanisms.md` follows from the declarations.

/// Whether a source asks, is notified, or stands in between: as the levels of following.
pub use crate::following::Level as SourceMode;
pub use crate::intrusiveness::Intrusiveness;

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

impl SourceTraits {
    /// Of programs in the kernel that take root's rights and disturb nobody.
    pub const fn of_bpf(scope: &'static str, cost: &'static str) -> SourceTraits {
        SourceTraits {
            mode: SourceMode::Notification,
            rights: "root, or CAP_BPF and CAP_PERFMON",
            scope,
            intrusiveness: Intrusiveness::None,
            cost,
        }
    }
}
