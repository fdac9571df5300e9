//! Programs onto instructions of the kernel (kprobes).
//!
//! Reads what kind of event the kernel calls them; emits links. Refuses what the kernel refuses: places where no instruction
//! begins, and functions that may not be probed.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;

use crate::join::descriptor;
use crate::perf::{self, Event, Of};

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
    // Of every process: which CPU is named does not matter.
    let event = perf::open(event, Of::Cpu(0), 0, 0, None)?;
    // SAFETY: program and event are open; there are no options. The link holds the event.
    descriptor(unsafe {
        sys::bpf_link_create(
            program.as_raw_fd(),
            event.as_raw_fd(),
            sys::BPF_PERF_EVENT,
            std::ptr::null(),
        )
    })
}
