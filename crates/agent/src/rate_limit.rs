//! Rate limit on a user's programs: each page costs the agent and the kernel memory and time,
//! and a user who asks for one after the other must not keep others waiting.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So many at once, and then so many a second.
const AT_ONCE: u32 = 256;
const A_SECOND: u32 = 50;

/// What each user has left.
#[derive(Default)]
pub struct RateLimit(BTreeMap<u32, Left>);

struct Left {
    entries: f64,
    at: Instant,
}

impl RateLimit {
    /// Whether a user may have one more now; it is counted if so.
    pub fn allows(&mut self, user: u32, now: Instant) -> bool {
        self.0.retain(|_, left| left.now(now) < f64::from(AT_ONCE));
        let left = self.0.entry(user).or_insert(Left { entries: AT_ONCE.into(), at: now });
        *left = Left { entries: left.now(now), at: now };
        if left.entries < 1.0 {
            return false;
        }
        left.entries -= 1.0;
        true
    }
}

impl Left {
    fn now(&self, now: Instant) -> f64 {
        let passed: Duration = now.saturating_duration_since(self.at);
        (self.entries + passed.as_secs_f64() * f64::from(A_SECOND)).min(AT_ONCE.into())
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
