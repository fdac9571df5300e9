//! `weigh show` and `weigh report`: a recording for people.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use weigh_keep::{Recording, Rows};
use weigh_schema::metric_name;
use weigh_schema::quality::Value;
use weigh_schema::recording::{ProcessRow, files};
use weigh_show::Screen;
use weigh_show::digest::{self, Sources};
use weigh_show::io::{Extent, Selection, Shown};
use weigh_show::report::{
    Extras, FileColumns, Files, IoOverTime, JobSeries, Page, RegionsBuilder, SlowestCalls, Survey,
    page_with,
};
use weigh_show::table::{self, Style};

use crate::terminal::print_page;
pub use crate::terminal::{
    check_output, choose_color, color, print, print_columns, print_json, print_path, screen, tell,
    width,
};
use crate::{regions, trace};
use weigh_arguments::{ReportArguments, ShowArguments};

/// Rows of each table that are read for the page, which says how many there are in all: what nobody
/// would look through should take nobody's memory while weigh ends.
const PAGE_ROWS: usize = 10_000;

/// So many files are shown below the metrics, where all metrics are.
const FILES_SHOWN: usize = 10;

/// So many lines on files stand below the twelve lines.
const FILE_LINES: usize = 14;

/// Prints a recording.
pub fn show(arguments: &ShowArguments) -> anyhow::Result<ExitCode> {
    if arguments.regions {
        return regions::show(arguments);
    }
    if arguments.recording.is_file() && !arguments.json {
        return trace::show(&arguments.recording);
    }
    let recording = Recording::open(&arguments.recording)?;
    if arguments.json {
        print_json(&(serde_json::to_string_pretty(recording.summary())? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.keys {
        print(&table::render_keys(recording.summary()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let screen = screen(&std::io::stdout(), 80);
    let place = arguments.recording.display().to_string();
    let page = arguments.recording.join(files::REPORT);
    let page = page.is_file().then(|| page.display().to_string());
    let style = Style {
        color: screen.color,
        width: screen.columns,
        is_terminal: screen.is_terminal,
        complete: recording.is_complete(),
        is_running: recording.is_running(),
        recording: Some(&place),
    };
    let sources = Sources { report: page.as_deref(), is_command_known: false };
    let mut text = match arguments.details {
        true => table::render(recording.summary(), style),
        false => digest::render(recording.summary(), style, sources),
    };
    text.push_str(&files_used(&recording, arguments.details, screen)?);
    if let Some(calls) = recording.calls()? {
        text.push_str(&weigh_show::calls::render_recorded(&calls, arguments.details, screen));
    }
    if let Some(found) = &recording.summary().regions {
        text.push_str(&weigh_show::regions::render_brief(found, screen));
    }
    if let Some(because) = recording.incomplete_because() {
        text.push_str(&format!("\nThis recording is {because}\n"));
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What was read and written, where it was followed: the files that took most time; with `details` all kinds of files,
/// and below each what else is known of it.
pub fn files_used(recording: &Recording, details: bool, screen: Screen) -> anyhow::Result<String> {
    let summary = recording.summary();
    let Some(found) = &summary.io else { return Ok(String::new()) };
    let extent = if details { Extent::All(FILES_SHOWN) } else { Extent::Lines(FILE_LINES) };
    let mut files = Selection::new(extent);
    recording.each_file(|row| {
        if let Some(used) = row.used {
            files.add(*used);
        }
    })?;
    let kept_in = match recording.is_complete() {
        true => files::FILES,
        false => files::JOURNAL,
    };
    let files = &files.finish();
    let shown = Shown { files, details, folder: Some(&summary.job.cwd) };
    Ok(weigh_show::io::render_recorded(found, shown, kept_in, screen))
}

/// Makes the page of a recording.
pub fn report(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    if arguments.recording.is_file() {
        return trace::report(&arguments.recording, arguments.output.as_deref());
    }
    let default = arguments.recording.join(files::REPORT);
    let place = arguments.output.as_deref().unwrap_or(&default);
    let recording = Recording::open(&arguments.recording)?;
    if place.as_os_str() == "-" {
        print_page(&page(&recording)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    write_page(&recording, place)?;
    print_path(place)?;
    Ok(ExitCode::SUCCESS)
}

/// What was read and written over time: the rows are read twice, and never all in memory.
fn io_over_time(recording: &Recording) -> anyhow::Result<Option<IoOverTime>> {
    let mut survey = Survey::default();
    recording.each_io_moment(|row| survey.moment(&row))?;
    recording.each_io_place(|row| survey.place(&row))?;
    let summary = recording.summary();
    let start_ns = start_ns(recording);
    let duration = summary.metrics.get(metric_name::wall_seconds).and_then(Value::number);
    let Some(mut over_time) = survey.choose(start_ns, duration) else { return Ok(None) };
    recording.each_io_moment(|row| over_time.moment(&row))?;
    recording.each_io_place(|row| over_time.place(&row))?;
    Ok(Some(over_time.finish()))
}

/// Writes the page of a recording to a file.
pub fn write_page(recording: &Recording, place: &Path) -> anyhow::Result<()> {
    let page = page(recording)?;
    std::fs::write(place, page).with_context(|| format!("cannot write {}", place.display()))
}

fn page(recording: &Recording) -> anyhow::Result<String> {
    let start_ns = start_ns(recording);
    let mut series = JobSeries::new(start_ns);
    let mut counters = RegionsBuilder::new(start_ns);
    recording.each_sample(|row| {
        series.push(&row);
        counters.sample(&row);
    })?;
    let rows = page_rows(recording, counters)?;
    let (summary, processes) = (recording.summary(), &rows.processes);
    let (files, extras) = (rows.files, rows.extras);
    Ok(weigh_show::report::render(summary, series, &processes.rows, files, processes.total, extras))
}

/// The data of the page without its series, which may be longer than all the rest and are not read.
pub fn page_data(recording: &Recording) -> anyhow::Result<Page> {
    let start_ns = start_ns(recording);
    let rows = page_rows(recording, RegionsBuilder::new(start_ns))?;
    let (summary, processes) = (recording.summary(), &rows.processes);
    let (files, extras, series) = (rows.files, rows.extras, JobSeries::new(start_ns));
    Ok(page_with(summary, series, &processes.rows, files, processes.total, extras))
}

fn start_ns(recording: &Recording) -> i64 {
    recording.summary().job.started.as_nanosecond() as i64
}

/// What the page shows besides series.
struct PageContents {
    processes: Rows<ProcessRow>,
    files: Files,
    extras: Extras,
}

fn page_rows(recording: &Recording, counters: RegionsBuilder) -> anyhow::Result<PageContents> {
    let start_ns = start_ns(recording);
    let processes = recording.processes(Some(PAGE_ROWS))?;
    let mut files = FileColumns::default();
    let files_total = recording.first_files(PAGE_ROWS, |row| files.push(&row))?;
    let mut slowest = SlowestCalls::default();
    if files_total > 0 && recording.has_io_calls() {
        recording.each_file(|row| {
            if let Some(used) = row.used.filter(|used| used.object.is_waited_at()) {
                slowest.waits_at((used.device, used.inode));
            }
        })?;
    }
    recording.each_io_call(|call| slowest.push(call))?;
    let extras = Extras {
        io_over_time: io_over_time(recording)?,
        slowest: slowest.lines(start_ns),
        regions: regions::page(recording, counters)?,
        calls: recording.calls()?,
    };
    Ok(PageContents { processes, files: files.finish(files_total), extras })
}
