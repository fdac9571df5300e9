//! What `weigh calls` found, as text for the terminal: the table, the slowest calls in a sentence
//! each, what could not be seen.

pub mod docs;
mod functions;
mod greatest;
mod shares;
mod slowest;
mod table;
mod under_way;
mod words;

use weigh_schema::Mechanism;
use weigh_schema::Unit;
use weigh_schema::amount::{show_amount, show_number_of};
use weigh_schema::call::{CallKind, CallsReport, Grouping};

use crate::io::Extent;
use crate::text::{Line, Paint, Screen, more_rows, wrap};
use slowest::slow_lines;
use words::{TEXT_LINES, about, seconds};

pub(crate) use greatest::greatest;
pub use slowest::sentence;
pub(crate) use slowest::{OWN, RUNNABLE};
pub(crate) use table::shares as parts_in_words;

/// Below this width the table would be noise.
const LEAST_WIDTH: usize = 60;

/// Idle kinds of calls that are named.
const IDLE_MOST: usize = 5;

/// How many things that a kind of calls left behind found no room, in `later`.
const LOST_LATER: &str = "lost_total";

/// So many lines on calls stand below what else is shown of a recording.
const LINES_RECORDED: usize = 14;

/// What shows the report: its first words, and what a reader types for more.
#[derive(Clone, Copy)]
struct Context {
    title: &'static str,
    /// All kinds of calls, and notes.
    all: &'static str,
    /// Kinds of calls that waited for others.
    idle: &'static str,
    /// All numbers.
    numbers: &'static str,
    /// Fewer parts of the kernel.
    parts: &'static str,
}

const OF_CALLS: Context = Context {
    title: "weigh  ",
    all: "--all",
    idle: "--idle",
    numbers: "--json",
    parts: "--subsystems",
};

const OF_RECORDING: Context = Context {
    title: "Calls  ",
    all: "--details",
    idle: "--details",
    numbers: "calls.json",
    parts: "--calls=LIST",
};

/// The report of a recording, below what else is shown of it; whole with `details`.
pub fn render_recorded(report: &CallsReport, details: bool, screen: Screen) -> String {
    let extent = if details { Extent::All(usize::MAX) } else { Extent::Lines(LINES_RECORDED) };
    String::from("\n") + &render_in(OF_RECORDING, report, extent, details, screen)
}

/// The report as text, with a line end after its last line. Kinds of calls that waited for others stand in the table
/// if that is wanted, else in a line.
pub fn render(report: &CallsReport, extent: Extent, with_idle: bool, screen: Screen) -> String {
    render_in(OF_CALLS, report, extent, with_idle, screen)
}

fn render_in(
    context: Context,
    report: &CallsReport,
    extent: Extent,
    with_idle: bool,
    screen: Screen,
) -> String {
    let screen = screen.at_least(LEAST_WIDTH);
    let (busy, idle) = without_idle(context, report).filter(|_| !with_idle).unzip();
    let report = busy.as_ref().unwrap_or(report);
    let idle = idle.as_deref();
    screen.render(&match extent {
        Extent::Lines(most) => short(context, report, idle, most, screen),
        Extent::Rows(rows) | Extent::All(rows) => whole(context, report, idle, rows, screen),
    })
}

/// The report without kinds of calls that were idle, and a line about them; none where none was.
fn without_idle(context: Context, report: &CallsReport) -> Option<(CallsReport, String)> {
    let (idle, busy): (Vec<_>, Vec<_>) =
        report.calls.iter().cloned().partition(|kind: &CallKind| kind.is_idle());
    let name = |kind: &CallKind| {
        format!("{} {}", about(&kind.call, kind.of.as_deref()), seconds(kind.time_seconds))
    };
    let mut names: Vec<String> = idle.iter().take(IDLE_MOST).map(name).collect();
    let more = idle.len().saturating_sub(IDLE_MOST) as u64;
    names.extend(
        (more > 0).then(|| format!("and {}", show_number_of(more, "more kind", "more kinds"))),
    );
    let text = format!("idle, and not in the table ({}): {}", context.idle, names.join(", "));
    (!idle.is_empty()).then(|| (CallsReport { calls: busy, ..report.clone() }, text))
}

fn idle_lines(idle: Option<&str>, width: usize) -> Vec<Line> {
    let lines = idle.map(|text| wrap(text, width, TEXT_LINES)).unwrap_or_default();
    lines.into_iter().map(|text| Line::new().add(text, Paint::Dim)).collect()
}

/// Kinds of calls as far as there is room, what is under way, the slowest where they were asked for, and what it took to see them.
fn short(
    context: Context,
    report: &CallsReport,
    idle: Option<&str>,
    most: usize,
    screen: Screen,
) -> Vec<Line> {
    let width = screen.columns;
    let mut lines = headline(context.title, report, width);
    lines.push(Line::new());
    let mut below = idle_lines(idle, width);
    below.extend(under_way::lines(report, width));
    // They were asked for.
    let slowest = slowest(report, width);
    below.extend(cost_in_short(context, report).map(|text| Line::new().add(text, Paint::Dim)));
    let room = most.saturating_sub(lines.len() + below.len() + 1);
    let (rows, shown) = table::short(&report.calls, room, screen);
    lines.extend(rows);
    if let Some(more) = more_rows(shown, report.calls.len(), "kind of calls", "kinds of calls") {
        lines.push(Line::new().add(more, Paint::Dim));
    }
    lines.extend(slowest);
    lines.extend(below);
    lines
}

fn slowest(report: &CallsReport, width: usize) -> Vec<Line> {
    if report.slowest.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Line::new(), Line::new().add("slowest", Paint::Bold)];
    lines.extend(report.slowest.iter().flat_map(|call| slow_lines(call, width)));
    lines
}

/// What it took to see the calls, and that there is more to say.
fn cost_in_short(context: Context, report: &CallsReport) -> Option<String> {
    let taken = report.cost.map(|cost| {
        let all = cost.followed_seconds * report.calls_total as f64;
        format!("to be followed took about {} of it", seconds(all))
    });
    let notes = texts(context, report).len() as u64;
    let notes =
        (notes > 0).then(|| format!("{}: {}", show_number_of(notes, "note", "notes"), context.all));
    let parts: Vec<String> = taken.into_iter().chain(notes).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn whole(
    context: Context,
    report: &CallsReport,
    idle: Option<&str>,
    rows: usize,
    screen: Screen,
) -> Vec<Line> {
    let width = screen.columns;
    let mut lines = headline(context.title, report, width);
    lines.push(Line::new());
    let kinds = &report.calls[..report.calls.len().min(rows)];
    lines.extend(table::lines(kinds, context.numbers, screen));
    if let Some(more) = more_rows(rows, report.calls.len(), "kind of calls", "kinds of calls") {
        lines.push(Line::new().add(more, Paint::Dim));
    }
    lines.extend(idle_lines(idle, width));
    lines.extend(under_way::lines(report, width));
    lines.extend(slowest(report, width));
    lines.extend(cost(report, width));
    lines.extend(functions::lines(report, width));
    lines.extend(notes(context, report, width));
    lines
}

fn headline(title: &str, report: &CallsReport, width: usize) -> Vec<Line> {
    let text = headline_text(report);
    let wrapped =
        wrap(&text, width.saturating_sub(title.len()), TEXT_LINES).into_iter().enumerate();
    let before = |i: usize| if i == 0 { title.to_string() } else { " ".repeat(title.len()) };
    let line = |(i, text)| Line::new().add(before(i), Paint::Bold).add(text, Paint::Plain);
    wrapped.map(line).collect()
}

/// How many there were, of whom, and what came of them.
pub(crate) fn headline_text(report: &CallsReport) -> String {
    let whose = match (report.threads_total, report.pid) {
        (_, Some(pid)) => format!("of process {pid}"),
        (1, _) => "of one thread".to_string(),
        (threads, _) => format!("of {}", show_number_of(threads, "thread", "threads")),
    };
    let calls = show_number_of(report.calls_total, "call", "calls");
    format!("{calls} {whose} in {}{}", seconds(report.wall_seconds), written(report))
}

/// What is added to a call is a matter of nanoseconds.
fn nanoseconds(value: f64) -> String {
    if value < 10e-6 { format!("{:.0} ns", value * 1e9) } else { seconds(value) }
}

/// What the mechanism costs.
fn cost(report: &CallsReport, width: usize) -> Vec<Line> {
    let Some(cost) = report.cost else { return Vec::new() };
    let text = format!(
        "to be followed costs each call {} beyond what it does, and each of any other thread {}, measured here with \
         a call that does nothing: about {} for all of them",
        nanoseconds(cost.followed_seconds),
        nanoseconds(cost.others_seconds),
        seconds(cost.followed_seconds * report.calls_total as f64),
    );
    let lines = wrap(&text, width, TEXT_LINES).into_iter();
    std::iter::once(Line::new())
        .chain(lines.map(|text| Line::new().add(text, Paint::Plain)))
        .collect()
}

/// What came of them on storage.
fn written(report: &CallsReport) -> String {
    let bytes = |bytes: Option<u64>| show_amount(bytes.unwrap_or(0) as f64, Unit::Bytes);
    match (report.storage_written_bytes_total, report.storage_to_come_bytes) {
        (None | Some(0), _) => String::new(),
        (total, None | Some(0)) => format!(", {} written to storage", bytes(total)),
        (total, to_come) => {
            format!(", {} written to storage, {} of it not yet", bytes(total), bytes(to_come))
        }
    }
}

/// What found no room, told apart as far as the rows say what of it calls had left behind.
fn lost(context: Context, report: &CallsReport) -> Vec<String> {
    let of = |kind: &CallKind| kind.later.get(LOST_LATER).map_or(0.0, |number| number.as_f64());
    let left_behind = report.calls.iter().map(of).sum::<f64>() as u64;
    let left_behind = left_behind.min(report.lost_total);
    let others = report.lost_total - left_behind;
    let mut texts = Vec::new();
    if left_behind > 0 {
        texts.push(format!(
            "lost: {} that calls left behind (dirty pages, packets, requests, timers) found no room: what that \
             cost later is missing in `later`. Fewer parts ({}) leave less behind",
            show_number_of(left_behind, "thing", "things"),
            context.parts,
        ));
    }
    if others > 0 {
        let rows = match report.grouping {
            Grouping::Call => {
                format!("Fewer threads at once, or fewer parts ({}), need less room", context.parts)
            }
            _ => "The table has an end: --by call needs fewer rows".to_string(),
        };
        texts.push(format!(
            "lost: {} found no room: their numbers, or the names of what they are about, are missing above. {rows}",
            show_number_of(others, "call or thread", "calls or threads"),
        ));
    }
    texts
}

fn notes(context: Context, report: &CallsReport, width: usize) -> Vec<Line> {
    let texts = texts(context, report);
    if texts.is_empty() {
        return Vec::new();
    }
    let wrapped = texts.iter().flat_map(|text| wrap(text, width, TEXT_LINES));
    let lines = wrapped.map(|text| Line::new().add(text, Paint::Warn));
    std::iter::once(Line::new()).chain(lines).collect()
}

/// What is missing or less than exact of a recording, and why.
pub(crate) fn notes_on_recorded(report: &CallsReport) -> Vec<String> {
    texts(OF_RECORDING, report)
}

/// What is missing or less than exact, and why.
fn texts(context: Context, report: &CallsReport) -> Vec<String> {
    let mut texts = Vec::new();
    if report.lost_total > 0 {
        texts.extend(lost(context, report));
    }
    if report.untold_total > 0 {
        texts.push(format!(
            "not told one by one: {} came faster than weigh reads, and stand in the table alone",
            show_number_of(report.untold_total, "call", "calls")
        ));
    }
    if report.missed_returns_total > 0 {
        texts.push(format!(
            "missed: {} of functions; the time after that may be counted to the functions' part",
            show_number_of(report.missed_returns_total, "return", "returns")
        ));
    }
    if report.missed_arrivals_total > 0 {
        let instead = match report.mechanism {
            Mechanism::Preload => "its wait may be in the remainder",
            _ => "a little of what followed is in its wait",
        };
        texts.push(format!(
            "missed: {} of a thread to a CPU, of which the kernel did not tell; {instead}",
            show_number_of(report.missed_arrivals_total, "return", "returns")
        ));
    }
    // What is missing for the same reason is named together.
    let mut missing: Vec<(Vec<&str>, String)> = Vec::new();
    for subsystem in report.subsystems.iter().filter(|s| !s.missing.is_empty()) {
        let what = if subsystem.probes == 0 { "unavailable" } else { "in part" };
        let reason = format!("{what}: {}", subsystem.missing.join("; "));
        match missing.iter_mut().find(|(_, known)| *known == reason) {
            Some((names, _)) => names.push(&subsystem.name),
            None => missing.push((vec![&subsystem.name], reason)),
        }
    }
    texts.extend(missing.iter().map(|(names, reason)| format!("{} {reason}", names.join(", "))));
    texts.extend(report.counters.iter().filter_map(|counter| {
        Some(format!("{} unavailable: {}", counter.name, counter.unavailable.as_ref()?))
    }));
    texts.extend(report.notes.iter().cloned());
    texts
}
