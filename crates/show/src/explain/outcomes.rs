//! What slow and ordinary calls did themselves, in words: `moved: 4.0 MiB (100 B)`, `2 of 2 slow
//! ones succeeded, where 280 of 282 ordinary ones failed (ENOENT)`.

use std::collections::BTreeMap;

use weigh_schema::Unit;
use weigh_schema::explain::{ExplainedKind, MovedDifference, OutcomeDifference};

use super::counters::with_unit;
use super::words::{NAMED_MOST, compared, grouped};

/// How many bytes they moved, and how many of them more than any ordinary one.
pub(super) fn moved(kind: &ExplainedKind) -> Option<String> {
    let difference = kind.moved.as_ref()?;
    let [slow, usual] = [difference.slow_bytes, difference.ordinary_bytes]
        .map(|bytes| with_unit(bytes, Unit::Bytes));
    Some(format!("moved: {slow} ({usual}){}", beyond(kind, difference)))
}

fn beyond(kind: &ExplainedKind, difference: &MovedDifference) -> String {
    if difference.beyond_calls_total == 0 {
        return String::new();
    }
    format!(
        ", {} of {} {} {} than any ordinary one",
        grouped(difference.beyond_calls_total),
        grouped(kind.slow.calls_total),
        compared(kind),
        if difference.slow_bytes > difference.ordinary_bytes { "more" } else { "less" }
    )
}

/// The calls of one side, and those of them that failed.
struct Ended<'a> {
    failed: u64,
    all: u64,
    errors: &'a BTreeMap<String, u64>,
    who: &'a str,
}

/// How many succeeded, or failed and with which error.
pub(super) fn outcome(kind: &ExplainedKind) -> Option<String> {
    let OutcomeDifference {
        slow_failed_total,
        ordinary_failed_total,
        slow_errors,
        ordinary_errors,
    } = kind.outcome.as_ref()?;
    let slow = Ended {
        failed: *slow_failed_total,
        all: kind.slow.calls_total,
        errors: slow_errors,
        who: compared(kind),
    };
    let ordinary = Ended {
        failed: *ordinary_failed_total,
        all: kind.ordinary.calls_total,
        errors: ordinary_errors,
        who: "ordinary ones",
    };
    Some(format!("{}, where {}", ended(&slow, &ordinary), ended(&ordinary, &slow)))
}

fn ended(side: &Ended, other: &Ended) -> String {
    let all = format!("{} {}", grouped(side.all), side.who);
    if is_of_failures(side, other) {
        return format!("{} of {all} failed ({})", grouped(side.failed), errors(side));
    }
    format!("{} of {all} succeeded", grouped(side.all - side.failed))
}

/// Whether the failures are what there is to say of a side: most failed, or about as many as of the other, or
/// more.
fn is_of_failures(side: &Ended, other: &Ended) -> bool {
    let share = |side: &Ended| side.failed as f64 / side.all.max(1) as f64;
    side.failed > 0 && (share(side) >= 0.5 || share(side) >= share(other) * 0.5)
}

/// `ENOENT`, or each with its number where there are several.
fn errors(side: &Ended) -> String {
    let mut errors: Vec<(&String, u64)> = side.errors.iter().map(|(name, n)| (name, *n)).collect();
    if let [(only, _)] = errors[..] {
        return only.clone();
    }
    errors.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    let named = errors.iter().take(NAMED_MOST).map(|(name, n)| format!("{} {name}", grouped(*n)));
    let others: u64 = errors.iter().skip(NAMED_MOST).map(|(_, calls)| calls).sum();
    let others = (others > 0).then(|| format!("{} others", grouped(others)));
    named.chain(others).collect::<Vec<_>>().join(", ")
}
