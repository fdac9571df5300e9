//! The end of a run: the recording is finished, the table printed, the exit status chosen.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use weigh_collect::message;
use weigh_collect::notice;
use weigh_keep::{Finished, Recording, RecordingWriter};
use weigh_schema::announcement::Happening;
use weigh_schema::recording::files;
use weigh_schema::summary::{ExitKind, Summary};
use weigh_session::products::run::RunOutcome;
use weigh_show::digest::{self, Sources};
use weigh_show::table::{self, Style};

use super::live_line::LiveLine;
use super::settings::RunOutput;
use crate::show::{files_used, screen, write_page};

/// As `timeout` does.
const LIMIT_STATUS: u8 = 124;

/// Finishes the recording, prints, and says how weigh is to exit.
pub fn conclude(
    outcome: RunOutcome,
    mut output: RunOutput,
    writer: anyhow::Result<RecordingWriter>,
    mut live: LiveLine,
) -> anyhow::Result<ExitCode> {
    let RunOutcome { mut summary, calls, mut hook, has_begun } = outcome;
    let directory = writer.as_ref().map_or(&*output.directory, |w| w.directory()).to_path_buf();
    let is_begun = writer.is_ok();
    let mut recording = None;
    let trouble = match writer.and_then(close) {
        Ok(finished) => {
            summary = finished.recording.summary().clone();
            let (lost, place) = (finished.lost, directory.display());
            let text = format!("the recording in {place} is incomplete: {lost} entries are lost");
            let trouble = finished.error.map(|error| anyhow::Error::new(error).context(text));
            recording = trouble.is_none().then_some(finished.recording);
            trouble
        }
        Err(error) => Some(error),
    };
    let page = match &recording {
        Some(recording) => write_page(recording, &directory.join(files::REPORT)),
        None => Ok(()),
    };
    let json = output.json.take().map_or(Ok(()), |destination| {
        destination.write(&(serde_json::to_string_pretty(&summary)? + "\n"))
    });

    live.clear();
    // Without a recording the summary has no other place than the terminal.
    if trouble.is_some() || has_begun && !output.quiet {
        let screen = screen(&std::io::stderr(), 80);
        let place = directory.display().to_string();
        let report = directory.join(files::REPORT).display().to_string();
        let style = Style {
            color: screen.color,
            width: screen.columns,
            is_terminal: screen.is_terminal,
            complete: trouble.is_none(),
            is_running: false,
            recording: (is_begun && directory.exists()).then_some(&place),
        };
        let has_page = page.is_ok() && recording.is_some();
        let sources =
            Sources { report: has_page.then_some(report.as_str()), is_command_known: true };
        message::show(&match (output.details, output.keys) {
            (true, _) => table::render(&summary, style),
            (_, true) => table::render_keys(&summary),
            _ => digest::render(&summary, style, sources),
        });
        match (&recording, &summary.io) {
            _ if output.keys => {}
            (Some(recording), _) => match files_used(recording, output.details, screen) {
                Ok(text) => message::show(&text),
                Err(error) => notice!("{error:#}"),
            },
            (_, Some(found)) => {
                message::show(&weigh_show::io::render_without_rows(found, screen));
            }
            _ => {}
        }
        if let Some(calls) = calls.filter(|_| !output.keys) {
            message::show(&weigh_show::calls::render_recorded(&calls, output.details, screen));
        }
        if let Some(found) = summary.regions.as_ref().filter(|_| !output.keys) {
            message::show(&weigh_show::regions::render_brief(found, screen));
        }
    }
    let end = Happening::End { summary: Box::new(summary.clone()) };
    hook.tell(&summary.job, &directory, end);
    hook.finish();
    let written = match trouble {
        Some(trouble) => Err(trouble),
        None => page.and(json),
    };
    match written {
        Err(error) if output.require_recording => return Err(error),
        // The command has run: its status is nothing that a full disk decides about.
        Err(error) => notice!("{}", crate::in_full(&error)),
        Ok(()) => {}
    }
    Ok(status(&summary, &output))
}

fn close(writer: RecordingWriter) -> anyhow::Result<Finished> {
    let directory = writer.directory().to_path_buf();
    writer.close().with_context(|| what_is_left(&directory))
}

/// What there is of a recording that could not be finished.
fn what_is_left(directory: &Path) -> String {
    let place = directory.display();
    match Recording::open(directory) {
        Ok(_) => format!(
            "the recording in {place} has no tables and no summary, but its journal: `weigh show` reads that"
        ),
        Err(_) => "the recording is lost".to_string(),
    }
}

fn status(summary: &Summary, output: &RunOutput) -> ExitCode {
    let Some(exit) = &summary.exit else { return ExitCode::FAILURE };
    if exit.kind == ExitKind::Limit && !output.preserve_status {
        return ExitCode::from(LIMIT_STATUS);
    }
    if output.is_joined {
        return ExitCode::SUCCESS;
    }
    if let Some(signal) = exit.signal {
        weigh_collect::signals::die_by(signal);
        return ExitCode::from(128u8.wrapping_add(signal as u8));
    }
    ExitCode::from(exit.code.unwrap_or(0) as u8)
}
