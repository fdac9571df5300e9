//! A summary in at most twelve lines of words; sixteen with limits, network, GPU or failures.
//!
//! Reads a summary; emits labelled rows, most wanted first. A row is made of parts: what does not fit the width is
//! left out from its end, never cut. A value that is not exact carries "±". [`crate::table`] has everything else.

mod advice;
mod row;
mod rows;

use weigh_schema::summary::Summary;

use crate::outcome::headline;
use crate::table::Style;
use crate::text::{Paint, shell_words, shorten};
use unicode_width::UnicodeWidthStr;

pub use advice::advice;
use row::{COLUMN, Need, Row};

/// Below this width words would not fit.
const LEAST_WIDTH: usize = 60;

/// The most lines.
const LINES: usize = 12;

/// The most lines where there are limits, network, a GPU or failures.
const LINES_WITH_MORE: usize = 16;

/// Where more is to be found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// The page of the recording, if it could be written.
    pub report: Option<&'a str>,
    /// Whether the user has just typed the command: it need not be told where it is long.
    pub is_command_known: bool,
}

/// The digest as text, with a line end after its last line.
pub fn render(summary: &Summary, style: Style, sources: Sources) -> String {
    let width = style.width.max(LEAST_WIDTH);
    let mut rows = head(summary, &style, sources, width);
    rows.extend(rows::rows(summary, style.is_terminal));
    rows.extend(advice(summary).map(|text| Row::new("advice", Need::Hint, vec![text])));
    rows.extend(rows::qualities(summary, style.recording));
    rows.extend(place(&style, sources));
    make_room(&mut rows);
    // A path is whole: it is there to be used.
    let whole = |row: &Row| matches!(row.label, "report" | "recording");
    let columns = |row: &Row| if whole(row) { usize::MAX } else { width };
    let text = |row: &Row| row.line(width).render(columns(row), style.color) + "\n";
    rows.iter().map(text).collect()
}

/// The labels and texts of the rows between how the job ended and the advice, for a page: as long as they are.
pub(crate) fn labelled(summary: &Summary) -> Vec<[String; 2]> {
    let rows = rows::rows(summary, true).into_iter().chain(rows::qualities(summary, None));
    rows.map(|row| [row.label.to_string(), row.text()]).collect()
}

/// How it ended, what it was, and whether that is all.
fn head(summary: &Summary, style: &Style, sources: Sources, width: usize) -> Vec<Row> {
    let (words, paint) = headline(summary, style.is_running);
    let command = shell_words(&summary.job.command);
    let beside = format!("{words}: {command}");
    let row = |text: String| Row::new("weigh", Need::Always, vec![text]).painted(paint);
    let mut rows = match COLUMN + beside.width() <= width {
        true => vec![row(beside)],
        false if sources.is_command_known => rows::wrapped(row(words), width, 2),
        false => {
            let mut rows = rows::wrapped(row(words), width, 2);
            let command = shorten(&command, width - COLUMN);
            rows.push(Row::new("command", Need::Always, vec![command]));
            rows
        }
    };
    if !style.complete {
        let text = match summary.exit {
            None if style.is_running => "what follows is what has been recorded so far",
            Some(_) if style.recording.is_none() => "no recording: it could not be written",
            Some(_) => "incomplete recording: not all of it could be written",
            None => "incomplete recording: it has no end; what follows is what was seen",
        };
        let row = Row::new("", Need::More, vec![text.to_string()]);
        rows.extend(rows::wrapped(row.painted(Paint::Warn), width, 2));
    }
    rows
}

fn place(style: &Style, sources: Sources) -> Option<Row> {
    let report = sources.report.map(|path| ("report", path));
    let (label, path) = report.or(style.recording.map(|path| ("recording", path)))?;
    Some(Row::new(label, Need::Always, vec![path.to_string()]))
}

/// Leaves out what can be spared.
fn make_room(rows: &mut Vec<Row>) {
    let most = match rows.iter().any(|row| row.need == Need::More) {
        true => LINES_WITH_MORE,
        false => LINES,
    };
    while rows.len() > most {
        let last = rows.iter().map(|row| row.need).max().unwrap_or(Need::Always);
        let Some(place) = rows.iter().rposition(|row| row.need == last) else { return };
        if last == Need::Always {
            return;
        }
        rows.remove(place);
    }
}
