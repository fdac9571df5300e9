//! The clock that times are counted by: nobody can set it, and it runs on while the machine sleeps.
//!
//! It is the one by which the kernel tells when processes were started, and by which the BPF programs
//! and the library tell when something happened: so all times of a recording are on one clock. The
//! clock of the day is read once, at the start of the command; what happens later is counted from
//! there.

use std::sync::OnceLock;
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

/// What the clock of [`Moment`] shows to BPF programs, which are in no time namespace.
pub fn kernel_boottime_ns() -> u64 {
    Moment::now().ns().saturating_add_signed(-lead_ns("boottime"))
}

/// The same of the clock that stands still while the machine sleeps.
pub fn kernel_monotonic_ns() -> u64 {
    monotonic_ns().saturating_add_signed(-lead_ns("monotonic"))
}

/// How far a clock of weigh's time namespace is ahead of the machine's.
pub fn lead_ns(clock: &str) -> i64 {
    static OFFSETS: OnceLock<String> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    lead_in(OFFSETS.get_or_init(read), clock).unwrap_or(0)
}

/// Lines of a clock, seconds, and nanoseconds.
fn lead_in(text: &str, clock: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(clock))?;
    let mut words = line.split_ascii_whitespace().map(|word| word.parse::<i64>().ok());
    let (seconds, ns) = (words.next()??, words.next()??);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leads_are_read_as_the_kernel_writes_them() {
        let text = "monotonic           7         0\nboottime     -10      5\n";
        assert_eq!(lead_in(text, "boottime"), Some(-9_999_999_995));
        assert_eq!(lead_in(text, "monotonic"), Some(7_000_000_000));
        assert_eq!(lead_in("monotonic 1 0\n", "boottime"), None);
        assert_eq!(lead_in("boottime 1\n", "boottime"), None);
    }
}
