//! The end of a run: the recording is finished, the table printed, the exit status chosen.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use weigh_collect::message::{self, Frame};
use weigh_collect::notice;
use weigh_keep::{Recording, RecordingWriter};
use weigh_schema::announcement::Happening;
use weigh_schema::event::JobReading;
use weigh_schema::recording::files;
use weigh_schema::summary::{ExitKind, Summary};
use weigh_show::table::{self, Style};

use super::announce::Announcer;
use super::settings::Settings;
use crate::show::{files_used, screen, width, write_page};

/// As `timeout` does.
const LIMIT_STATUS: u8 = 124;

/// A run that is over, all but for writing it down.
pub struct Conclusion {
    /// What the user asked for.
    pub settings: Settings,
    /// Who is told.
    pub announcer: Announcer,
    /// The journal.
    pub writer: RecordingWriter,
    /// What there is to say.
    pub summary: Summary,
    /// Whether to print nothing, because what happened was said already.
    pub quiet: bool,
}

/// Shows how a running job does, on a line that the next one overwrites.
pub fn progress(before: Option<&JobReading>, now: &JobReading) {
    let err = std::io::stderr();
    // What is behind the times is not drawn: the terminal does not keep up.
    if err.is_terminal() && message::is_idle() {
        let line = weigh_show::progress::line(before, now, width(&err).saturating_sub(1));
        message::draw(Frame::Line, &line);
    }
}

/// Finishes the recording, prints, and says how weigh is to exit.
pub fn conclude(conclusion: Conclusion) -> anyhow::Result<ExitCode> {
    let Conclusion { settings, mut announcer, writer, summary, quiet } = conclusion;
    let directory = settings.directory.clone();
    let (summary, trouble) = match writer.finish(&summary) {
        Ok(finished) => {
            let trouble = finished.error.map(|e| {
                anyhow::Error::new(e).context(format!(
                    "the recording in {} is incomplete: {} entries are lost",
                    directory.display(),
                    finished.lost
                ))
            });
            (finished.summary, trouble)
        }
        Err(error) => (summary, Some(anyhow::Error::new(error).context(what_is_left(&directory)))),
    };
    let recording = trouble.is_none().then(|| Recording::open(&directory));
    let recording = recording.transpose().map_err(anyhow::Error::from);
    let page = match &recording {
        Ok(Some(recording)) => write_page(recording, &directory.join(files::REPORT)),
        _ => Ok(()),
    };
    let json = settings.json.map_or(Ok(()), |destination| {
        destination.write(&(serde_json::to_string_pretty(&summary)? + "\n"))
    });

    if settings.arguments.progress && std::io::stderr().is_terminal() {
        message::draw(Frame::Line, "");
    }
    // Without a recording the summary has no other place than the terminal.
    if trouble.is_some() || !(settings.arguments.quiet || quiet) {
        let screen = screen(&std::io::stderr(), 80);
        let place = directory.display().to_string();
        let style = Style {
            color: screen.color,
            width: screen.columns,
            complete: trouble.is_none(),
            is_running: false,
            recording: Some(&place),
        };
        message::show(&table::render(&summary, style));
        match (&recording, &summary.io) {
            (Ok(Some(recording)), _) => match files_used(recording, false, screen) {
                Ok(text) => message::show(&text),
                Err(error) => notice!("{error:#}"),
            },
            (_, Some(found)) => {
                message::show(&weigh_show::io::render_without_rows(found, screen));
            }
            _ => {}
        }
    }
    let end = Happening::End { summary: Box::new(summary.clone()) };
    announcer.tell(&summary.job, &directory.display().to_string(), end);
    announcer.finish();
    let written = match trouble {
        Some(trouble) => Err(trouble),
        None => recording.map(drop).and(page).and(json),
    };
    match written {
        Err(error) if settings.arguments.status.require_recording => return Err(error),
        // The command has run: its status is nothing that a full disk decides about.
        Err(error) => notice!("{}", crate::in_full(&error)),
        Ok(()) => {}
    }
    Ok(status(&summary, settings.arguments.preserve_status))
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

fn status(summary: &Summary, preserve: bool) -> ExitCode {
    let Some(exit) = &summary.exit else { return ExitCode::FAILURE };
    if exit.kind == ExitKind::Limit && !preserve {
        return ExitCode::from(LIMIT_STATUS);
    }
    if let Some(signal) = exit.signal {
        weigh_collect::signals::die_by(signal);
        return ExitCode::from(128u8.wrapping_add(signal as u8));
    }
    ExitCode::from(exit.code.unwrap_or(0) as u8)
}
