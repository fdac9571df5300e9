//! `weigh show` and `weigh report`: a recording for people.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weigh_collect::{inherited, message};
use weigh_keep::Recording;
use weigh_schema::printable::{Allowed, json_on_screen, on_screen};
use weigh_schema::quality::Value;
use weigh_schema::recording::{SampleRow, files};
use weigh_show::Screen;
use weigh_show::digest::{self, Sources};
use weigh_show::io::{Extent, Selection, Shown};
use weigh_show::report::{FileColumns, IoOverTime, SlowestCalls, Survey};
use weigh_show::table::{self, Style};

use crate::arguments::{ColorChoice, ReportArguments, ShowArguments};
use crate::{regions, trace};

/// Rows of each table that are read for the page, which says how many there are in all: what nobody
/// would look through should take nobody's memory while weigh ends.
const PAGE_ROWS: usize = 10_000;

/// So many files are shown below the metrics, where all metrics are.
const FILES_SHOWN: usize = 10;

/// So many lines on files stand below the twelve lines.
const FILE_LINES: usize = 14;

/// The width of the terminal behind a stream, or 80.
pub fn width(stream: impl std::os::fd::AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).max(40),
        _ => 80, // no terminal, or a serial line that does not know
    }
}

/// How many lines fit on a terminal.
pub fn height(stream: impl std::os::fd::AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_row > 0 => usize::from(size.ws_row),
        _ => 24,
    }
}

/// What --color says.
static COLOR: OnceLock<ColorChoice> = OnceLock::new();

/// Takes note of --color.
pub fn choose_color(choice: ColorChoice) {
    let _ = COLOR.set(choice);
}

/// Whether a stream wants colour: it is a terminal, and neither --color nor the environment says no (see no-color.org).
pub fn color(stream: &impl std::io::IsTerminal) -> bool {
    match COLOR.get().unwrap_or(&ColorChoice::Auto) {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            stream.is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
        }
    }
}

/// The columns that COLUMNS asks for, where no terminal has an own opinion.
fn asked_columns() -> Option<usize> {
    let text = std::env::var("COLUMNS").ok()?;
    text.parse().ok().filter(|columns| (40..=1000).contains(columns))
}

/// Refuses standard output that was closed when weigh was started: what is written there would be lost.
pub fn check_output() -> anyhow::Result<()> {
    if inherited::was_closed(1) {
        bail!("cannot write to standard output: it is closed");
    }
    Ok(())
}

/// Writes what people read to standard output; that nobody reads on (`| head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    write(&on_screen(text, Allowed::Colors))
}

/// Writes columns with tabs between them.
pub fn print_columns(text: &str) -> anyhow::Result<()> {
    write(&on_screen(text, Allowed::Tabs))
}

/// Whether nobody can read standard output any more: the reader of a pipe has gone, or the terminal.
pub fn is_output_gone() -> bool {
    let out = std::io::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
        && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Whether an error is that nobody reads on: the reader of standard output may have read enough.
pub fn is_enough(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Writes a page, as it is.
pub fn print_page(page: &str) -> anyhow::Result<()> {
    write(page)
}

/// Writes a path, to read or to use.
pub fn print_path(path: &Path) -> anyhow::Result<()> {
    let line = format!("{}\n", path.display());
    if std::io::stdout().is_terminal() { print(&line) } else { write(&line) }
}

/// Writes JSON. A terminal gets escapes, which mean the same, for what it would act on.
pub fn print_json(json: &str) -> anyhow::Result<()> {
    match std::io::stdout().is_terminal() {
        true => write(&json_on_screen(json)),
        false => write(json),
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    // What was said before stands before it.
    message::settle();
    check_output()?;
    match std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// What a stream is for a text that people read. `wide` is what sentences are wrapped at where it is no terminal.
pub fn screen(stream: &(impl std::os::fd::AsFd + std::io::IsTerminal), wide: usize) -> Screen {
    let is_terminal = stream.is_terminal();
    let asked = asked_columns().filter(|_| !is_terminal);
    let columns = asked.unwrap_or_else(|| if is_terminal { width(stream) } else { wide });
    Screen { columns, is_terminal, is_cut: is_terminal || asked.is_some(), color: color(stream) }
}

/// Shows a text for people: on standard output, unless that is taken, by the command or by JSON. `wide` is
/// what is taken for the width where nobody's terminal has to hold it.
pub fn tell(
    is_taken: bool,
    wide: usize,
    render: impl FnOnce(Screen) -> String,
) -> anyhow::Result<()> {
    if is_taken {
        message::show(&render(screen(&std::io::stderr(), wide)));
        return Ok(());
    }
    print(&render(screen(&std::io::stdout(), wide)))
}

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
        write(&page(&recording)?)?;
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
    let start_ns = summary.job.started.as_nanosecond() as i64;
    let duration = summary.metrics.get("wall_seconds").and_then(Value::number);
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

/// Those of the job: a program's own counters may have many more.
fn samples(recording: &Recording) -> anyhow::Result<Vec<SampleRow>> {
    let mut samples = Vec::new();
    recording.each_sample(|row| {
        if samples.len() < PAGE_ROWS && row.scope == "job" {
            samples.push(row);
        }
    })?;
    Ok(samples)
}

fn page(recording: &Recording) -> anyhow::Result<String> {
    let samples = samples(recording)?;
    let processes = recording.processes(Some(PAGE_ROWS))?;
    let mut files = FileColumns::default();
    let files_total = recording.first_files(PAGE_ROWS, |row| files.push(&row))?;
    let mut slowest = SlowestCalls::default();
    recording.each_file(|row| {
        if let Some(used) = row.used.filter(|used| used.object.is_waited_at()) {
            slowest.waits_at((used.device, used.inode));
        }
    })?;
    recording.each_io_call(|call| slowest.push(call))?;
    let start_ns = recording.summary().job.started.as_nanosecond() as i64;
    Ok(weigh_show::report::render(
        recording.summary(),
        &samples,
        &processes.rows,
        files.finish(files_total),
        processes.total,
        io_over_time(recording)?,
        slowest.lines(start_ns),
    ))
}
