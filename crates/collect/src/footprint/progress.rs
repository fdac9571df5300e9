//! How far a scan has come, for a thread that waits for it.
//!
//! A waiter counts the scanner's own time: what it ran and what it waited for the disk, by `/proc/thread-self/schedstat`.
//! The time that it waited for a CPU is the machine's, and no sign of much to scan.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// From one look of a waiter to the next.
pub(super) const LOOKS_APART: Duration = Duration::from_micros(250);
/// From one note of the scanner to the next: each costs it some microseconds.
const NOTES_APART: Duration = Duration::from_micros(500);
/// What is expected is that many times too much where a scan is given up.
const MARGIN: u32 = 2;

/// What a scanning thread and those who wait for it share.
#[derive(Default)]
pub(super) struct ScanProgress {
    /// The scan is not wanted any more.
    is_interrupted: AtomicBool,
    /// A thread waits: the numbers are kept.
    is_watched: AtomicBool,
    /// Own time of the scan at its last note; 0 before the first one.
    own_ns: AtomicU64,
    /// What the rest of it is expected to take.
    rest_ns: AtomicU64,
}

impl ScanProgress {
    /// Ends the scan that goes on, and all that follow.
    pub fn interrupt(&self) {
        self.is_interrupted.store(true, Relaxed);
    }

    /// A scan by the calling thread begins.
    pub fn begin(&self) -> ScanPulse<'_> {
        let now = Instant::now();
        self.own_ns.store(0, Relaxed);
        ScanPulse { progress: self, begun: now, delayed: cpu_delay(), noted: Cell::new(now) }
    }

    /// Waits for the scan that goes on.
    pub fn watch(&self, budget: Duration) -> ScanWatch<'_> {
        self.own_ns.store(0, Relaxed);
        self.is_watched.store(true, Relaxed);
        ScanWatch { progress: self, budget, first: None, used: Duration::ZERO }
    }
}

/// A scan, seen by its thread.
pub(super) struct ScanPulse<'a> {
    progress: &'a ScanProgress,
    begun: Instant,
    delayed: Duration,
    noted: Cell<Instant>,
}

impl ScanPulse<'_> {
    /// Without the time that the thread was ready to run and did not.
    pub fn own_time(&self) -> Duration {
        self.begun.elapsed().saturating_sub(cpu_delay().saturating_sub(self.delayed))
    }

    /// Whether it goes on. `share_left` is the work to come, in parts of what was done.
    pub fn goes_on(&self, share_left: impl FnOnce() -> f64) -> bool {
        let progress = self.progress;
        if progress.is_watched.load(Relaxed) && self.noted.get().elapsed() >= NOTES_APART {
            let own = self.own_time();
            progress.rest_ns.store(nanoseconds(own.mul_f64(share_left())), Relaxed);
            progress.own_ns.store(nanoseconds(own).max(1), Relaxed);
            self.noted.set(Instant::now());
        }
        !progress.is_interrupted.load(Relaxed)
    }
}

/// A scan, seen by a thread that waits for it.
pub(super) struct ScanWatch<'a> {
    progress: &'a ScanProgress,
    budget: Duration,
    /// The scan's own time at the first note after the wait has begun.
    first: Option<Duration>,
    used: Duration,
}

impl ScanWatch<'_> {
    /// Whether the scan's time is used up, or will be before the scan is over.
    pub fn is_over(&mut self) -> bool {
        let own = Duration::from_nanos(self.progress.own_ns.load(Relaxed));
        if own.is_zero() {
            return false;
        }
        self.used = own.saturating_sub(*self.first.get_or_insert(own));
        let rest = Duration::from_nanos(self.progress.rest_ns.load(Relaxed));
        self.used + rest / MARGIN > self.budget
    }

    /// What is left of the budget.
    pub fn left(&self) -> Duration {
        self.budget.saturating_sub(self.used)
    }
}

impl Drop for ScanWatch<'_> {
    fn drop(&mut self) {
        self.progress.is_watched.store(false, Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

thread_local! {
    /// What the kernel counts for the calling thread; none where it does not.
    static COUNTS: Option<File> = File::open("/proc/thread-self/schedstat").ok();
}

/// How long the calling thread was ready to run and did not, all its life. 0 where the kernel does not count it.
fn cpu_delay() -> Duration {
    let mut text = [0; 64];
    let read = |counts: &Option<File>| counts.as_ref()?.read_at(&mut text, 0).ok();
    let length = COUNTS.with(read).unwrap_or(0);
    let delay = std::str::from_utf8(&text[..length]).ok().and_then(|text| {
        text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok())
    });
    Duration::from_nanos(delay.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(own_ms: u64, share_left: f64) -> ScanProgress {
        let own = Duration::from_millis(own_ms);
        let progress = ScanProgress::default();
        progress.own_ns.store(nanoseconds(own), Relaxed);
        progress.rest_ns.store(nanoseconds(own.mul_f64(share_left)), Relaxed);
        progress
    }

    fn is_over(progress: &ScanProgress, budget_ms: u64, first_ms: u64) -> bool {
        let budget = Duration::from_millis(budget_ms);
        let first = Some(Duration::from_millis(first_ms));
        ScanWatch { progress, budget, first, used: Duration::ZERO }.is_over()
    }

    #[test]
    fn a_wait_ends_where_the_time_is_used_up_or_will_be() {
        // 30 ms are done and as much is to come: within 5 ms it will not be over.
        assert!(is_over(&noted(30, 1.0), 5, 30));
        assert!(!is_over(&noted(30, 0.1), 5, 30));
        assert!(is_over(&noted(36, 0.0), 5, 30));
        assert!(!is_over(&noted(34, 0.0), 5, 30));
        assert!(!is_over(&ScanProgress::default(), 0, 0), "nothing is known yet");
    }

    #[test]
    fn time_without_a_cpu_is_not_the_scans_own() {
        let progress = ScanProgress::default();
        let pulse = progress.begin();
        std::thread::sleep(Duration::from_millis(20));
        let (own, all) = (pulse.own_time(), pulse.begun.elapsed());
        assert!(own >= Duration::from_millis(20) && own <= all, "asleep it waits for no CPU");
    }
}
