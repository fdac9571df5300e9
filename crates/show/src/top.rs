//! The screen of `weigh top`: the node, its cores as one row, jobs and processes.
//!
//! Reads a [`TopReport`] and what the user has chosen; emits a buffer of cells. What is not known is shown as `–`, never
//! as 0. Names are escaped: nothing in them steers a terminal.

mod node_lines;
mod rows;
#[cfg(test)]
mod tests;
mod view;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::Line;
use weigh_schema::printable::printable;
use weigh_schema::top::TopReport;

pub use view::{SortKey, TopView};

/// Draws a report.
pub fn draw(report: &TopReport, view: &TopView, columns: u16, rows: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let mut lines = node_lines::lines(report, view.color, usize::from(columns));
    let head_lines = lines.len();
    lines.extend(table(report, view, usize::from(columns)));
    let room = usize::from(rows).saturating_sub(1);
    let body = lines.split_off(head_lines.min(lines.len()));
    let shown = body.into_iter().take(room.saturating_sub(lines.len()));
    for (y, line) in lines.into_iter().take(room).chain(shown).enumerate() {
        buffer.set_line(0, y as u16, &line, columns);
    }
    if let Some(last) = rows.checked_sub(1) {
        buffer.set_line(0, last, &help(view), columns);
    }
    buffer
}

/// The same as text, every row of it: for a file or a pipe.
pub fn text(report: &TopReport, columns: usize) -> String {
    let view = TopView::default();
    let mut lines = node_lines::lines(report, false, columns);
    lines.extend(table(report, &view, columns));
    let columns = u16::try_from(columns).unwrap_or(u16::MAX);
    let line = |line: &Line<'_>| {
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, 1));
        buffer.set_line(0, 0, line, columns);
        let text: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        text.trim_end().to_string() + "\n"
    };
    lines.iter().map(line).collect()
}

/// How many rows the filter leaves.
pub fn row_count(report: &TopReport, view: &TopView) -> usize {
    match view.shows_collectors {
        true => report.collectors.len(),
        false => rows::chosen(report, view).len(),
    }
}

fn table(report: &TopReport, view: &TopView, columns: usize) -> Vec<Line<'static>> {
    match view.shows_collectors {
        true => rows::collector_lines(report, view, columns),
        false => rows::process_lines(report, view, columns),
    }
}

fn help(view: &TopView) -> Line<'static> {
    let style = Style::new().add_modifier(Modifier::DIM);
    match view.is_typing {
        true => Line::raw(format!("filter: {}_", printable(&view.filter))),
        false if !view.filter.is_empty() => Line::styled(
            format!("filter '{}'   / change   Esc all   q quit", printable(&view.filter)),
            style,
        ),
        false => Line::styled(
            "q quit  sort: c CPU m memory t threads p PID  / filter  a everybody  s collectors",
            style,
        ),
    }
}
