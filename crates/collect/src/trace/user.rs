//! Programs onto places in programs and libraries (uprobes).
//!
//! Emits links; while one is held the kernel has a breakpoint at the place, in each process that has the
//! file in its memory. Nothing is left of it anywhere when the link is let go of.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;

use libbpf_rs::libbpf_sys as sys;

use super::attach::{Link, UserPlace};
use super::members::descriptor;
use crate::perf::{self, Event, Of};

/// What the kernel calls such events, and where in their configuration it is told of returns and numbers
/// to raise: `config:0`, `config:32-63`.
const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";
const RETURNS: &str = "/sys/bus/event_source/devices/uprobe/format/retprobe";
const SEMAPHORE: &str = "/sys/bus/event_source/devices/uprobe/format/ref_ctr_offset";

fn number(path: &str) -> io::Result<u64> {
    let text = std::fs::read_to_string(path)?;
    let text = text.trim().trim_start_matches("config:");
    let digits = text.split('-').next().unwrap_or_default();
    digits.parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Attaches a program, in every process.
pub(super) fn attach(program: BorrowedFd<'_>, place: &UserPlace) -> io::Result<Link> {
    // It has to live as long as the kernel may read it.
    let path = CString::new(place.path.as_os_str().as_bytes())?;
    let mut config = u64::from(place.returns) << number(RETURNS)?;
    if place.semaphore != 0 {
        // The kernel takes 32 bits of it.
        let semaphore = u32::try_from(place.semaphore).map_err(|_| io::ErrorKind::InvalidInput)?;
        config |= u64::from(semaphore) << number(SEMAPHORE)?;
    }
    let event =
        Event { kind: number(KIND)? as u32, config, more: [path.as_ptr() as u64, place.offset] };
    // Of every process: which CPU is named does not matter. It is on from the beginning.
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
