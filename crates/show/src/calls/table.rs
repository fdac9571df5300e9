//! The table of calls, as wide as the terminal lets it be.
//!
//! Reads kinds of calls; emits a line for each, and those that belong below it. Where the time went is always
//! there: at a row's end, or below it where that has no room. Numbers that have none are left out, those first
//! that say least, and a line says which. Where no terminal cuts lines all stands in one row.

use unicode_width::UnicodeWidthStr;
use weigh_schema::Unit;
use weigh_schema::amount::{show_amount, show_count};
use weigh_schema::call::{CallKind, OtherEnd, idle_wait};

use super::shares::{LEAST_SHARE, run_queue, split};
use super::words::{TEXT_LINES, about, seconds};
use super::words::{below, by_part, counted, later, states};
use crate::text::{Line, Paint, Screen, digits, harmless, shorten, wrap};

/// The most parts that are named for a call.
const PARTS_MOST: usize = 4;

/// A name has so many columns, if it needs them, before numbers have any that can be left out.
const LEAST_NAME: usize = 40;

/// Columns between two others.
const GAP: usize = 2;

const PARTS: &str = "where the time went";

/// A number of each kind of calls.
struct Column {
    title: &'static str,
    cell: fn(&CallKind) -> String,
    /// Where there is no room those with the least are left out first; none: never.
    worth: Option<u8>,
}

const COLUMNS: [Column; 8] = [
    Column { title: "calls", cell: |kind| show_count(kind.calls_total as f64), worth: None },
    Column { title: "failed", cell: |kind| count(kind.errors_total), worth: Some(4) },
    Column { title: "total", cell: |kind| seconds(kind.time_seconds), worth: None },
    Column { title: "mean", cell: |kind| seconds(mean(kind)), worth: None },
    Column { title: "p50", cell: |kind| seconds(kind.time_p50_seconds), worth: Some(1) },
    Column { title: "p99", cell: |kind| seconds(kind.time_p99_seconds), worth: Some(2) },
    Column { title: "max", cell: |kind| seconds(kind.time_max_seconds), worth: Some(3) },
    Column { title: "bytes", cell: |kind| bytes(kind.bytes_total), worth: Some(5) },
];

fn count(n: u64) -> String {
    if n == 0 { String::new() } else { show_count(n as f64) }
}

fn bytes(n: u64) -> String {
    if n == 0 { String::new() } else { show_amount(n as f64, Unit::Bytes) }
}

fn mean(kind: &CallKind) -> f64 {
    kind.time_seconds / kind.calls_total.max(1) as f64
}

/// The table; nothing of no kinds. `numbers` names what has all numbers.
pub fn lines(kinds: &[CallKind], numbers: &str, screen: Screen) -> Vec<Line> {
    if kinds.is_empty() {
        return Vec::new();
    }
    let layout = Layout::of(kinds, screen);
    let mut lines = vec![layout.titles()];
    for kind in kinds {
        lines.push(layout.row(kind));
        lines.extend(layout.below(kind, screen.columns));
        lines.extend(states(kind, screen.columns));
        lines.extend(later(kind, screen.columns));
    }
    lines.extend(layout.left_out(numbers, screen.columns));
    lines
}

/// As many kinds as so many lines have room for, with where the time went and what was asked for; and how many.
pub fn short(kinds: &[CallKind], most: usize, screen: Screen) -> (Vec<Line>, usize) {
    let candidates = &kinds[..kinds.len().min(most)];
    if candidates.is_empty() {
        return (Vec::new(), 0);
    }
    let layout = Layout::of(candidates, screen);
    let mut lines = vec![layout.titles()];
    for (place, kind) in candidates.iter().enumerate() {
        let below = layout.below(kind, screen.columns);
        if lines.len() + 1 + below.len() > most {
            return (lines, place);
        }
        lines.push(layout.row(kind));
        lines.extend(below);
    }
    (lines, candidates.len())
}

/// What has room where.
struct Layout {
    /// Columns of the names.
    name: usize,
    /// The numbers that are shown, and their columns.
    shown: Vec<(&'static Column, usize)>,
    left_out: Vec<&'static str>,
    /// So many columns would have room for all numbers.
    enough: usize,
    parts_beside: bool,
    is_terminal: bool,
}

impl Layout {
    fn of(kinds: &[CallKind], screen: Screen) -> Layout {
        let (width, is_terminal) = (screen.row_columns(), screen.is_terminal);
        let widest = |text: &dyn Fn(&CallKind) -> String, least: usize| {
            kinds.iter().map(|kind| text(kind).width()).fold(least, usize::max)
        };
        let names = widest(&title, "call".len());
        let parts = widest(&shares, PARTS.len());
        let with_width = |column: &'static Column| {
            let cell = |kind: &CallKind| digits((column.cell)(kind), is_terminal);
            (column, GAP + widest(&cell, column.title.len()))
        };
        let mut shown: Vec<(&Column, usize)> = COLUMNS.iter().map(with_width).collect();
        let numbers =
            |shown: &[(&Column, usize)]| shown.iter().map(|(_, width)| width).sum::<usize>();
        let enough = names.min(LEAST_NAME) + numbers(&shown);
        let parts_beside = names + numbers(&shown) + GAP + parts <= width;
        let mut left_out = Vec::new();
        while names.min(LEAST_NAME) + numbers(&shown) > width {
            let least =
                shown.iter().enumerate().filter_map(|(i, (c, _))| Some((c.worth?, i))).min();
            let Some((_, place)) = least else { break };
            left_out.push(shown.remove(place).0.title);
        }
        let name = names.min(width.saturating_sub(numbers(&shown)));
        Layout { name, shown, left_out, enough, parts_beside, is_terminal }
    }

    fn titles(&self) -> Line {
        let columns = self.shown.iter().map(|(column, width)| format!("{:>width$}", column.title));
        let line = Line::new().add("call", Paint::Dim).pad_to(self.name);
        let line = line.add(columns.collect::<String>(), Paint::Dim);
        if self.parts_beside { line.add(format!("  {PARTS}"), Paint::Dim) } else { line }
    }

    /// Where its time went, unless that stands beside it, and what was asked for of it.
    fn below(&self, kind: &CallKind, columns: usize) -> Vec<Line> {
        let beside = if self.parts_beside { Vec::new() } else { parts_below(kind, columns) };
        let counted = counted(&kind.counters, kind.calls_total, columns);
        [beside, counted, by_part(&kind.by_part, columns)].concat()
    }

    fn row(&self, kind: &CallKind) -> Line {
        let cells = self.shown.iter().map(|(column, width)| {
            let text = digits((column.cell)(kind), self.is_terminal);
            " ".repeat(width.saturating_sub(text.width())) + &text
        });
        let name = Line::new().add(short_title(kind, self.name), Paint::Bold);
        let gap = self.name.saturating_sub(name.width());
        let line = name.add(" ".repeat(gap), Paint::Plain);
        let line = line.add(cells.collect::<String>(), Paint::Plain);
        if self.parts_beside { line.add(format!("  {}", shares(kind)), Paint::Plain) } else { line }
    }

    fn left_out(&self, numbers: &str, width: usize) -> Vec<Line> {
        if self.left_out.is_empty() {
            return Vec::new();
        }
        let names = self.left_out.join(", ");
        let text =
            format!("left out: {names}; {} columns have room, and {numbers} has all", self.enough);
        let lines = wrap(&text, width, TEXT_LINES).into_iter();
        lines.map(|text| Line::new().add(text, Paint::Dim)).collect()
    }
}

fn title(kind: &CallKind) -> String {
    harmless(&about(&kind.call, kind.of.as_deref()))
}

/// The title in so many columns: what it is about is shortened.
fn short_title(kind: &CallKind, width: usize) -> String {
    let whole = title(kind);
    let around = about(&kind.call, Some("")).width();
    match &kind.of {
        Some(of) if whole.width() > width && around < width => {
            about(&kind.call, Some(&shorten(&harmless(of), width - around)))
        }
        _ => shorten(&whole, width),
    }
}

fn parts_below(kind: &CallKind, width: usize) -> Vec<Line> {
    let shares = shares(kind);
    if shares.is_empty() {
        Vec::new()
    } else {
        below(&format!("time: {shares}"), width, Paint::Plain)
    }
}

/// The waits for who is at the other end of a pipe or a socket, in words.
fn waits_at_ends(kind: &CallKind) -> Vec<(f64, String)> {
    let words = |end| idle_wait(&kind.call, Some(end)).map(str::to_string);
    kind.waits_at_ends()
        .into_iter()
        .filter_map(|(end, waited)| Some((waited, words(end)?)))
        .collect()
}

fn sum(waits: &[(f64, String)]) -> f64 {
    waits.iter().map(|(seconds, _)| seconds).sum()
}

/// Where the time of calls went, in words.
pub(crate) fn shares(kind: &CallKind) -> String {
    let percent = |seconds: f64| (100.0 * seconds / kind.time_seconds).round();
    let by_name = idle_wait(&kind.call, OtherEnd::named(kind.of.as_deref()));
    let at_ends = if by_name.is_some() { Vec::new() } else { waits_at_ends(kind) };
    let mut named: Vec<(f64, String)> = split(&kind.parts)
        .iter()
        .map(|share| {
            let idle = by_name;
            let words = match (idle.filter(|_| share.is_plain_wait()), share.is_wait) {
                (Some(idle), _) => idle.to_string(),
                (None, true) => format!("{} wait", share.part.name),
                (None, false) => share.part.name.clone(),
            };
            let rest = if share.is_plain_wait() { sum(&at_ends) } else { 0.0 };
            (share.seconds - rest, words)
        })
        .collect();
    named.extend(at_ends);
    named.push((run_queue(&kind.parts), "run queue".to_string()));
    named.retain(|(seconds, _)| *seconds >= kind.time_seconds * LEAST_SHARE && *seconds > 0.0);
    named.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = named.iter().take(PARTS_MOST).map(|(s, name)| format!("{name} {} %", percent(*s)));
    words.collect::<Vec<_>>().join(", ")
}
