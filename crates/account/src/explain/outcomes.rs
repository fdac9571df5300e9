//! What the calls did themselves: how many bytes they moved, and whether they failed.
//!
//! Reads what calls returned; emits in what slow and ordinary ones differ. What is held does not grow with
//! the calls: sizes are in buckets.

use std::collections::BTreeMap;

use weigh_schema::call_row::{CallRow, Returned};
use weigh_schema::explain::{MovedDifference, OutcomeDifference};

use super::bucket::Times;
use super::counters::LEAST_COUNT;
use super::tally::{self, LEAST_ERRORS, Tally};

/// The sides differ in what became of their calls if it is that of so much more of one than of the other.
const LEAST_SHARE: f64 = 0.25;

/// What the calls of one side did.
#[derive(Debug, Default)]
pub(super) struct SideOutcome {
    calls: u64,
    moved: Tally,
    sizes: Times,
    /// How many failed with which error.
    errors: BTreeMap<u64, u64>,
}

impl SideOutcome {
    pub(super) fn add(&mut self, row: &CallRow) {
        self.calls += 1;
        if let Some(bytes) = row.moved() {
            self.moved.add(bytes);
            self.sizes.add(bytes);
        }
        if let Some(error) = row.result.error_number() {
            *self.errors.entry(error).or_default() += 1;
        }
    }

    fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    fn named_errors(&self) -> BTreeMap<String, u64> {
        let name = |number: u64| Returned(-(number as i64)).error();
        self.errors.iter().filter_map(|(number, calls)| Some((name(*number)?, *calls))).collect()
    }
}

/// In how many bytes the sides differ, if they do by as much as other numbers have to.
pub(super) fn moved(slow: &SideOutcome, ordinary: &SideOutcome) -> Option<MovedDifference> {
    tally::differ(&slow.moved, &ordinary.moved, LEAST_COUNT).then(|| {
        let (slow_bytes, ordinary_bytes) = (slow.moved.mean(), ordinary.moved.mean());
        let beyond_calls_total = match slow_bytes > ordinary_bytes {
            true => slow.sizes.above(ordinary.sizes.quantile(1.0).unwrap_or_default()),
            false => slow.sizes.below(ordinary.sizes.quantile(0.0).unwrap_or_default()),
        };
        MovedDifference { slow_bytes, ordinary_bytes, beyond_calls_total }
    })
}

/// How many failed, if that is another share of the slow ones than of the ordinary ones, or they failed with
/// other errors.
pub(super) fn outcome(slow: &SideOutcome, ordinary: &SideOutcome) -> Option<OutcomeDifference> {
    let of = |did: &SideOutcome, error: &u64| did.errors.get(error).copied().unwrap_or(0);
    let by_error = slow.errors.keys().chain(ordinary.errors.keys());
    let mut counts = by_error.map(|error| (of(slow, error), of(ordinary, error)));
    let all = (slow.failed(), ordinary.failed());
    let is_another = |(slow_calls, ordinary_calls)| {
        shares_differ((slow_calls, slow.calls), (ordinary_calls, ordinary.calls))
    };
    (is_another(all) || counts.any(is_another)).then(|| OutcomeDifference {
        slow_failed_total: all.0,
        ordinary_failed_total: all.1,
        slow_errors: slow.named_errors(),
        ordinary_errors: ordinary.named_errors(),
    })
}

/// Whether two shares, each so many of so many, differ clearly, and by more than chance makes them.
fn shares_differ(a: (u64, u64), b: (u64, u64)) -> bool {
    if a.1 == 0 || b.1 == 0 {
        return false;
    }
    let share = |(of, all): (u64, u64)| of as f64 / all as f64;
    // Two calls that ended alike do not say that all do: chance is that of both sides together.
    let both = share((a.0 + b.0, a.1 + b.1));
    let error = (both * (1.0 - both) * (1.0 / a.1 as f64 + 1.0 / b.1 as f64)).sqrt();
    (share(a) - share(b)).abs() >= LEAST_SHARE.max(error * LEAST_ERRORS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(call: &str, results: &[(u64, i64)]) -> SideOutcome {
        let mut did = SideOutcome::default();
        for (calls, result) in results {
            let (call, result) = (call.to_string(), Returned(*result));
            let row = CallRow { call, result, ..CallRow::default() };
            (0..*calls).for_each(|_| did.add(&row));
        }
        did
    }

    #[test]
    fn more_bytes_are_told_with_how_many_calls_moved_more_than_any_ordinary_one() {
        let ordinary = did("read", &[(900, 100), (1, 3000), (50, -11)]);
        let found = moved(&did("read", &[(18, 4 << 20), (2, 100)]), &ordinary).unwrap();
        assert!((found.slow_bytes - 3774883.6).abs() < 0.1, "{found:?}");
        assert!((found.ordinary_bytes - 103.2).abs() < 0.1, "those that failed moved nothing");
        assert_eq!(found.beyond_calls_total, 18);
        // Less is another amount, too.
        let less = moved(&did("read", &[(7, 0)]), &ordinary).unwrap();
        assert_eq!((less.slow_bytes, less.beyond_calls_total), (0.0, 7));
    }

    #[test]
    fn about_as_many_bytes_are_not_told_nor_what_no_call_is_there_to_move() {
        let ordinary = did("read", &[(900, 100)]);
        assert_eq!(moved(&did("read", &[(20, 120)]), &ordinary), None);
        assert_eq!(moved(&did("read", &[(20, -4)]), &ordinary), None);
        // What these return is a descriptor.
        assert_eq!(moved(&did("openat", &[(20, 900)]), &did("openat", &[(900, 3)])), None);
        // One call among some that are as unlike each other.
        let unlike = did("read", &[(450, 100), (450, 900)]);
        assert_eq!(moved(&did("read", &[(1, 900)]), &unlike), None);
        assert!(moved(&did("read", &[(1, 4 << 20)]), &unlike).is_some());
    }

    #[test]
    fn that_other_shares_failed_is_told_with_the_errors() {
        let ordinary = did("openat", &[(270, -2), (10, -13), (2, 3)]);
        let found = outcome(&did("openat", &[(2, 3)]), &ordinary).unwrap();
        assert_eq!((found.slow_failed_total, found.ordinary_failed_total), (0, 280));
        let errors = [("ENOENT", 270), ("EACCES", 10)].map(|(name, n)| (name.to_string(), n));
        assert_eq!((found.slow_errors, found.ordinary_errors), (BTreeMap::new(), errors.into()));
        // As many failed, with another error.
        let timeouts = outcome(&did("futex", &[(12, -110)]), &did("futex", &[(500, -11)]));
        assert_eq!(timeouts.unwrap().slow_errors.keys().collect::<Vec<_>>(), ["ETIMEDOUT"]);
    }

    #[test]
    fn that_about_as_many_failed_is_not_told_nor_what_comes_by_chance() {
        let some = |calls, failed| did("openat", &[(calls - failed, 3), (failed, -2)]);
        assert_eq!(outcome(&some(100, 24), &some(1000, 0)), None, "less than a quarter");
        assert!(outcome(&some(100, 25), &some(1000, 0)).is_some());
        // Two of two come by chance where seven of ten are so.
        assert_eq!(outcome(&some(2, 0), &some(1000, 700)), None);
        assert!(outcome(&some(20, 0), &some(1000, 700)).is_some());
        assert_eq!(outcome(&some(0, 0), &some(1000, 700)), None);
    }
}
