//! Limits that the kernel side does not look after: checked at each reading.

use std::time::Duration;

use weigh_schema::event::JobReading;
use weigh_schema::limit::Limit;
use weigh_schema::{Group, Metric, MetricKind};

use crate::summary::job_value;

/// The part of a limit at which a warning is given.
const WARN_AT: f64 = 0.8;

/// Looks between readings are never further apart than this, and never closer than the second.
const LOOK_BETWEEN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(2));

/// A limit that was found crossed, or nearly.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossed {
    /// The metric.
    pub metric: &'static str,
    /// The value found.
    pub observed: f64,
    /// Whether the limit itself was crossed, or only the mark at which to warn.
    pub fully: bool,
}

struct Watched {
    limit: Limit,
    warned: bool,
    crossed: bool,
    last: Option<(f64, f64)>,
    rate: f64,
    /// By how much it has grown between two looks, at most.
    step: f64,
}

/// Watches limits by looking at readings, more often the nearer one is.
pub struct LimitWatch {
    watched: Vec<Watched>,
    looks: u32,
}

impl LimitWatch {
    /// Watches these.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> LimitWatch {
        let watched = limits
            .into_iter()
            .map(|limit| {
                let (warned, crossed, last, rate, step) = (false, false, None, 0.0, 0.0);
                Watched { limit, warned, crossed, last, rate, step }
            })
            .collect();
        LimitWatch { watched, looks: 0 }
    }

    /// Whether there is anything to watch.
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// Compares a reading, and values that are known otherwise, with the limits.
    pub fn look(
        &mut self,
        reading: &JobReading,
        wall_seconds: f64,
        otherwise: &dyn Fn(&str) -> Option<f64>,
    ) -> Vec<Crossed> {
        self.looks = self.looks.saturating_add(1);
        let mut found = Vec::new();
        for watched in &mut self.watched {
            let metric = watched.limit.metric;
            let Some(value) =
                otherwise(metric.name).or_else(|| job_value(metric, reading, wall_seconds))
            else {
                continue;
            };
            let nearer =
                |before: f64| if is_floor(metric) { before - value } else { value - before };
            if let Some((before, at)) = watched.last
                && wall_seconds > at
            {
                watched.rate = nearer(before).max(0.0) / (wall_seconds - at);
            }
            watched.step = watched.step.max(nearer(watched.last.map_or(0.0, |(before, _)| before)));
            watched.last = Some((value, wall_seconds));
            let crossed = metric.is_past(value, watched.limit.value);
            if crossed && !watched.crossed {
                watched.crossed = true;
                watched.warned = true;
                found.push(Crossed { metric: metric.name, observed: value, fully: true });
            } else if !watched.warned && metric.is_past(value, mark(&watched.limit, WARN_AT)) {
                watched.warned = true;
                found.push(Crossed { metric: metric.name, observed: value, fully: false });
            }
        }
        found
    }

    /// How long the next look may wait: half the time the nearest limit would take at the rate
    /// seen last. Of a job that has just begun no rate is known: the first looks follow each other closely.
    pub fn next_look(&self) -> Duration {
        let (longest, shortest) = LOOK_BETWEEN;
        let longest =
            longest.min(shortest * 2u32.saturating_pow(self.looks.saturating_sub(1).min(8)));
        self.watched
            .iter()
            .filter(|w| !w.crossed)
            .filter_map(|w| {
                let (value, _) = w.last?;
                let seconds = (w.limit.value - value).abs() / w.rate.max(1e-12);
                Duration::try_from_secs_f64(seconds.max(0.0) / 2.0).ok()
            })
            .min()
            .unwrap_or(longest)
            .clamp(shortest, longest)
    }

    /// By how much a metric that only grows has grown between two looks, at most; `last` is its value at the end.
    pub fn greatest_step(&self, name: &str, last: Option<f64>) -> Option<f64> {
        let watched = self.watched.iter().find(|watched| watched.limit.metric.name == name)?;
        let (before, _) = watched.last.unwrap_or_default();
        // What is used after the limit was passed is used by a job that is told to end.
        let at_end = last.filter(|_| !watched.crossed).map_or(0.0, |last| last - before);
        (watched.limit.metric.kind == MetricKind::Counter).then(|| watched.step.max(at_end))
    }

    /// Whether one on what processes use up was half used at the last look. What they hold is known at any
    /// moment.
    pub fn is_near(&self) -> bool {
        const HELD: [Group; 4] = [Group::Time, Group::Memory, Group::Processes, Group::Gpu];
        self.watched.iter().any(|w| {
            let Limit { metric, .. } = w.limit;
            let is_half =
                w.last.is_some_and(|(value, _)| metric.is_past(value, mark(&w.limit, 0.5)));
            // What is free is used up by nobody alone.
            is_half && !w.crossed && !HELD.contains(&metric.group) && !is_floor(metric)
        })
    }

    /// The limits and marks that a kernel side can look after: (metric, limit, mark).
    pub fn marks(limits: &[Limit]) -> Vec<(&'static str, f64, f64)> {
        limits.iter().map(|l| (l.metric.name, l.value, mark(l, WARN_AT))).collect()
    }
}

fn is_floor(metric: &Metric) -> bool {
    metric.kind == MetricKind::Floor
}

/// Where so much of a limit is used; of a floor, where so much of what is left must not be used.
fn mark(limit: &Limit, part: f64) -> f64 {
    if is_floor(limit.metric) { limit.value / part } else { limit.value * part }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(text: &str) -> LimitWatch {
        LimitWatch::new([text.parse::<Limit>().unwrap()])
    }

    #[test]
    fn warns_at_four_fifths_once_then_tells_of_the_crossing_once() {
        let mut watch = watch("wall_seconds=10s");
        let reading = JobReading::default();
        let mut look = |wall| watch.look(&reading, wall, &|_| None);
        assert_eq!(look(5.0), []);
        assert_eq!(look(9.0).len(), 1);
        assert_eq!(look(9.5), []);
        assert!(look(10.5)[0].fully);
        assert_eq!(look(11.0), []);
    }

    #[test]
    fn a_floor_is_crossed_from_above() {
        let mut watch = watch("disk_free_least_bytes=1000");
        let reading = JobReading::default();
        let mut look = |free: f64, wall| {
            let found = watch.look(&reading, wall, &|_| Some(free));
            (found.first().map(|crossed| crossed.fully), watch.next_look().as_millis())
        };
        for wall in 1..9 {
            assert_eq!(look(5000.0, f64::from(wall)).0, None);
        }
        assert_eq!(look(1251.0, 9.0).0, None, "a fourth more than is allowed");
        assert_eq!(look(1249.0, 10.0).0, Some(false));
        // It falls by 248 a second from now on: half the time to the limit is 2 ms.
        assert_eq!(look(1001.0, 11.0), (None, 2));
        assert_eq!(look(1000.0, 12.0).0, None, "so much is allowed");
        assert_eq!(look(999.0, 13.0).0, Some(true));
        assert!(!watch.is_near(), "no process is to blame");
    }

    #[test]
    fn what_is_used_up_is_near_from_half_of_it_until_it_is_crossed() {
        let near = |text: &str, counter, values: &[u64]| -> Vec<bool> {
            let mut watch = watch(text);
            let mut look = |value: &u64| {
                let mut reading = JobReading::default();
                reading.counters.set(counter, *value);
                reading.memory.floor_peak = *value;
                watch.look(&reading, 1.0, &|_| None);
                watch.is_near()
            };
            values.iter().map(&mut look).collect()
        };
        use weigh_schema::Counter::WriteChars;
        let used = near("io_written_bytes_total=100", WriteChars, &[10, 50, 51, 100, 101]);
        assert_eq!(used, [false, false, true, true, false]);
        let held = near("memory_peak_bytes=100", WriteChars, &[60, 100]);
        assert_eq!(held, [false, false]);
    }

    #[test]
    fn looks_come_closer_as_the_limit_does() {
        let mut watch = watch("wall_seconds=10s");
        let reading = JobReading::default();
        let first: Vec<u128> = (1..=6)
            .map(|second| {
                watch.look(&reading, f64::from(second), &|_| None);
                watch.next_look().as_millis()
            })
            .collect();
        assert_eq!(first, [2, 4, 8, 16, 20, 20], "a job that has just begun may do a lot");
        watch.look(&reading, 9.98, &|_| None);
        let next = watch.next_look();
        assert!(next >= Duration::from_millis(9) && next <= Duration::from_millis(11), "{next:?}");
    }

    #[test]
    fn the_greatest_step_is_what_a_limit_can_be_passed_by() {
        let mut watch = watch("io_written_bytes_total=100");
        let mut look = |value, at| {
            let mut reading = JobReading::default();
            reading.counters.set(weigh_schema::Counter::WriteChars, value);
            watch.look(&reading, at, &|_| None);
            (
                watch.greatest_step("io_written_bytes_total", Some(90.0)),
                watch.greatest_step("io_written_bytes_total", None),
            )
        };
        assert_eq!(look(30, 1.0), (Some(60.0), Some(30.0)), "the rest came after the last look");
        assert_eq!(look(80, 2.0), (Some(50.0), Some(50.0)));
        assert_eq!(look(190, 3.0), (Some(110.0), Some(110.0)));
        assert_eq!(watch.greatest_step("memory_peak_bytes", None), None);
        let mut held = self::watch("memory_peak_bytes=100");
        held.look(&JobReading::default(), 1.0, &|_| None);
        assert_eq!(held.greatest_step("memory_peak_bytes", Some(9.0)), None);
    }
}
