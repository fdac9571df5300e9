//! Rate limits: on a user's programs, for each page costs the agent and the kernel memory and time, and on what a user
//! publishes. A user who asks for one after the other must not keep others waiting.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So many programs at once, and then so many a second.
const AT_ONCE: u32 = 256;
const A_SECOND: u32 = 50;

/// What each user, or each client, has left.
pub struct RateLimit {
    at_once: f64,
    a_second: f64,
    left: BTreeMap<u64, Left>,
}

struct Left {
    entries: f64,
    at: Instant,
}

impl Default for RateLimit {
    fn default() -> RateLimit {
        RateLimit::new(AT_ONCE, A_SECOND)
    }
}

impl RateLimit {
    /// So many at once, and then so many a second.
    pub fn new(at_once: u32, a_second: u32) -> RateLimit {
        let (at_once, a_second) = (at_once.into(), a_second.into());
        RateLimit { at_once, a_second, left: BTreeMap::new() }
    }

    /// Whether a user may have one more now; it is counted if so.
    pub fn allows(&mut self, user: u32, now: Instant) -> bool {
        let is_allowed = self.has(user.into(), 1, now);
        if is_allowed {
            self.take(user.into(), 1, now);
        }
        is_allowed
    }

    /// Whether so many may come at once at all.
    pub fn allows_ever(&self, count: u32) -> bool {
        f64::from(count) <= self.at_once
    }

    /// Whether there are so many left for one now.
    pub fn has(&mut self, who: u64, count: u32, now: Instant) -> bool {
        let (at_once, a_second) = (self.at_once, self.a_second);
        self.left.retain(|_, left| left.renew(at_once, a_second, now) < at_once);
        self.left.get(&who).map_or(at_once, |left| left.entries) >= f64::from(count)
    }

    /// Counts so many; to be asked for by [`RateLimit::has`] before.
    pub fn take(&mut self, who: u64, count: u32, now: Instant) {
        let entries = self.at_once;
        let left = self.left.entry(who).or_insert(Left { entries, at: now });
        left.entries -= f64::from(count);
    }
}

impl Left {
    fn renew(&mut self, at_once: f64, a_second: f64, now: Instant) -> f64 {
        let passed: Duration = now.saturating_duration_since(self.at);
        self.entries = (self.entries + passed.as_secs_f64() * a_second).min(at_once);
        self.at = self.at.max(now);
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_waits_and_others_do_not() {
        let mut pace = RateLimit::default();
        let now = Instant::now();
        assert!((0..AT_ONCE).all(|_| pace.allows(7, now)));
        assert!(!pace.allows(7, now));
        assert!(pace.allows(8, now));
        let later = now + Duration::from_millis(100);
        assert_eq!((0..100).filter(|_| pace.allows(7, later)).count(), 5);
        let much_later = now + Duration::from_secs(3600);
        assert_eq!((0..1000).filter(|_| pace.allows(7, much_later)).count(), AT_ONCE as usize);
    }
}
