//! Calls that had not ended: a line for each kind, with the one that has lasted longest.

use weigh_schema::amount::show_number_of;
use weigh_schema::call::{CallsReport, UnderWay, idle_wait};

use super::words::{TEXT_LINES, seconds};
use crate::text::{Line, Paint, more_rows, wrap};

/// Kinds of calls that are named.
const KINDS: usize = 5;

pub(super) fn lines(report: &CallsReport, width: usize) -> Vec<Line> {
    // The longest of each kind comes first, as all do.
    let mut kinds: Vec<(&UnderWay, u64)> = Vec::new();
    for call in &report.under_way {
        match kinds.iter_mut().find(|(first, _)| first.call == call.call) {
            Some((_, count)) => *count += 1,
            None => kinds.push((call, 1)),
        }
    }
    if kinds.is_empty() {
        return Vec::new();
    }
    let texts = kinds.iter().take(KINDS).map(|(call, count)| text(call, *count));
    let texts = texts.chain(more_rows(KINDS, kinds.len(), "kind under way", "kinds under way"));
    let wrapped = texts.flat_map(|text| wrap(&text, width, TEXT_LINES));
    std::iter::once(Line::new())
        .chain(wrapped.map(|text| Line::new().add(text, Paint::Plain)))
        .collect()
}

/// `under way: clock_nanosleep, ≥ 2.0 s (sleep, PID 4711)`
fn text(call: &UnderWay, count: u64) -> String {
    let UnderWay { call: name, pid, tid, command, time_seconds, .. } = call;
    let thread = if pid == tid { String::new() } else { format!(", thread {tid}") };
    let time = match time_seconds {
        Some(time) => format!("≥ {}", seconds(*time)),
        None => "since when is not known".to_string(),
    };
    let several = match count {
        1 => String::new(),
        _ => format!("in {}, the longest ", show_number_of(count, "thread", "threads")),
    };
    // What it has lasted so far it has waited, if that is what it is for.
    let idle = idle_wait(name, None).map(|words| format!(", {words}")).unwrap_or_default();
    format!(
        "under way, and in no row: {name}, {several}{time}{idle} ({command}, PID {pid}{thread})"
    )
}
