//! Kinds of calls, and what differs in them, by name.

use crate::text::{Line, Paint, wrap};
use weigh_schema::Unit;
use weigh_schema::amount::show_amount;
use weigh_schema::explain::{Difference, ExplainedKind};

/// Differences below this share of the whole difference are not named.
const LEAST_SHARE: f64 = 0.05;

/// The most differences, and rivals, that are named for a kind of calls.
pub(super) const NAMED_MOST: usize = 4;

pub(super) fn seconds(value: f64) -> String {
    show_amount(value, Unit::Seconds)
}

pub(super) fn grouped(number: u64) -> String {
    show_amount(number as f64, Unit::Count)
}

/// The kind, and what it is about.
pub fn title(kind: &ExplainedKind) -> String {
    if let Some(asked) = &kind.asked {
        return asked.to_string();
    }
    match &kind.of {
        Some(of) => format!("{} ({of})", kind.call),
        None => kind.call.clone(),
    }
}

/// What those are called that are compared with ordinary ones.
pub(super) fn compared(kind: &ExplainedKind) -> &'static str {
    if kind.asked.is_some() { "asked ones" } else { "slow ones" }
}

/// Where the slow ones spent more time, the greatest first: what is named of it.
pub(super) fn named(kind: &ExplainedKind) -> impl Iterator<Item = &Difference> {
    let whole = kind.slow.mean_seconds - kind.ordinary.mean_seconds;
    let worth = move |difference: &&Difference| difference.more_seconds >= whole * LEAST_SHARE;
    kind.differences.iter().filter(worth).take(NAMED_MOST)
}

/// The most lines a text may take.
const TEXT_LINES: usize = 8;

/// A text in lines of that width.
pub(super) fn paragraph(text: &str, width: usize, indent: &str, paint: Paint) -> Vec<Line> {
    let wrapped = wrap(text, width.saturating_sub(indent.len()), TEXT_LINES);
    let line = |text| Line::new().add(indent, Paint::Plain).add(text, paint);
    wrapped.into_iter().map(line).collect()
}
