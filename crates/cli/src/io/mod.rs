//! `weigh io`: what a command, or a process that runs, reads and writes, by file.
//!
//! Reads what the kernel side keeps; emits a table on standard error (standard output is the command's),
//! JSON and Parquet where that is wanted. Refuses what it can before the command is started.

mod live_table;
mod mount;
pub mod row_files;

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use weigh_account::io::{Files, Run, report};
use weigh_account::shell_words;
use weigh_collect::io::name;
use weigh_collect::notice;
use weigh_schema::byte_text;
use weigh_schema::io::IoReport;
use weigh_session::products::io::{IoSettings, IoSinks, IoView, measure};
use weigh_session::{end_with, require_recording};
use weigh_show::Screen;
use weigh_show::io::{Extent, Selection, Shown};

use self::live_table::LiveTable;
use self::row_files::RowFiles;
use crate::destination::Destination;
use crate::rows_file;
use crate::show::tell;
use weigh_arguments::{IoArguments, IoSubject, IoTelling};

/// Lines of the table, unless more is asked for.
const LINES: usize = 24;

/// Rows where there may be more lines.
const ROWS: usize = 20;

/// Where nobody's terminal has to hold it.
const WIDE: usize = 160;

/// Follows, and tells.
pub fn execute(arguments: &IoArguments) -> anyhow::Result<ExitCode> {
    if let Some(IoSubject::Mount(mount)) = &arguments.subject {
        return mount::execute(mount);
    }
    if arguments.command.is_empty() != arguments.runs_already() {
        bail!(
            "expected a command (weigh io -- COMMAND), a process (--pid PID) or a file system (--mount FOLDER)"
        );
    }
    let telling = &arguments.telling;
    require_recording(telling.status.require_recording);
    check_files(telling, arguments.calls.as_deref())?;
    let (json, mut table) = (open_json(telling)?, LiveTable::open(telling)?);
    let mut rows = RowFiles::create(telling, arguments.calls.as_deref())?;
    let sinks = sinks(&mut rows, &mut table);
    let outcome = match measure(&IoSettings::from(arguments), sinks)? {
        Ok(outcome) => outcome,
        Err(error) => {
            notice!("{error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    let written = rows.finish(&subject(&outcome.run), &outcome.book, &outcome.run, &name);
    let report = report(&outcome.book, &outcome.run, &name);
    let told = tell_all(&report, telling, json, written, !arguments.runs_already());
    end_with(outcome.rest, told)
}

fn sinks<'a>(rows: &'a mut RowFiles, table: &'a mut Option<LiveTable<'_>>) -> IoSinks<'a> {
    IoSinks { rows, view: table.as_mut().map(|table| table as &mut dyn IoView) }
}

/// What files of rows name as measured.
fn subject(run: &Run) -> String {
    match (run.pid, &run.mount) {
        (Some(pid), _) => format!("process {pid}"),
        (_, Some(folder)) => format!("the file system of {}", byte_text::shown(folder)),
        _ => shell_words(&run.command),
    }
}

/// Whether what is to be written can be.
fn check_files(telling: &IoTelling, calls: Option<&Path>) -> anyhow::Result<()> {
    let files = [(row_files::PARQUET, telling.parquet.as_deref()), (row_files::CALLS, calls)];
    rows_file::check(&files, telling.json.as_deref())
}

/// Where the JSON goes.
fn open_json(telling: &IoTelling) -> anyhow::Result<Option<Destination>> {
    telling.json.as_deref().map(Destination::open).transpose()
}

/// Tells what was found, on standard error if standard output is the command's. What could not be written, as `written`
/// says of the files of rows, is in the table in spite of -q, and the error comes last.
fn tell_all(
    report: &IoReport<Files<'_>>,
    telling: &IoTelling,
    json: Option<Destination>,
    written: anyhow::Result<()>,
    is_beside: bool,
) -> anyhow::Result<()> {
    let is_json = json.as_ref().is_some_and(Destination::is_standard_output);
    let told = json.map_or(Ok(()), |json| json.write_json(report));
    let whole = row_files::together([written, told]);
    if !telling.quiet || whole.is_err() {
        tell(is_beside || is_json, WIDE, |screen| text(report, telling, screen))?;
    }
    whole
}

/// The table, with as many files as are wanted.
fn text(report: &IoReport<Files<'_>>, telling: &IoTelling, screen: Screen) -> String {
    let files = Selection::of(extent(telling), report.files.iter());
    let folder = std::env::current_dir().ok().map(|folder| folder.display().to_string());
    let shown = Shown { files: &files, details: telling.details, folder: folder.as_deref() };
    weigh_show::io::render(&report.found, shown, screen)
}

/// How much of the table is wanted.
fn extent(telling: &IoTelling) -> Extent {
    match (telling.all, telling.rows) {
        (true, rows) => Extent::All(rows.unwrap_or(ROWS)),
        (false, Some(rows)) => Extent::Rows(rows),
        (false, None) if telling.details => Extent::Rows(ROWS),
        (false, None) => Extent::Lines(LINES),
    }
}

/// `docs/io.md`.
pub fn markdown() -> String {
    let rules = weigh_account::io::RULES.iter();
    let rules: Vec<_> = rules.map(|rule| (rule.name, rule.threshold, rule.reason)).collect();
    weigh_show::io::docs::markdown(&rules)
}
