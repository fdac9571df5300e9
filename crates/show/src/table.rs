//! The summary as a table for the terminal.
//!
//! Reads a summary; emits lines of at most the given width. What is exact is shown bare; a value
//! of lesser quality carries that word, and the reasons stand below, each once. Metrics that are
//! not known, and those that are exactly zero, take a line together rather than a line each.

use weigh_schema::amount::show_amount;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::metric_name;
use weigh_schema::summary::{LimitOutcome, Snapshot, Summary};
use weigh_schema::{Group, METRICS, Metric, Number, Quality, Unit, Value};

use unicode_width::UnicodeWidthStr;

use crate::allowed::words;
use crate::gpus;
use crate::machine;
use crate::moments::{SHOWN, moment};
use crate::outcome::{headline, limit_words};
use crate::text::{Line, Paint, cut_at_word, digits, harmless, shell_words, with_sizes, wrap};

/// How the table is to look.
#[derive(Clone, Copy, Debug)]
pub struct Style<'a> {
    /// Whether ANSI colours may be used.
    pub color: bool,
    /// Columns of the terminal.
    pub width: usize,
    /// Whether it is a terminal: in a file or a pipe numbers have plain digits.
    pub is_terminal: bool,
    /// Whether the recording was finished; if not, the table says so.
    pub complete: bool,
    /// Whether weigh is still writing it.
    pub is_running: bool,
    /// Where the recording lies, if there is one.
    pub recording: Option<&'a str>,
}

/// Below this width the table would be noise.
const LEAST_WIDTH: usize = 40;

/// Where the text of a note begins.
const NOTE_COLUMN: usize = 15;

/// The most snapshots that are shown.
const SNAPSHOTS_MOST: usize = 10;

/// The most lines a note may take; the whole text is in `summary.json`.
const NOTE_LINES: usize = 4;

/// The summary as a table, with a line end after its last line.
pub fn render(summary: &Summary, style: Style) -> String {
    let width = style.width.max(LEAST_WIDTH);
    let mut lines = header(summary, &style, width);
    lines.push(Line::new());
    lines.extend(metric_lines(summary, style.is_terminal, width));
    lines.extend(snapshot_lines(&summary.snapshots, width));
    let notes = notes(summary, width);
    if !notes.is_empty() {
        lines.push(Line::new());
        lines.extend(notes);
    }
    lines.iter().map(|line| line.render(width, style.color) + "\n").collect()
}

/// Every metric by its key, a line each: value in base units, unit, quality, and why it is no better.
pub fn render_keys(summary: &Summary) -> String {
    let line = |metric: &Metric| {
        let value = summary.metrics.get(metric.name)?;
        let number = value.value.map_or_else(
            || "-".to_string(),
            |number| match number {
                Number::Whole(whole) => whole.to_string(),
                Number::Real(real) => real.to_string(),
            },
        );
        let reason = value.reason.as_deref().map(|text| format!("  {}", harmless(text)));
        let reason = reason.unwrap_or_default();
        Some(format!("{} {number} {} {}{reason}\n", metric.name, metric.unit, value.quality))
    };
    METRICS.iter().filter_map(line).collect()
}

fn header(summary: &Summary, style: &Style, width: usize) -> Vec<Line> {
    let (words, paint) = headline(summary, style.is_running);
    let mut lines = paragraph("weigh", Paint::Bold, &words, paint, 7, width);

    let command = shell_words(&summary.job.command);
    lines.push(Line::new().pad_to(7).add(command, Paint::Plain));
    if let Some(place) = style.recording {
        lines.push(Line::new().pad_to(7).add(place, Paint::Dim));
    }
    if !style.complete {
        let text = match summary.exit {
            None if style.is_running => "what follows is what has been recorded so far",
            Some(_) if style.recording.is_none() => {
                "no recording: it could not be written; what follows is what was seen"
            }
            Some(_) => {
                "incomplete recording: not all of it could be written; what follows is what was seen"
            }
            None => {
                "incomplete recording: it has no end (weigh was killed, the machine went down, or the disk was full); what follows is what it had seen"
            }
        };
        lines.extend(paragraph("", Paint::Plain, text, Paint::Warn, 7, width));
    }
    for limit in summary.limits.iter().filter(|l| l.exceeded) {
        lines.extend(exceeded(limit, width));
    }
    lines
}

/// A limit that was crossed, and who crossed it.
fn exceeded(limit: &LimitOutcome, width: usize) -> Vec<Line> {
    let text = format!("{}: {}", limit.metric, limit_words(limit));
    let mut lines = paragraph("", Paint::Plain, &text, Paint::Bad, 7, width);
    if let Some(offender) = &limit.offender {
        let command = shell_words(&offender.command);
        let text = format!("by process {} ({}) {command}", offender.pid, offender.name);
        lines.push(Line::new().pad_to(7).add(text, Paint::Plain));
    }
    lines
}

/// A metric with its value, as far as both are known to this build.
struct Row<'a> {
    metric: &'static Metric,
    value: &'a Value,
    text: String,
}

/// The metrics that get a line of their own.
fn rows(summary: &Summary, is_terminal: bool) -> Vec<Row<'_>> {
    METRICS
        .iter()
        .filter(|metric| has_line(summary, metric))
        .filter_map(|metric| {
            let value = summary.metrics.get(metric.name)?;
            let number = value.number()?;
            (!is_plain_zero(value)).then(|| Row {
                metric,
                value,
                text: digits(show_amount(number, metric.unit), is_terminal),
            })
        })
        .collect()
}

/// Of the space that watched directories take, what the job has added is of interest, not what was there
/// before, unless a limit is set on the whole. What is free is of interest where it is little: a note says that.
fn has_line(summary: &Summary, metric: &Metric) -> bool {
    let growth = summary.metrics.get(metric_name::disk_growth_peak_bytes);
    let is_limited = || summary.limits.iter().any(|limit| limit.metric == metric.name);
    match metric.name {
        metric_name::disk_footprint_peak_bytes => {
            growth.is_none_or(|value| value.value.is_none()) || is_limited()
        }
        metric_name::disk_free_least_bytes | metric_name::disk_free_inodes_least => is_limited(),
        _ => true,
    }
}

/// Where something is left out of a value its reason says so, and 0 is not all that there is to say.
fn is_plain_zero(value: &Value) -> bool {
    value.quality == Quality::Exact && value.number() == Some(0.0) && value.reason.is_none()
}

fn metric_lines(summary: &Summary, is_terminal: bool, width: usize) -> Vec<Line> {
    let rows = rows(summary, is_terminal);
    // One column for both, names at its left and values at its right: long names seldom meet
    // long values, and what is saved is left to the help.
    let both = rows.iter().map(|row| row.metric.name.len() + 2 + row.text.width()).max();
    let values_end = 2 + both.unwrap_or(0);
    let mut lines = Vec::new();
    for group in Group::ALL {
        let mut members = rows.iter().filter(|row| row.metric.group == *group).peekable();
        if members.peek().is_some() {
            lines.push(Line::new().add(group.title(), Paint::Bold));
        }
        lines.extend(members.map(|row| metric_line(row, values_end, width)));
    }
    lines
}

fn snapshot_lines(snapshots: &[Snapshot], width: usize) -> Vec<Line> {
    if snapshots.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Line::new().add("Snapshots", Paint::Bold)];
    for moment in snapshots.iter().take(SNAPSHOTS_MOST).map(moment) {
        let label = format!("{} at {}", moment.label, moment.when);
        // A line is not to end between a number and its unit.
        let values = SHOWN.iter().zip(&moment.values).filter_map(|(name, value)| {
            value.as_ref().map(|value| format!("{name} {}", value.replace(' ', "\u{a0}")))
        });
        lines.push(Line::new().add("  ", Paint::Plain).add(label, Paint::Plain).add(
            cut_at_word(&format!("  {}", moment.because), width.saturating_sub(30)),
            Paint::Dim,
        ));
        let values: Vec<_> = values.collect();
        let wrapped = wrap(&values.join(", "), width - 4, NOTE_LINES);
        lines.extend(wrapped.into_iter().map(|part| Line::new().pad_to(4).add(part, Paint::Plain)));
    }
    if let Some(more) = snapshots.len().checked_sub(SNAPSHOTS_MOST).filter(|more| *more > 0) {
        let text = format!("  and {more} more, all in summary.json");
        lines.push(Line::new().add(text, Paint::Dim));
    }
    lines
}

fn metric_line(row: &Row, values_end: usize, width: usize) -> Line {
    let mut line = Line::new()
        .add("  ", Paint::Plain)
        .add(row.metric.name, Paint::Plain)
        .pad_to(values_end - row.text.width())
        .add(&row.text, Paint::Bold)
        .add("  ", Paint::Plain);
    if row.value.quality != Quality::Exact {
        line = line.add(row.value.quality.to_string(), Paint::Warn).add(" · ", Paint::Dim);
    }
    let left = width.saturating_sub(line.width());
    match left {
        0..12 => line,
        _ => line.add(cut_at_word(row.metric.help, left), Paint::Dim),
    }
}

fn notes(summary: &Summary, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for collector in &summary.collectors {
        lines.extend(collector_note(collector, width));
    }
    for limit in summary.limits.iter().filter(|l| !l.exceeded) {
        let text = format!("{}: {}", limit.metric, limit_words(limit));
        lines.extend(note("limit", Paint::Dim, &text, width));
    }
    let allowed = words(&summary.allowed);
    if !allowed.is_empty() {
        lines.extend(note("allowed", Paint::Dim, &allowed, width));
    }
    for text in gpus::words(summary) {
        lines.extend(note("GPU", Paint::Dim, &text, width));
    }
    for text in machine::words(summary) {
        lines.extend(note("machine", Paint::Warn, &text, width));
    }
    let mut said = "";
    for (word, names, reason) in reasons(summary) {
        let text = match reason {
            Some(reason) => format!("{}: {}", names.join(", "), with_sizes(reason)),
            None => names.join(", "),
        };
        let paint = if matches!(word, "zero" | "exact") { Paint::Dim } else { Paint::Warn };
        lines.extend(note(if word == said { "" } else { word }, paint, &text, width));
        said = word;
    }
    lines
}

/// Metrics that share a quality and a reason, in the order of the table.
fn reasons(summary: &Summary) -> Vec<(&'static str, Vec<String>, Option<&str>)> {
    let mut shared: Vec<(&str, Option<&str>, Vec<&'static Metric>)> = Vec::new();
    for metric in METRICS.iter().filter(|metric| has_line(summary, metric)) {
        let Some(value) = summary.metrics.get(metric.name) else { continue };
        let word = match value.quality {
            Quality::Unavailable => "not available",
            Quality::Estimated => "estimated",
            Quality::Sampled => "sampled",
            Quality::Exact if is_plain_zero(value) => "zero",
            Quality::Exact if value.reason.is_some() => "exact",
            Quality::Exact => continue,
        };
        let reason = value.reason.as_deref();
        match shared.iter_mut().find(|(w, r, _)| (*w, *r) == (word, reason)) {
            Some((_, _, metrics)) => metrics.push(metric),
            None => shared.push((word, reason, vec![metric])),
        }
    }
    const ORDER: [&str; 5] = ["estimated", "sampled", "exact", "zero", "not available"];
    ORDER
        .iter()
        .flat_map(|word| shared.iter().filter(move |(w, _, _)| w == word).map(move |s| (*word, s)))
        .map(|(word, (_, reason, metrics))| (word, names_of(summary, metrics), *reason))
        .collect()
}

/// The names of these metrics, a group that is there with all its metrics named once.
fn names_of(summary: &Summary, metrics: &[&'static Metric]) -> Vec<String> {
    let mut names = Vec::new();
    for group in Group::ALL {
        let of_group = |m: &&'static Metric| m.group == *group;
        let here: Vec<_> = metrics.iter().copied().filter(of_group).collect();
        let all = METRICS.iter().filter(of_group).filter(|m| has_line(summary, m)).count();
        if here.len() == all && all > 1 {
            names.push(format!("all of {}", group.title()));
        } else {
            names.extend(here.iter().map(|m| m.name.to_string()));
        }
    }
    names
}

fn collector_note(collector: &CollectorStatus, width: usize) -> Vec<Line> {
    let named = format!("{} ({})", collector.name, collector.mechanism);
    let mut lines = Vec::new();
    if collector.lost > 0 {
        let text = format!("{} events of {named}", show_amount(collector.lost as f64, Unit::Count));
        lines.extend(note("lost", Paint::Bad, &text, width));
    }
    if collector.status == CollectorState::Degraded {
        let reason = collector.reason.as_deref().unwrap_or("no reason given");
        lines.extend(note("degraded", Paint::Warn, &format!("{named}: {reason}"), width));
    }
    lines
}

fn note(word: &str, paint: Paint, text: &str, width: usize) -> Vec<Line> {
    paragraph(word, paint, text, Paint::Plain, NOTE_COLUMN, width)
}

/// A word, and beside it text that is wrapped at `column`.
fn paragraph(
    word: &str,
    word_paint: Paint,
    text: &str,
    paint: Paint,
    column: usize,
    width: usize,
) -> Vec<Line> {
    // Lines that go on are set in, so that what begins stands out.
    wrap(text, width - column - 2, NOTE_LINES)
        .into_iter()
        .enumerate()
        .map(|(i, part)| match i {
            0 => Line::new().add(word, word_paint).pad_to(column).add(part, paint),
            _ => Line::new().pad_to(column + 2).add(part, paint),
        })
        .collect()
}
