//! Scans the pages of the job's processes, when a new peak of memory may be shared memory that was
//! counted more than once.

use std::time::{Duration, Instant};

use weigh_collect::pages::{self, PageCount, PageCounter, PagesError};
use weigh_schema::event::{CollectorStatus, JobReading, SharedMemoryReading};

/// After a look that took t none follows for this many t.
const PAUSE_PER_LOOK: u32 = 3;

/// How long a job gets to grow further before it is looked at whether it has; each time that it
/// has not, four times as long, up to the second.
const RECHECK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(2));

/// Growth since a look that makes it worth another.
const GROWN: f64 = 1.02;

/// A part of the sum that is certain not to be shared, beyond which a look would tell nothing new.
const CERTAIN: f64 = 0.985;

/// The same, where a limit is at stake.
const CERTAIN_AT_LIMIT: f64 = 0.999;

/// More than this is not looked at while the job waits for its end: it would take too long.
const MOST_AT_LIMIT: u64 = 4 << 30;

/// A look takes a while, in which some processes may go and others grow: what it adds up can be
/// more than there ever was at one moment. The kernel side knows how much that was, at most.
pub(super) fn at_one_moment(look: SharedMemoryReading, after: &JobReading) -> SharedMemoryReading {
    let most = after.memory.rss_sum_peak;
    if look.rss_sum_bytes <= most {
        return look;
    }
    let part = look.union_bytes as f64 / look.rss_sum_bytes as f64;
    SharedMemoryReading { rss_sum_bytes: most, union_bytes: (most as f64 * part) as u64, ..look }
}

/// Makes scans, none too often.
pub(super) struct PageScan {
    counter: PageCounter,
    wanted: bool,
    /// The last peak that was noticed.
    noticed: u64,
    not_before: Instant,
    /// What the last look found, until it is certain that the job did not grow past it.
    to_recheck: Option<u64>,
    recheck_after: Duration,
    /// A limit on the memory, which what the kernel side does not see may cross.
    limit: Option<u64>,
    last: Option<Result<PageCount, PagesError>>,
}

impl PageScan {
    /// Nothing was looked at yet; the limit is one on `memory_peak_bytes`.
    pub fn new(limit: Option<u64>) -> PageScan {
        PageScan {
            counter: PageCounter::new(),
            wanted: false,
            noticed: 0,
            not_before: Instant::now(),
            to_recheck: None,
            recheck_after: RECHECK.0,
            limit,
            last: None,
        }
    }

    /// There is a new peak, and how much of it is certain.
    pub fn peak(&mut self, rss_sum: u64, floor: u64) {
        self.wanted |= (floor as f64) < rss_sum as f64 * CERTAIN;
    }

    /// The same, where the peak is only known as far as it was looked at.
    pub fn notice(&mut self, rss_sum_peak: u64, floor_peak: u64) {
        if rss_sum_peak as f64 > self.noticed as f64 * GROWN {
            self.noticed = rss_sum_peak;
            self.peak(rss_sum_peak, floor_peak);
        }
    }

    /// When the next look is due, if one is wanted.
    pub fn next(&self) -> Option<Instant> {
        (self.wanted || self.to_recheck.is_some()).then_some(self.not_before)
    }

    /// Looks, if it is time.
    pub fn look(
        &mut self,
        now: &JobReading,
        pids: &dyn Fn() -> Vec<u32>,
    ) -> Option<SharedMemoryReading> {
        if Instant::now() < self.not_before {
            return None;
        }
        // The kernel side does not tell of every small step, and the last one may be the peak.
        if let Some(found) = self.to_recheck {
            self.wanted |= now.memory.rss_sum as f64 > found as f64 * GROWN;
        }
        let is_threatened = self.is_threatened(now);
        self.wanted |= is_threatened;
        if !std::mem::take(&mut self.wanted) {
            self.recheck_after *= 4;
            self.not_before = Instant::now() + self.recheck_after;
            if self.recheck_after > RECHECK.1 {
                self.to_recheck = None;
            }
            return None;
        }
        let reading = self.count(now, &pids());
        if is_threatened {
            self.not_before = self.not_before.max(Instant::now() + self.between_threats());
        }
        reading
    }

    /// Whether the sum is past a limit that the certain part of it has not reached: processes
    /// that make copies of what they had inherited tell nobody.
    fn is_threatened(&self, now: &JobReading) -> bool {
        let memory = &now.memory;
        self.limit.is_some_and(|limit| memory.rss_sum > limit && memory.floor < limit)
    }

    /// There is no limit any more that could be crossed unseen.
    pub fn limit_is_crossed(&mut self) {
        self.limit = None;
    }

    /// Looks for the sake of a limit alone take a twentieth of a CPU.
    fn between_threats(&self) -> Duration {
        let took = self.last.iter().flatten().map(|count| count.took).max();
        (took.unwrap_or_default() * 19).max(RECHECK.0)
    }

    /// Looks at once: the job is held at this point, and will not come back to it.
    pub fn look_now(&mut self, now: &JobReading, pids: &[u32]) -> Option<SharedMemoryReading> {
        let sum = now.memory.rss_sum;
        let is_certain = now.memory.floor_peak as f64 >= sum as f64 * CERTAIN_AT_LIMIT;
        if is_certain || sum > MOST_AT_LIMIT {
            return None;
        }
        self.count(now, pids)
    }

    fn count(&mut self, now: &JobReading, pids: &[u32]) -> Option<SharedMemoryReading> {
        let outcome = self.counter.count(pids);
        let took = outcome.as_ref().map_or(Duration::ZERO, |count| count.took);
        self.recheck_after = (took * PAUSE_PER_LOOK).max(RECHECK.0);
        self.not_before = Instant::now() + self.recheck_after;
        self.to_recheck = outcome.as_ref().ok().map(|count| count.rss_sum_bytes);
        let reading = outcome.as_ref().ok().map(|count| SharedMemoryReading {
            at_ns: now.at_ns,
            // Processes that grow while others are looked at can make the union the larger.
            union_bytes: count.union_bytes.min(count.rss_sum_bytes),
            rss_sum_bytes: count.rss_sum_bytes,
            spaces: count.spaces as u64,
            certain_bytes: count.certain_bytes,
        });
        self.last = Some(outcome);
        reading
    }

    /// How the collector fared.
    pub fn status(&self) -> CollectorStatus {
        pages::status(self.last.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_never_adds_up_to_more_than_there_was() {
        let mut after = JobReading::default();
        after.memory.rss_sum_peak = 1000;
        let look = |rss_sum_bytes| SharedMemoryReading {
            at_ns: 7,
            union_bytes: 600,
            rss_sum_bytes,
            spaces: 3,
            certain_bytes: None,
        };
        let cut = at_one_moment(look(1200), &after);
        assert_eq!((cut.at_ns, cut.union_bytes, cut.rss_sum_bytes), (7, 500, 1000));
        assert_eq!(at_one_moment(look(900), &after), look(900));
    }
}
