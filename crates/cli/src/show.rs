//! `weigh show` and `weigh report`: a recording for people.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use weigh_keep::{KeepError, Recording, UnreadableTables};
use weigh_schema::recording::files;
use weigh_show::Screen;
use weigh_show::digest::{self, Sources};
use weigh_show::io::{Extent, Selection, Shown};
use weigh_show::table::{self, Style};
use weigh_web::recording_page;

use crate::terminal::print_page;
pub use crate::terminal::{
    check_output, choose_color, color, print, print_columns, print_json, print_path, screen, tell,
    width,
};
use crate::{regions, trace};
use weigh_arguments::{ReportArguments, ShowArguments};

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
    let mut unreadable = UnreadableTables::new(&recording);
    text.push_str(&unreadable.take(files_used(&recording, arguments.details, screen)));
    if let Some(calls) = unreadable.take(recording.calls()) {
        text.push_str(&weigh_show::calls::render_recorded(&calls, arguments.details, screen));
    }
    if let Some(found) = &recording.summary().regions {
        text.push_str(&weigh_show::regions::render_brief(found, screen));
    }
    if let Some(because) = recording.incomplete_because() {
        text.push_str(&format!("\nThis recording is {because}\n"));
    }
    print(&text)?;
    // What is shown is right: who reads it is told what is missing.
    if let Some(sentence) = unreadable.sentence() {
        bail!("{place}: {sentence}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What was read and written, where it was followed: the files that took most time; with `details` all kinds of files,
/// and below each what else is known of it.
pub fn files_used(
    recording: &Recording,
    details: bool,
    screen: Screen,
) -> Result<String, KeepError> {
    let summary = recording.summary();
    let Some(found) = &summary.io else { return Ok(String::new()) };
    let extent = if details { Extent::All(FILES_SHOWN) } else { Extent::Lines(FILE_LINES) };
    let mut files = Selection::new(extent);
    recording.each_file(|row| {
        if row.is_followed() {
            files.add(row);
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
        print_page(&recording_page(&recording).html())?;
        return Ok(ExitCode::SUCCESS);
    }
    write_page(&recording, place)?;
    print_path(place)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a recording to a file.
pub fn write_page(recording: &Recording, place: &Path) -> anyhow::Result<()> {
    let page = recording_page(recording).html();
    std::fs::write(place, page).with_context(|| format!("cannot write {}", place.display()))
}
