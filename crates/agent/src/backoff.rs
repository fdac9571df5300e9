//! When it is looked for what has settled: every 20 ms at first, then after an eighth of the time
//! that has passed without a new wish, and at least each second; while a program has a limit, at least each 100 ms.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::timer::Timer;

const SOONEST: Duration = Duration::from_millis(20);
const LATEST: Duration = Duration::from_secs(1);
/// A program that has a limit is to be told soon when it is passed, however long that takes.
const LATEST_WITH_LIMITS: Duration = Duration::from_millis(100);
/// So many times as long as a look is, nobody looks.
const REST: u32 = 4;

/// The next look.
pub struct Backoff {
    timer: Timer,
    since: Instant,
    latest: Duration,
}

impl Backoff {
    /// None yet.
    pub fn new() -> io::Result<Backoff> {
        Ok(Backoff { timer: Timer::new()?, since: Instant::now(), latest: LATEST })
    }

    /// Readable when it is time.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.timer.descriptor()
    }

    /// Somebody has a new wish.
    pub fn often(&mut self) {
        self.since = Instant::now();
    }

    fn pause(&self) -> Duration {
        (self.since.elapsed() / 8).clamp(SOONEST, self.latest)
    }

    /// Whether any program has a limit.
    pub fn has_limits(&mut self, has: bool) {
        self.latest = if has { LATEST_WITH_LIMITS } else { LATEST };
    }

    /// Each how many milliseconds it is looked now.
    pub fn every(&self) -> u64 {
        self.pause().as_millis().try_into().unwrap_or(u64::MAX)
    }

    /// There will be another look; the last one took so long, and most of the time is others'.
    pub fn again(&self, took: Duration) {
        self.timer.set(self.pause().max(took * REST));
    }

    /// There is a new wish: a look will come soon.
    pub fn soon(&mut self) {
        self.often();
        self.timer.set(SOONEST);
    }

    /// The look goes on when others were served.
    pub fn at_once(&self) {
        self.timer.set(Duration::from_nanos(1));
    }

    /// There is nothing to look for.
    pub fn stop(&self) {
        self.timer.set(Duration::ZERO);
    }
}
