//! `weigh export`: a recording in the form of another program.
//!
//! Reads a recording, row by row; emits text on standard output, or spans to a collector. Refuses one that has not what is
//! asked for.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use weigh_collect::message::notice;
use weigh_export::metrics::SpanSender;
use weigh_export::recording::{RecordingPart, RecordingRows, TextKind, otlp};
use weigh_keep::Recording;
use weigh_schema::io::{FileUse, Flow, Object};
use weigh_schema::recording::ProcessRow;
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::summary::Summary;

use crate::show::{print, print_columns, print_json};
use weigh_arguments::ExportArguments;

/// Writes it.
pub fn execute(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    let recording = Recording::open(&arguments.recording)?;
    if let Some(target) = &arguments.to {
        return send_spans(recording, target);
    }
    let format = arguments.format.context("--format is missing")?;
    match format.part {
        RecordingPart::Files => has_files(&recording)?,
        _ if !arguments.under.is_empty() => {
            bail!("--under: --format {} tells of no files", format.name)
        }
        _ => {}
    }
    let selection = FileSelection { recording, under: absolute(&arguments.under)? };
    let written = (format.write)(&selection, &mut |text| match format.text {
        TextKind::Lines => print(text),
        TextKind::Columns => print_columns(text),
        TextKind::Json => print_json(text),
    })?;
    match (written, format.part) {
        (true, _) => Ok(ExitCode::SUCCESS),
        (false, RecordingPart::Files) => Err(selection.nothing()),
        (false, _) => {
            bail!(
                "{}: --format {} shows regions and phases that programs name, and none of this job did; `weigh run \
                 --regions` takes in those that are named for other tools (docs/regions.md)",
                arguments.recording.display(),
                format.name
            )
        }
    }
}

/// Sends the spans of a recording; says how many a collector has taken.
fn send_spans(recording: Recording, target: &str) -> anyhow::Result<ExitCode> {
    let mut sender = SpanSender::open(target)?;
    let place = recording.directory().display().to_string();
    let selection = FileSelection { recording, under: Vec::new() };
    let mut send = |request: &str| -> anyhow::Result<()> { Ok(sender.send(request)?) };
    let written = (otlp::FORMAT.write)(&selection, &mut send);
    let sent = sender.sent();
    written.with_context(|| format!("{place}: {sent} spans were sent"))?;
    notice(format_args!("{sent} spans were sent"));
    Ok(ExitCode::SUCCESS)
}

/// Refuses a recording in which reads and writes are not.
fn has_files(recording: &Recording) -> anyhow::Result<()> {
    if recording.summary().io.is_none() {
        let place = recording.directory().display();
        let why = match recording.is_complete() {
            true => "`weigh run --io` records it",
            false => {
                "it was cut short, and nothing of it had been recorded (`weigh run --io` does so at each --interval)"
            }
        };
        bail!("{place}: what was read and written is not in it; {why}");
    }
    Ok(())
}

/// A recording, with the files that were chosen.
struct FileSelection {
    recording: Recording,
    /// Folders that they lie below; all files, if there is none.
    under: Vec<PathBuf>,
}

impl FileSelection {
    fn has_path(&self, path: &str) -> bool {
        self.under.is_empty() || self.under.iter().any(|folder| Path::new(path).starts_with(folder))
    }

    fn has_flow(&self, flow: &Flow) -> bool {
        flow.object != Object::Regular || self.has_path(&flow.name)
    }

    /// There is nothing to write.
    fn nothing(&self) -> anyhow::Error {
        let place = self.recording.directory().display();
        let folders: Vec<_> =
            self.under.iter().map(|folder| folder.display().to_string()).collect();
        let below = match folders.as_slice() {
            [] => String::new(),
            folders => format!(" below what --under names ({})", folders.join(", ")),
        };
        anyhow!("{place}: no process of it read or wrote a file{below}")
    }
}

impl RecordingRows for FileSelection {
    fn summary(&self) -> &Summary {
        self.recording.summary()
    }

    fn is_part(&self) -> bool {
        !self.under.is_empty()
    }

    fn each_process(&self, visit: &mut dyn FnMut(ProcessRow)) -> anyhow::Result<()> {
        self.recording.each_process(visit)?;
        Ok(())
    }

    fn each_use(&self, visit: &mut dyn FnMut(&FileUse)) -> anyhow::Result<()> {
        self.recording.each_file(|row| {
            if row.is_followed() && self.has_path(&row.name) {
                visit(&row);
            }
        })?;
        Ok(())
    }

    fn each_region(&self, visit: &mut dyn FnMut(RegionRow)) -> anyhow::Result<()> {
        self.recording.each_region(visit)?;
        Ok(())
    }

    fn each_phase(&self, visit: &mut dyn FnMut(PhaseRow)) -> anyhow::Result<()> {
        self.recording.each_phase(visit)?;
        Ok(())
    }

    fn flows(&self) -> Vec<&Flow> {
        let found = self.recording.summary().io.iter();
        found.flat_map(|found| &found.flows).filter(|flow| self.has_flow(flow)).collect()
    }
}

/// Names in a recording are absolute. Its folders need not be there any more.
fn absolute(folders: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let full =
        |folder: &PathBuf| Ok(folder.canonicalize().or_else(|_| std::path::absolute(folder))?);
    folders.iter().map(full).collect()
}
