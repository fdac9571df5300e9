//! Programs onto instructions of the kernel (kprobes).
//!
//! Reads what kind of event the kernel calls them; emits links. Refuses what the kernel refuses: places where no instruction
//! begins, and functions that may not be probed.

use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::user::link_event;
use crate::perf::Event;

/// What the kernel calls such events.
const KIND: &str = "/sys/bus/event_source/devices/kprobe/type";

/// What may be the reason.
pub(super) const HINT: &str = "; an instruction has to begin there, in a function that may be probed, and not every kernel \
                               lets any be: `weigh doctor` says whether this one does";

/// An instruction of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The function: `vfs_read`, `module:function`.
    pub function: String,
    /// How far behind its beginning.
    pub offset: u64,
}

/// Attaches a program.
pub(super) fn attach(program: BorrowedFd<'_>, at: &Instruction) -> io::Result<OwnedFd> {
    let kind = std::fs::read_to_string(KIND).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("this kernel has no kprobes"),
        _ => error,
    })?;
    let kind = kind.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
    // It has to live as long as the kernel may read it.
    let function = CString::new(at.function.as_str())?;
    let event = Event { kind, config: 0, more: [function.as_ptr() as u64, at.offset] };
    link_event(program, event)
}
