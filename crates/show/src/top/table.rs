//! The table below the lines about the node: its title, its rows, and what stands between.

use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::Line;
use weigh_schema::top::TopReport;
use weigh_schema::top_detail::TopDetail;

use super::busiest_lines::{self, BusiestForm};
use super::view::{TopList, TopView};
use super::{detail_rows, key_lines, program_lines, published_lines, rows, rule_lines};

pub(super) struct TopTable {
    /// Above the title.
    before: Vec<String>,
    title: Option<String>,
    rows: Vec<String>,
    /// In place of rows, where there are none.
    none: String,
    /// Behind the rows.
    after: Option<String>,
    /// Whether one row can be chosen; else the list begins at it.
    has_choice: bool,
}

/// Values, then regions of programs.
fn published_list(report: &TopReport, columns: usize) -> Vec<String> {
    let mut lines = published_lines::list(report, columns);
    lines.extend(program_lines::list(report, columns));
    lines
}

impl TopTable {
    pub fn new(
        report: &TopReport,
        detail: Option<&TopDetail>,
        view: &TopView,
        columns: usize,
    ) -> TopTable {
        match view.list {
            TopList::Processes => TopTable::processes(report, view, columns),
            TopList::Collectors => TopTable::list(
                rows::collector_title(),
                rows::collector_lines(report, columns),
                "no collector",
            ),
            TopList::Rules => TopTable::list(
                rule_lines::title(),
                rule_lines::list(report, columns),
                "no rule holds, and all can be judged",
            ),
            TopList::Published => TopTable::list(
                published_lines::title(),
                published_list(report, columns),
                "nobody has published a value in the last minute, or no agent runs: weigh push",
            ),
            TopList::Keys => TopTable::list("KEYS".to_string(), key_lines::all(), ""),
            TopList::Busiest(job) => TopTable::busiest(report, view, job, columns),
            TopList::Job(pid) => TopTable::job(pid, detail, view, columns),
            TopList::Process(pid) => {
                let process = detail.and_then(|detail| detail.processes.first());
                let lines = process.map(|process| detail_rows::process_lines(process, columns));
                TopTable {
                    title: None,
                    ..TopTable::list(
                        String::new(),
                        lines.unwrap_or_default(),
                        &gone("process", pid),
                    )
                }
            }
        }
    }

    fn list(title: String, rows: Vec<String>, none: &str) -> TopTable {
        TopTable {
            before: Vec::new(),
            title: Some(title),
            rows,
            none: none.to_string(),
            after: None,
            has_choice: false,
        }
    }

    fn processes(report: &TopReport, view: &TopView, columns: usize) -> TopTable {
        let none = match view.filter.is_empty() {
            true => "no process of this user; a: everybody's",
            false => "no process has that",
        };
        let shown = rows::node_rows(report, view);
        let is_process = |row: &rows::NodeRow<'_>| matches!(row, rows::NodeRow::Process(_));
        let is_without_processes = !shown.iter().any(is_process);
        let rows = shown.into_iter().map(|row| rows::node_row(row, columns)).collect();
        let unreadable = report.processes_unreadable;
        let after = match (is_without_processes, unreadable) {
            (true, 0) => Some(none.to_string()),
            (_, 0) => None,
            (_, count) => Some(format!("{count} more cannot be read")),
        };
        let before = rows::job_head(report, columns);
        let table = TopTable::list(rows::process_title(), rows, "");
        TopTable { before, after, has_choice: true, ..table }
    }

    fn job(pid: u32, detail: Option<&TopDetail>, view: &TopView, columns: usize) -> TopTable {
        let Some(detail) = detail else {
            return TopTable::list(detail_rows::job_title(), Vec::new(), &gone("job", pid));
        };
        let rows = detail_rows::chosen(detail, view);
        let rows = rows.into_iter().map(|row| detail_rows::job_row(row, columns)).collect();
        let none = if view.filter.is_empty() { "it has no process" } else { "no process has that" };
        TopTable {
            before: detail_rows::job_head(detail, columns),
            has_choice: true,
            ..TopTable::list(detail_rows::job_title(), rows, none)
        }
    }

    fn busiest(report: &TopReport, view: &TopView, job: Option<u32>, columns: usize) -> TopTable {
        let form = BusiestForm {
            columns,
            is_of_one: job.is_some(),
            filter: &view.filter,
            most: usize::MAX,
        };
        let none = "reading the recordings of the jobs";
        TopTable {
            before: job
                .map(|pid| busiest_lines::job_line(report, pid, columns))
                .into_iter()
                .collect(),
            ..TopTable::list(form.title(), form.lines(report), none)
        }
    }

    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// So many lines of it that the chosen row is among them.
    pub fn lines(&self, row: usize, room: usize, columns: usize) -> Vec<Line<'static>> {
        let mut lines = self.head(columns);
        let row = row.min(self.rows.len().saturating_sub(1));
        let left = room.saturating_sub(lines.len()).max(1);
        let first = match self.has_choice {
            true => (row + 1).saturating_sub(left),
            false => row,
        };
        let shown = self.rows.iter().enumerate().skip(first).take(left);
        lines.extend(shown.map(|(number, text)| {
            let is_chosen = self.has_choice && number == row;
            let style = match is_chosen {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => Style::new(),
            };
            let text = if is_chosen { format!("{text:<columns$}") } else { text.clone() };
            Line::styled(text, style)
        }));
        lines.extend(self.foot());
        lines
    }

    /// All of it.
    pub fn all_lines(&self, columns: usize) -> Vec<Line<'static>> {
        let rows = self.rows.iter().cloned().map(Line::raw);
        self.head(columns).into_iter().chain(rows).chain(self.foot()).collect()
    }

    fn head(&self, columns: usize) -> Vec<Line<'static>> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut lines: Vec<Line<'static>> = self.before.iter().cloned().map(Line::raw).collect();
        let title = self.title.as_ref();
        lines.extend(title.map(|title| Line::styled(format!("{title:<columns$}"), bold)));
        lines
    }

    fn foot(&self) -> Vec<Line<'static>> {
        let none = self.rows.is_empty().then(|| self.none.clone());
        let lines = none.filter(|none| !none.is_empty()).into_iter().chain(self.after.clone());
        lines.map(Line::raw).collect()
    }
}

fn gone(what: &str, pid: u32) -> String {
    format!("{what} {pid} is not there any more, or not looked at yet; Esc: back")
}

/// A job and all of its processes.
pub(super) fn detail_lines(detail: &TopDetail, columns: usize) -> Vec<Line<'static>> {
    let mut lines = detail_rows::job_head(detail, columns);
    for process in &detail.processes {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(detail_rows::process_lines(process, columns));
    }
    lines.into_iter().map(Line::raw).collect()
}
