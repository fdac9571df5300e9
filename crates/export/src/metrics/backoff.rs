//! When to try again after attempts that failed.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait of its own accord.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest wait that a server can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// Waits between attempts: doubled at each failure, spread by a quarter, and never shorter than the server asks.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
    due: Option<Instant>,
}

impl Backoff {
    /// Whether an attempt may be made.
    pub fn is_over(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| now >= due)
    }

    /// When the next attempt may be made; `None` for at once.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// An attempt has succeeded.
    pub fn reset(&mut self) {
        *self = Backoff::default();
    }

    /// An attempt has failed, and the server may have asked for a wait.
    pub fn fail(&mut self, now: Instant, asked: Option<Duration>) {
        let own = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let spread = own.mul_f64(spread() * 0.25);
        self.due = Some(now + (own - spread).max(asked.unwrap_or_default().min(LONGEST_ASKED)));
    }
}

/// A number below one, so that many nodes do not come back at the same moment.
fn spread() -> f64 {
    f64::from(RandomState::new().hash_one(0) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound_and_a_success_ends_them() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        let mut wait = || {
            backoff.fail(now, None);
            backoff.due().unwrap() - now
        };
        let waits: Vec<Duration> = (0..20).map(|_| wait()).collect();
        for (wait, own) in waits.iter().zip([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]) {
            let own = Duration::from_secs_f64(own);
            assert!(*wait <= own && *wait >= own.mul_f64(0.74), "{wait:?} of {own:?}");
        }
        assert!(waits[19] <= LONGEST && !backoff.is_over(now));
        backoff.reset();
        assert!(backoff.is_over(now));
    }

    #[test]
    fn a_server_can_ask_for_more_but_not_for_ever() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        backoff.fail(now, Some(Duration::from_secs(7)));
        assert_eq!(backoff.due(), Some(now + Duration::from_secs(7)));
        backoff.fail(now, Some(Duration::from_secs(1 << 40)));
        assert_eq!(backoff.due(), Some(now + LONGEST_ASKED));
    }
}
