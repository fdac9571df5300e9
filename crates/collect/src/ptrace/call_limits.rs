//! Limits on what calls move, held where each system call of the job ends.
//!
//! Takes the counters of a thread at that stop; emits the limits that they cross for the first time. Refuses metrics
//! that are not moved by calls. What io_uring's workers and stores to mapped files move comes without a call: looks
//! find that.

use weigh_schema::record::Limited;
use weigh_schema::{Counter, CounterValues, Formula, metric};

#[derive(Debug)]
struct CallLimit {
    metric: &'static str,
    counters: &'static [Counter],
    most: u64,
    is_crossed: bool,
}

/// The limits of one job.
#[derive(Debug, Default)]
pub struct CallLimits {
    limits: Vec<CallLimit>,
    /// What all threads have moved, up to the last stop of each.
    total: CounterValues,
}

impl CallLimits {
    /// Sets a limit; false if it is on something that calls do not move.
    pub fn set(&mut self, name: &str, most: f64) -> bool {
        let is_moved = Limited::of_metric(name).is_some_and(Limited::is_of_calls);
        let Some(metric) = metric(name).filter(|_| is_moved) else { return false };
        let Formula::Sum { plus: counters, .. } = metric.formula else { return false };
        self.limits.push(CallLimit {
            metric: metric.name,
            counters,
            most: most as u64,
            is_crossed: false,
        });
        true
    }

    /// Whether threads have to stop at their calls for it.
    pub fn is_set(&self) -> bool {
        !self.limits.is_empty()
    }

    /// A thread has moved so much more.
    pub fn moves(&mut self, more: &CounterValues) {
        for &counter in Counter::ALL {
            self.total.set(counter, self.total.get(counter).saturating_add(more.get(counter)));
        }
    }

    /// Whether a limit is passed.
    pub fn is_past(&self) -> bool {
        self.limits.iter().any(|limit| self.value(limit) > limit.most)
    }

    /// The limits that were passed since this was asked last, with the value of each.
    pub fn crossed(&mut self) -> Vec<(&'static str, u64)> {
        let past = |limit: &CallLimit| !limit.is_crossed && self.value(limit) > limit.most;
        let new: Vec<bool> = self.limits.iter().map(past).collect();
        let found = self.limits.iter().zip(&new).filter(|(_, is_new)| **is_new);
        let found = found.map(|(limit, _)| (limit.metric, self.value(limit))).collect();
        for (limit, is_new) in self.limits.iter_mut().zip(new) {
            limit.is_crossed |= is_new;
        }
        found
    }

    fn value(&self, limit: &CallLimit) -> u64 {
        limit.counters.iter().map(|counter| self.total.get(*counter)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_crossed_once_by_what_all_threads_have_moved() {
        let mut limits = CallLimits::default();
        assert!(!limits.set("memory_peak_bytes", 10.0) && !limits.set("cpu_seconds", 1.0));
        assert!(!limits.is_set());
        assert!(
            limits.set("io_written_bytes_total", 10.0) && limits.set("net_sent_bytes_total", 3.0)
        );
        let more = |counter, value| {
            let mut more = CounterValues::default();
            more.set(counter, value);
            more
        };
        limits.moves(&more(Counter::WriteChars, 6));
        limits.moves(&more(Counter::ReadChars, 60));
        assert!(!limits.is_past() && limits.crossed().is_empty());
        limits.moves(&more(Counter::SocketWriteChars, 5));
        assert!(limits.is_past());
        assert_eq!(limits.crossed(), [("io_written_bytes_total", 11)]);
        limits.moves(&more(Counter::NetSent, 4));
        assert_eq!(limits.crossed(), [("net_sent_bytes_total", 4)]);
        assert!(limits.crossed().is_empty() && limits.is_past());
    }
}
