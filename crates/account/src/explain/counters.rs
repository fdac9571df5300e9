//! Counts, bytes, and times outside of a call's own: those that differ between slow and ordinary calls.
//!
//! Reads rows of calls; emits the differences of the means that are great enough to matter, and greater
//! than chance makes them. What nobody looked into is not compared.

use weigh_schema::Unit;
use weigh_schema::call_row::CallRow;
use weigh_schema::explain::{COUNTERS, Counter, CounterDifference};

use super::tally::{self, Tally, great_and_small};

/// Counts and bytes that differ by less than this are not named: one in ten calls.
pub(super) const LEAST_COUNT: f64 = 0.1;
/// Nor are times that differ by less than this share of what the slow calls took longer.
const LEAST_TIME: f64 = 0.05;
/// What some calls have of each of [`COUNTERS`].
#[derive(Debug, Default)]
pub(super) struct Counters(Vec<Tally>);

impl Counters {
    /// Takes a call in.
    pub(super) fn add(&mut self, row: &CallRow) {
        if self.0.is_empty() {
            self.0 = vec![Tally::default(); COUNTERS.len()];
        }
        for (tally, counter) in self.0.iter_mut().zip(COUNTERS.iter()) {
            let Some(raw) = counter.raw(row) else { continue };
            tally.add(raw);
        }
    }
}

/// What differs, the first what tells slow calls from ordinary ones best; the slow ones took
/// `more_seconds` longer.
pub(super) fn counters(
    slow: &Counters,
    ordinary: &Counters,
    more_seconds: f64,
) -> Vec<CounterDifference> {
    let pairs = COUNTERS.iter().zip(slow.0.iter().zip(&ordinary.0));
    let mut found: Vec<(f64, f64, CounterDifference)> = pairs
        .filter(|(counter, (slow, ordinary))| differ(counter, slow, ordinary, more_seconds))
        .map(|(counter, (slow, ordinary))| {
            let (more, less) = great_and_small(slow, ordinary);
            // Where neither side varies it tells them apart for sure: both are infinite then, or one.
            let apart = (more - less) / ((slow.variance() + ordinary.variance()) / 2.0).sqrt();
            (apart, more / less, difference(counter, slow, ordinary))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
    found.into_iter().map(|(_, _, difference)| difference).collect()
}

fn differ(counter: &Counter, slow: &Tally, ordinary: &Tally, more_seconds: f64) -> bool {
    let least = match counter.unit() {
        Unit::Seconds => more_seconds * 1e9 * LEAST_TIME,
        _ => LEAST_COUNT,
    };
    tally::differ(slow, ordinary, least)
}

fn difference(counter: &Counter, slow: &Tally, ordinary: &Tally) -> CounterDifference {
    CounterDifference {
        subsystem: counter.subsystem().map(str::to_string),
        is_later: counter.is_later(),
        name: counter.key(),
        slow: counter.in_base_unit(slow.mean()),
        ordinary: counter.in_base_unit(ordinary.mean()),
        slow_calls_total: slow.calls,
        ordinary_calls_total: ordinary.calls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::call_row::COST_COLUMNS;

    /// Calls that have so much of one number each, with all parts looked into.
    fn calls(name: &str, numbers: impl IntoIterator<Item = u64>) -> Counters {
        let column = COST_COLUMNS.iter().find(|c| c.name == name).unwrap();
        let mut counters = Counters::default();
        for raw in numbers {
            let mut row = CallRow { measured: u64::MAX, ..CallRow::default() };
            column.set_raw(&mut row, raw);
            counters.add(&row);
        }
        counters
    }

    fn found(name: &str, slow: &[u64], ordinary: &[u64]) -> Vec<CounterDifference> {
        let many = |numbers: &[u64]| calls(name, numbers.iter().copied().cycle().take(200));
        counters(&many(slow), &many(ordinary), 1e-3)
    }

    #[test]
    fn what_slow_calls_have_more_of_or_less_is_named_with_how_many_had_any() {
        let [requests] = &found("block_requests_total", &[41], &[0, 0, 0, 0, 1])[..] else {
            panic!()
        };
        assert_eq!(
            (requests.subsystem.as_deref(), requests.name.as_str()),
            (Some("block"), "requests_total")
        );
        assert_eq!((requests.slow, requests.ordinary), (41.0, 0.2));
        assert_eq!((requests.slow_calls_total, requests.ordinary_calls_total), (200, 40));
        assert_eq!(found("block_requests_total", &[0], &[1]).len(), 1);
        // One in five of the slow calls, and none of the others.
        assert_eq!(found("tcp_retransmits_total", &[0, 0, 0, 0, 1], &[0])[0].slow_calls_total, 40);
    }

    #[test]
    fn what_differs_by_little_or_chance_is_not_named() {
        assert!(found("memory_pages_total", &[120], &[100]).is_empty(), "by a fifth");
        assert!(
            found("tcp_retransmits_total", &[0; 20], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
                .is_empty()
        );
        // One call of a hundred has it all.
        let one = calls("block_transferred_bytes_total", (0..100).map(|i| u64::from(i == 7) << 30));
        let none = calls("block_transferred_bytes_total", [0; 100]);
        assert!(counters(&one, &none, 1e-3).is_empty());
        // Times are held to what the slow calls took longer.
        assert!(found("block_device_seconds", &[40_000], &[0]).is_empty());
        let [device] = &found("block_device_seconds", &[60_000], &[0])[..] else { panic!() };
        assert_eq!(device.slow, 60e-6);
    }

    #[test]
    fn what_nobody_looked_into_is_not_compared() {
        let mut unknown = Counters::default();
        (0..100).for_each(|_| unknown.add(&CallRow::default()));
        assert!(counters(&calls("net_packets_total", [9; 100]), &unknown, 1e-3).is_empty());
    }

    #[test]
    fn the_first_is_what_tells_them_apart_best() {
        let (mut slow, mut ordinary) = (Counters::default(), Counters::default());
        let column = |name: &str| COST_COLUMNS.iter().find(|c| c.name == name).unwrap();
        let (requests, pages) = (column("block_requests_total"), column("memory_pages_total"));
        for i in 0..100 {
            for (side, more) in [(&mut slow, 1), (&mut ordinary, 0)] {
                let mut row = CallRow { measured: u64::MAX, ..CallRow::default() };
                requests.set_raw(&mut row, i % 2 + more * 40);
                pages.set_raw(&mut row, i * 10 + more * 1000);
                side.add(&row);
            }
        }
        let names: Vec<String> =
            counters(&slow, &ordinary, 1e-3).into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["requests_total", "pages_total"]);
    }
}
