//! Whether a rate has been above or below a bound for long enough.
//!
//! Reads counts and when they were read; says when the answer changes. Reads no clock itself.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use weigh_trace::adaptation::RateCondition;
use weigh_trace::sink::ProbeCounts;

/// A rate is one over so long, at least.
const WINDOW: Duration = Duration::from_secs(1);

/// How many events there were, over changes of their sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventMeter {
    /// Events that a filter has let through.
    pub events: u64,
    /// Those of them for which there was no room.
    pub lost: u64,
    sent: u64,
    matched: u64,
}

impl EventMeter {
    /// So many have been counted now. Those that a sampling rule passed over are events, too.
    pub fn advance(&mut self, counted: &ProbeCounts) {
        let lost = counted.gone();
        let sent = counted.sent + lost;
        let new = match counted.matched {
            Some(matched) => matched.saturating_sub(self.matched),
            None => sent.saturating_sub(self.sent),
        };
        self.events += new;
        (self.sent, self.lost) = (sent, lost);
        self.matched = counted.matched.unwrap_or(self.matched);
    }
}

/// A condition, and what was counted in the last second.
pub struct RateWatch {
    condition: RateCondition,
    counts: VecDeque<(Instant, u64)>,
    /// Since when it is otherwise than what is in force.
    since: Option<Instant>,
    is_on: bool,
}

impl RateWatch {
    /// Of a condition that does not hold yet.
    pub fn new(condition: RateCondition) -> RateWatch {
        RateWatch { condition, counts: VecDeque::new(), since: None, is_on: false }
    }

    /// Whether it held when that changed last.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// So many there were until then; returns the rate if what is in force is to change.
    pub fn observe(&mut self, now: Instant, count: u64) -> Option<f64> {
        let rate = self.rate(now, count)?;
        if self.condition.holds(rate) == self.is_on {
            self.since = None;
            return None;
        }
        // It is so since the window began that says so.
        let since = *self.since.get_or_insert(now);
        if now - since < self.condition.hold {
            return None;
        }
        (self.is_on, self.since) = (!self.is_on, None);
        Some(rate)
    }

    /// Over the last second; none in the first one.
    fn rate(&mut self, now: Instant, count: u64) -> Option<f64> {
        self.counts.push_back((now, count));
        while self.counts.get(1).is_some_and(|(at, _)| now - *at >= WINDOW) {
            self.counts.pop_front();
        }
        let (at, before) = *self.counts.front()?;
        let passed = now - at;
        (passed >= WINDOW).then(|| count.saturating_sub(before) as f64 / passed.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_trace::adaptation::Adaptation;

    /// When it switches, in tenths of a second, if these many come in each tenth.
    fn switches(text: &str, counts: impl IntoIterator<Item = u64>) -> Vec<(usize, bool)> {
        let mut watch = RateWatch::new(Adaptation::parse(text).unwrap().condition);
        let (start, mut sum, mut found) = (Instant::now(), 0, Vec::new());
        for (tenth, count) in counts.into_iter().enumerate() {
            sum += count;
            let now = start + Duration::from_millis(100 * tenth as u64);
            if watch.observe(now, sum).is_some() {
                found.push((tenth, watch.is_on()));
            }
        }
        found
    }

    #[test]
    fn it_switches_when_the_rate_has_been_so_for_long_enough() {
        let steps = |parts: &[(usize, u64)]| -> Vec<u64> {
            parts.iter().flat_map(|(tenths, each)| vec![*each; *tenths]).collect()
        };
        let text = "rate > 100 for 2s: sample 1/2";
        // 11 a tenth are 110 a second: so from the first full second on, and on 2 s later.
        assert_eq!(switches(text, steps(&[(60, 11)])), [(30, true)]);
        // Off again: at 0 a tenth the last second has less than 100 after one tenth.
        let found = switches(text, steps(&[(40, 11), (60, 0)]));
        assert_eq!(found, [(30, true), (60, false)]);
        // Exactly the bound is not above it, and a burst of a second is no two seconds.
        assert_eq!(switches(text, steps(&[(60, 10)])), []);
        assert_eq!(switches(text, steps(&[(20, 0), (10, 50), (60, 0)])), []);
    }

    #[test]
    fn below_is_known_only_after_a_second() {
        let text = "rate < 5 for 100ms: sample 1/2";
        assert_eq!(switches(text, vec![0; 12]), [(11, true)]);
        assert_eq!(switches(text, vec![0; 10]), []);
    }

    #[test]
    fn what_sampling_passes_over_is_counted_also_when_the_rule_comes_and_goes() {
        let counted =
            |sent, lost, matched| ProbeCounts { sent, lost, matched, ..ProbeCounts::default() };
        let mut meter = EventMeter::default();
        meter.advance(&counted(90, 10, None));
        assert_eq!((meter.events, meter.lost), (100, 10));
        // Sampled 1 in 10 from here.
        meter.advance(&counted(94, 11, Some(50)));
        assert_eq!((meter.events, meter.lost), (150, 11));
        meter.advance(&counted(99, 11, Some(107)));
        assert_eq!(meter.events, 207);
        // Not any more, and again: the count goes on where it was.
        meter.advance(&counted(199, 11, None));
        assert_eq!(meter.events, 307);
        meter.advance(&counted(200, 11, Some(117)));
        assert_eq!(meter.events, 317);
    }
}
