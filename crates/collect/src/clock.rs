//! The clock that times are counted by: nobody can set it, and it runs on while the machine sleeps.
//!
//! It is the one by which the kernel tells when processes were started, and by which the BPF programs
//! and the library tell when something happened: so all times of a recording are on one clock. The
//! clock of the day is read once, at the start of the command; what happens later is counted from
//! there.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment on that clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    ns: u64,
}

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        Moment { ns: now_ns(ClockId::Boottime) }
    }

    /// So many nanoseconds after the machine was started.
    pub const fn at_ns(ns: u64) -> Moment {
        Moment { ns }
    }

    /// Nanoseconds since the machine was started.
    pub fn ns(self) -> u64 {
        self.ns
    }

    /// What has passed since.
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(Moment::now().ns.saturating_sub(self.ns))
    }

    /// The same in nanoseconds.
    pub fn elapsed_ns(self) -> u64 {
        Moment::now().ns.saturating_sub(self.ns)
    }
}

/// Nanoseconds of the clock that stands still while the machine sleeps: single calls are timed by it.
pub fn monotonic_ns() -> u64 {
    now_ns(ClockId::Monotonic)
}

/// CPU time that this thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    now_ns(ClockId::ThreadCPUTime)
}

/// What a clock shows.
pub(crate) fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
