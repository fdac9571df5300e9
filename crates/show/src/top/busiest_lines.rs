//! The lines about what jobs are busy with: files, connections, phases and syscalls, those that take most time first.

use unicode_width::UnicodeWidthStr as _;
use weigh_schema::amount::{show_seconds, show_size};
use weigh_schema::busiest::{Amounts, BusiestKind, BusiestReport, BusiestRow};
use weigh_schema::printable::{ShellWords, printable};
use weigh_schema::top::{TopJobKind, TopReport};

use super::rows::{cores, measured_command};
use super::view::UNKNOWN;
use crate::text::{cut, shorten};

/// Columns of all but the name, of all jobs and of one.
const NUMBERS: usize = 56;
const NUMBERS_OF_ONE: usize = 48;
/// The shortest name.
const LEAST_NAME: usize = 12;

/// A kind of rows.
struct KindRows<'a> {
    title: &'static str,
    found: &'a BusiestKind,
    /// Whether bytes are moved.
    has_bytes: bool,
    /// What records it.
    command: &'static str,
}

fn kinds(report: &BusiestReport) -> [KindRows<'_>; 4] {
    let kind = |title, found, has_bytes, command| KindRows { title, found, has_bytes, command };
    [
        kind("files", &report.files, true, "weigh run --io"),
        kind("connections and pipes", &report.connections, true, "weigh run --io"),
        kind("phases and regions", &report.phases, false, "programs that name them"),
        kind("syscalls", &report.syscalls, false, "weigh run --calls"),
    ]
}

/// How the list is made.
#[derive(Clone, Copy)]
pub(super) struct BusiestForm<'a> {
    pub columns: usize,
    /// Of one job alone, which need not be named.
    pub is_of_one: bool,
    /// A part of the names.
    pub filter: &'a str,
    /// Rows of a kind.
    pub most: usize,
}

impl BusiestForm<'_> {
    fn name_columns(&self) -> usize {
        let numbers = if self.is_of_one { NUMBERS_OF_ONE } else { NUMBERS };
        self.columns.saturating_sub(numbers).max(LEAST_NAME)
    }

    pub fn title(&self) -> String {
        let job = if self.is_of_one { "" } else { "     JOB" };
        let width = self.name_columns();
        let (time, calls, total) = ("TIME%", "CALLS/s", "SO FAR");
        format!(
            "{:<width$} {time:>6} {:>10} {:>10} {calls:>8} {total:>9}{job}",
            "NAME", "READ/s", "WRITTEN/s"
        )
    }

    /// All kinds, each below its own heading.
    pub fn lines(&self, report: &TopReport) -> Vec<String> {
        let Some(busiest) = report.busiest.as_deref() else { return Vec::new() };
        let mut lines: Vec<String> = unread(report, busiest, self.is_of_one).into_iter().collect();
        for kind in kinds(busiest) {
            lines.extend(self.kind(&kind, busiest.jobs));
        }
        lines.iter().map(|line| cut(line, self.columns)).collect()
    }

    fn kind(&self, kind: &KindRows<'_>, jobs: u64) -> Vec<String> {
        let rows = kind.found.rows.iter().filter(|row| row.name.contains(self.filter));
        let rows: Vec<String> = rows.take(self.most).map(|row| self.row(row, kind)).collect();
        let mut notes = Vec::new();
        let without = kind.found.jobs_without;
        if without > 0 {
            let whose = if without == jobs {
                "none recorded".to_string()
            } else {
                format!("none recorded of {without} of {jobs} jobs")
            };
            notes.push(format!("{whose} ({})", kind.command));
        }
        match kind.found.rows_total.saturating_sub(rows.len() as u64) {
            0 if rows.is_empty() && without < jobs => notes.push("none yet".to_string()),
            more if more > 0 && self.filter.is_empty() => {
                notes.push(format!("{more} more take less time"));
            }
            _ => {}
        }
        let title = [kind.title.to_string()].into_iter().chain(notes).collect::<Vec<_>>();
        [title.join("; ")].into_iter().chain(rows).collect()
    }

    fn row(&self, row: &BusiestRow, kind: &KindRows<'_>) -> String {
        let width = self.name_columns();
        let rate = |show: &dyn Fn(&Amounts) -> String| {
            row.per_second.as_ref().map_or_else(|| UNKNOWN.to_string(), show)
        };
        let bytes = |of: fn(&Amounts) -> f64| match kind.has_bytes {
            true => rate(&|now| show_size(of(now))),
            false => String::new(),
        };
        let job = if self.is_of_one {
            String::new()
        } else {
            format!(" {:>7}", cut(&printable(&row.job), 7))
        };
        let (time, calls) =
            (cores(row.per_second.map(|now| now.seconds)), rate(&|now| few(now.calls)));
        let (read, written) = (bytes(|now| now.read_bytes), bytes(|now| now.written_bytes));
        let name = shorten(&printable(&row.name), width);
        let space = " ".repeat(width.saturating_sub(name.width()));
        let total = show_seconds(row.total.seconds);
        format!("{name}{space} {time:>6} {read:>10} {written:>10} {calls:>8} {total:>9}{job}")
    }
}

/// Less than one in a second is not none.
fn few(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// The job of which the list is.
pub(super) fn job_line(report: &TopReport, pid: u32, columns: usize) -> String {
    let job = report.jobs.iter().find(|job| job.kind == TopJobKind::Weigh && job.pid == pid);
    let command = job.map_or_else(
        || "it has ended".to_string(),
        |job| ShellWords(measured_command(&job.command)).to_string(),
    );
    cut(&format!("job {pid}: {command}"), columns)
}

/// Of a text: the head and the first of each kind, where there are any.
pub(super) fn first(report: &TopReport, columns: usize) -> Vec<String> {
    const MOST: usize = 5;
    let is_any =
        |busiest: &BusiestReport| kinds(busiest).iter().any(|kind| !kind.found.rows.is_empty());
    if !report.busiest.as_deref().is_some_and(is_any) {
        return Vec::new();
    }
    let form = BusiestForm { columns, is_of_one: false, filter: "", most: MOST };
    let lines = form.lines(report).into_iter();
    [form.title()].into_iter().chain(lines).chain([String::new()]).collect()
}

/// Why jobs are missing.
fn unread(report: &TopReport, busiest: &BusiestReport, is_of_one: bool) -> Option<String> {
    let jobs = report.jobs.iter().filter(|job| job.kind == TopJobKind::Weigh).count() as u64;
    match (busiest.jobs, jobs) {
        (_, 0) => Some("no job of weigh run is running".to_string()),
        (0, _) if is_of_one => Some("its recording cannot be read, or not yet".to_string()),
        (known, all) if known < all && !is_of_one => Some(format!(
            "of {known} of {all} jobs: the others' recordings cannot be read, or not yet"
        )),
        _ => None,
    }
}
