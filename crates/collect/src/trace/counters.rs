//! Counters of the CPU for programs: an event of each CPU, in an array where programs find it.
//!
//! Emits arrays; the events end with them. Each event is pinned: it counts all the time or not at all, for a count
//! that takes turns with others is none of what happens between two events. Refuses what this machine does not
//! have, and what others have taken.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

use super::error::TraceError;
use super::maps::{cpus, made, options};
use crate::perf::{
    EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, Event, Of, PINNED, explanation, is_forbidden, online, open,
};

/// What is counted: `PERF_TYPE_*`, and its number there.
pub type EventCode = (u32, u64);

/// A counter of all CPUs.
pub(super) struct Counter {
    /// Programs look into it; its events lie there as long as it is open.
    array: MapHandle,
    _events: Vec<OwnedFd>,
}

/// Why a counter cannot be had on this machine; none if it can, or if rights are missing to know.
pub fn why_no_counter(counted: EventCode) -> Option<String> {
    let cpu = online().first().copied().unwrap_or(0);
    let error = match on_cpu(counted, cpu).err()? {
        // Of itself everybody may know more.
        error if is_forbidden(&error) => {
            let flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
            open(event(counted), Of::Thread(0), 0, flags, None).err()?
        }
        error => error,
    };
    (!is_forbidden(&error)).then(|| explanation(&error))
}

fn event((kind, config): EventCode) -> Event {
    Event { kind, config, more: [0; 2] }
}

/// An event of one CPU that counts.
fn on_cpu(counted: EventCode, cpu: u32) -> io::Result<OwnedFd> {
    let event = open(event(counted), Of::Cpu(cpu), 0, PINNED | EXCLUDE_HYPERVISOR, None)?;
    let mut count = [0; 8];
    // One that found no place on its CPU has no count.
    match rustix::io::read(&event, &mut count)? {
        0 => Err(io::Error::other(format!("the counters of CPU {cpu} are taken by others"))),
        _ => Ok(event),
    }
}

impl Counter {
    /// Begins to count, on all CPUs that run.
    pub(super) fn open(name: &str, counted: EventCode) -> Result<Counter, TraceError> {
        let entries = cpus() as u32;
        let array = MapHandle::create(
            MapType::PerfEventArray,
            Some("weigh_counter"),
            4,
            4,
            entries,
            &options(0, 0),
        )
        .map_err(made("the array of a counter", 4 * cpus()))?;
        let mut events = Vec::new();
        for cpu in online() {
            let event = on_cpu(counted, cpu).map_err(|error| TraceError::Counter {
                name: name.to_string(),
                why: explanation(&error),
            })?;
            let value = event.as_raw_fd().to_ne_bytes();
            array
                .update(&cpu.to_ne_bytes(), &value, MapFlags::ANY)
                .map_err(made("the array of a counter", 4 * cpus()))?;
            events.push(event);
        }
        Ok(Counter { array, _events: events })
    }

    /// What programs name.
    pub(super) fn descriptor(&self) -> i32 {
        self.array.as_fd().as_raw_fd()
    }
}
