//! Probes at the entry or the return of a function, one after the other.
//!
//! Reads what kind of event the kernel calls them; emits links of a program to functions. Refuses
//! what the kernel refuses. A function is named by its address where that is known: the kernel looks
//! for a name in a list of a hundred thousand, each time.

use std::ffi::CString;
use std::io;

use crate::calls::link::{Link, Program};
use crate::perf::{self, Event, Of};

/// The kernel's own word on whether it has probes of functions.
pub(super) const KIND: &str = "/sys/bus/event_source/devices/kprobe/type";

/// Which bit of the event's configuration asks for the return: `config:0`.
const RETURNS: &str = "/sys/bus/event_source/devices/kprobe/format/retprobe";

/// How this kernel is asked for probes.
#[derive(Clone, Copy)]
pub(super) struct Kprobes {
    kind: u32,
    return_bit: u32,
}

/// Where a probe is to be.
pub(super) struct ProbePoint<'a> {
    pub(super) function: &'a str,
    /// 0: the name has to do.
    pub(super) address: u64,
    pub(super) at_return: bool,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum KprobeError {
    /// The kernel says no.
    #[error("{}", refused(.0))]
    Refused(#[from] io::Error),
    /// The program cannot be attached to it.
    #[error("{0}")]
    Attach(io::Error),
}

/// Debian's kernels know a level above those of others, where CAP_PERFMON is not enough.
fn refused(error: &io::Error) -> String {
    match perf::is_forbidden(error) {
        true => format!("{error}; {}: above 2 it takes CAP_SYS_ADMIN", perf::paranoid_text()),
        false => error.to_string(),
    }
}

impl Kprobes {
    /// None if the kernel has no such probes.
    pub(super) fn of_this_kernel() -> Option<Kprobes> {
        let number = |path: &str, before: &str| {
            let text = std::fs::read_to_string(path).ok()?;
            text.trim().strip_prefix(before)?.parse().ok()
        };
        Some(Kprobes { kind: number(KIND, "")?, return_bit: number(RETURNS, "config:")? })
    }

    /// Attaches a program, which is told the cookie each time.
    pub(super) fn attach(
        &self,
        program: &Program,
        place: &ProbePoint<'_>,
        cookie: u64,
    ) -> Result<Link, KprobeError> {
        // It has to live as long as the kernel may read it.
        let name = CString::new(place.function).map_err(io::Error::from)?;
        let is_named = place.address == 0;
        let event = Event {
            kind: self.kind,
            config: u64::from(place.at_return) << self.return_bit,
            more: [if is_named { name.as_ptr() as u64 } else { 0 }, place.address],
        };
        // Of every process: which CPU is named does not matter.
        let event = perf::open(event, Of::Cpu(0), 0, 0, None)?;
        program.attach_to(event, cookie).map_err(KprobeError::Attach)
    }
}
