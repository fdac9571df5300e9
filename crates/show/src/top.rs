//! The screen of `weigh top`: the node, its cores as one row, rules, jobs and processes; a job, a process.
//!
//! Reads a [`TopReport`], a [`TopDetail`] and what the user has chosen; emits a buffer of cells. What is not known is shown
//! as `–`, never as 0. Names are escaped: nothing in them steers a terminal.

mod busiest_lines;
mod detail_rows;
mod key_lines;
mod node_lines;
mod program_lines;
mod published_lines;
mod rows;
mod rule_lines;
mod table;
#[cfg(test)]
mod tests;
mod view;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::Line;
use weigh_schema::printable::printable;
use weigh_schema::top::TopReport;
use weigh_schema::top_detail::TopDetail;

pub(crate) use rows::collector_line;
use table::TopTable;
pub use view::{SortKey, TopList, TopView};

/// Draws a report; of a job or a process its detail.
pub fn draw(
    report: &TopReport,
    detail: Option<&TopDetail>,
    view: &TopView,
    columns: u16,
    rows: u16,
) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let width = usize::from(columns);
    let room = usize::from(rows).saturating_sub(1);
    let mut lines = head(report, view, width);
    let table = TopTable::new(report, detail, view, width);
    lines.truncate(room);
    let left = room - lines.len();
    lines.extend(table.lines(view.row, left, width));
    for (y, line) in lines.into_iter().take(room).enumerate() {
        buffer.set_line(0, y as u16, &line, columns);
    }
    if let Some(last) = rows.checked_sub(1) {
        buffer.set_line(0, last, &help(view), columns);
    }
    buffer
}

/// The node; below a job or a process, one line of it.
fn head(report: &TopReport, view: &TopView, columns: usize) -> Vec<Line<'static>> {
    let mut lines = node_lines::lines(report, view.color, columns);
    if matches!(
        view.list,
        TopList::Job(_) | TopList::Process(_) | TopList::Busiest(_) | TopList::Keys
    ) {
        lines.truncate(1);
    }
    if view.list != TopList::Rules {
        lines.extend(rule_lines::holding(report, view.color, columns));
    }
    if view.list == TopList::Processes {
        let counts = [published_lines::count(report), program_lines::count(report)];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        let line = (!counts.is_empty()).then(|| counts.join(", ") + " (v: all)");
        lines.extend(line.map(Line::raw));
    }
    lines
}

/// The same as text, every row of it: for a file or a pipe.
pub fn text(report: &TopReport, columns: usize) -> String {
    let view = TopView::default();
    let mut lines = node_lines::lines(report, false, columns);
    lines.extend(rule_lines::all_true(report, columns));
    lines.extend(published_lines::first(report, columns).into_iter().map(Line::raw));
    let programs = program_lines::list(report, columns);
    let end = (!programs.is_empty()).then(String::new);
    lines.extend(programs.into_iter().chain(end).map(Line::raw));
    lines.extend(busiest_lines::first(report, columns).into_iter().map(Line::raw));
    lines.extend(TopTable::new(report, None, &view, columns).all_lines(columns));
    as_text(&lines, columns)
}

/// A job and all of its processes as text.
pub fn detail_text(detail: &TopDetail, columns: usize) -> String {
    as_text(&table::detail_lines(detail, columns), columns)
}

fn as_text(lines: &[Line<'static>], columns: usize) -> String {
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
pub fn row_count(report: &TopReport, detail: Option<&TopDetail>, view: &TopView) -> usize {
    TopTable::new(report, detail, view, 80).row_count()
}

/// What the chosen row is about: what Enter opens.
pub fn chosen(report: &TopReport, detail: Option<&TopDetail>, view: &TopView) -> Option<TopList> {
    match view.list {
        TopList::Processes => match rows::node_rows(report, view).get(view.row)? {
            rows::NodeRow::Job(job) if job.group.is_some() => None,
            rows::NodeRow::Job(job) => Some(TopList::Job(job.pid)),
            rows::NodeRow::Process(process) => Some(TopList::Process(process.pid)),
        },
        TopList::Job(_) => {
            let rows = detail_rows::chosen(detail?, view);
            rows.get(view.row).map(|row| TopList::Process(row.process.pid))
        }
        _ => None,
    }
}

fn help(view: &TopView) -> Line<'static> {
    let filter = printable(&view.filter);
    match (view.is_typing, view.list) {
        (true, _) => Line::raw(format!("filter: {filter}_   Enter keep  Esc all")),
        (_, list) => {
            let words = match view.filter.is_empty() {
                true => key_lines::short(list).to_string(),
                false => format!("filter '{filter}'   / change  Esc all  q quit"),
            };
            Line::styled(words, Style::new().add_modifier(Modifier::DIM))
        }
    }
}
