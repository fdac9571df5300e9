//! Which process it is.

use crate::procfs::Stat;

/// A process, told apart from later ones with the same PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity {
    /// First, so that parents come before their children.
    pub start_ticks: u64,
    pub pid: u32,
}

impl Identity {
    /// That of a process.
    pub fn of(stat: &Stat) -> Identity {
        Identity { start_ticks: stat.start_ticks, pid: stat.pid }
    }
}
