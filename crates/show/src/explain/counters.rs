//! What differs between slow and ordinary calls beside their time, in words, by one scheme: what, slow ones,
//! ordinary ones in brackets: `requests: 4 (1)`.

use weigh_schema::Unit;
use weigh_schema::amount::show_amount;
use weigh_schema::explain::{Counter, CounterDifference, ExplainedKind};
use weigh_schema::subsystem::FOREIGN;

use super::words::{NAMED_MOST, compared, grouped, named};

/// What counters are of that are of no part of the kernel.
pub(super) const WHOLE: &str = "CPU";

/// Of a part whose time is named already: `; requests: 4 (1)`.
pub(super) fn beside(kind: &ExplainedKind, subsystem: &str) -> String {
    match in_words(kind, Some(subsystem)) {
        words if words.is_empty() => words,
        words => format!("; {words}"),
    }
}

/// Of the other parts, a sentence each: `net packets: 41 (0.2)`.
pub(super) fn of_other_parts(kind: &ExplainedKind) -> impl Iterator<Item = String> {
    let mut parts: Vec<Option<&str>> = Vec::new();
    for counter in kind.counters.iter().filter(|counter| !counter.is_later) {
        let part = counter.subsystem.as_deref();
        let is_told = named(kind).any(|difference| Some(difference.subsystem.as_str()) == part);
        if !is_told && !parts.contains(&part) {
            parts.push(part);
        }
    }
    let sentence = |part: Option<&str>| match in_words(kind, part) {
        words if words.is_empty() => None,
        words => Some(format!("{} {words}", part.unwrap_or(WHOLE))),
    };
    parts.into_iter().filter_map(sentence).take(NAMED_MOST)
}

/// What they caused after they had returned: `later, block written: 1.0 MiB (4.0 KiB)`.
pub(super) fn later(kind: &ExplainedKind) -> Option<String> {
    let words = joined(kind, &|counter| counter.is_later);
    (!words.is_empty()).then(|| format!("later, {words}"))
}

/// `still open: 3 of 12 slow ones, …`: these cause more than is said. Nothing if none is.
pub(super) fn still_open(kind: &ExplainedKind) -> Option<String> {
    let (slow, ordinary) = (kind.slow.open_calls_total?, kind.ordinary.open_calls_total?);
    (slow + ordinary > 0).then(|| {
        format!(
            "still open: {} of {} {} and {} of {} ordinary ones caused something that had not \
             come to its end, and is not in what is said of later",
            grouped(slow),
            grouped(kind.slow.calls_total),
            compared(kind),
            grouped(ordinary),
            grouped(kind.ordinary.calls_total)
        )
    })
}

/// What they sent to the device for others: `block requests caused by nobody followed: 2 (0)`. A
/// sentence of its own, for it is the others' doing.
pub(super) fn foreign(kind: &ExplainedKind) -> Option<String> {
    let words = joined(kind, &is_foreign);
    (!words.is_empty()).then(|| format!("block {words}"))
}

fn is_foreign(counter: &CounterDifference) -> bool {
    let is_of_block = counter.subsystem.as_deref() == Some("block");
    !counter.is_later && is_of_block && FOREIGN.contains(&&*counter.name)
}

fn in_words(kind: &ExplainedKind, part: Option<&str>) -> String {
    let is_of_part =
        |counter: &CounterDifference| !counter.is_later && counter.subsystem.as_deref() == part;
    joined(kind, &|counter| is_of_part(counter) && !is_foreign(counter))
}

fn joined(kind: &ExplainedKind, is_wanted: &dyn Fn(&CounterDifference) -> bool) -> String {
    let wanted = kind.counters.iter().filter(|counter| is_wanted(counter));
    let words: Vec<String> =
        wanted.filter_map(|counter| words(kind, counter)).take(NAMED_MOST).collect();
    words.join(", ")
}

/// `requests: 4 (1)`; how many had any, if that is not all.
fn words(kind: &ExplainedKind, difference: &CounterDifference) -> Option<String> {
    let counter = Counter::of(difference)?;
    let [slow, usual] =
        [difference.slow, difference.ordinary].map(|value| with_unit(value, counter.unit()));
    let had_any = had_any(kind, difference);
    (slow != usual).then(|| format!("{}: {slow} ({usual}){had_any}", counter.words()))
}

/// A mean with its unit, where it is nothing, too.
pub(super) fn with_unit(value: f64, unit: Unit) -> String {
    if value == 0.0 { show_amount(0.0, unit) } else { mean(value, unit) }
}

/// Of what some of the slow ones have and others have not, how many do.
fn had_any(kind: &ExplainedKind, difference: &CounterDifference) -> String {
    let (slow, all) = (difference.slow_calls_total, kind.slow.calls_total);
    if slow == all || difference.slow < difference.ordinary {
        return String::new();
    }
    let ordinary = difference.ordinary_calls_total;
    format!(
        ", in {} of {} against {}",
        grouped(slow),
        grouped(all),
        match ordinary {
            0 => "none".to_string(),
            _ => format!("{} of {}", grouped(ordinary), grouped(kind.ordinary.calls_total)),
        }
    )
}

/// A mean of counts needs its tenths where it is small.
pub(super) fn mean(value: f64, unit: Unit) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    match unit {
        _ if value == 0.0 => "0".to_string(),
        Unit::Seconds => show_amount(value, unit),
        _ if tenths == 0.0 => "under 0.1".to_string(),
        Unit::Count if tenths < 10.0 && tenths.fract() != 0.0 => format!("{tenths:.1}"),
        _ => show_amount(value, unit),
    }
}
