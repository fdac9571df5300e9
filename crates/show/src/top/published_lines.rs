//! The lines about what clients of the agent have published.

use weigh_schema::Unit;
use weigh_schema::amount::show_amount;
use weigh_schema::printable::printable;
use weigh_schema::top::{PublishedValue, TopReport};

use super::view::UNKNOWN;
use crate::text::cut;

/// Lines of a text; the rest is in `--json`.
const MOST_LINES: usize = 20;

/// The head of the list.
pub(super) fn title() -> String {
    format!("{:<29} {:>12} {:<9} {:<24} ASKED", "PUBLISHED VALUE", "LATEST", "USER", "SCOPE")
}

/// All of them, by scope.
pub(super) fn list(report: &TopReport, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = report.published.iter().map(|one| line(one, columns)).collect();
    if report.published_left_out > 0 {
        lines.push(format!("and {} more that a report has no room for", report.published_left_out));
    }
    lines
}

/// Where there are any: the head and the first of them.
pub(super) fn first(report: &TopReport, columns: usize) -> Vec<String> {
    let mut lines = list(report, columns);
    let left_out = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    if left_out > 0 {
        lines.push(format!("and {left_out} more (--json: all)"));
    }
    match lines.is_empty() {
        true => lines,
        false => std::iter::once(title()).chain(lines).chain([String::new()]).collect(),
    }
}

/// How many there are, in one line.
pub(super) fn count(report: &TopReport) -> Option<String> {
    let count = report.published.len() as u64 + report.published_left_out;
    (count > 0).then(|| format!("published values: {count}"))
}

fn line(one: &PublishedValue, columns: usize) -> String {
    let asked = one.query.as_ref().map_or("", |query| &query.asked);
    let line = format!(
        "{:<29} {:>12} {:<9} {:<24} {}",
        cut(&printable(&one.metric), 29),
        amount(one.value, one.unit),
        cut(&printable(one.user.as_deref().unwrap_or(UNKNOWN)), 9),
        cut(&printable(&one.scope.to_string()), 24),
        printable(asked),
    );
    cut(line.trim_end(), columns)
}

/// A count of a client's own need not be whole, and no value has to be of a size that fits here.
fn amount(value: f64, unit: Option<Unit>) -> String {
    let size = value.abs();
    match unit {
        _ if size >= 1e15 => format!("{value:.4e}"),
        None | Some(Unit::Count) if value.fract() != 0.0 => {
            let digits = (4.0 - size.log10().floor()).clamp(0.0, 9.0) as usize;
            format!("{value:.digits$}").trim_end_matches('0').to_string()
        }
        unit => show_amount(value, unit.unwrap_or(Unit::Count)),
    }
}
