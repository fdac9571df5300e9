//! `weigh export`: a recording in the form of another program.
//!
//! Reads a recording, row by row; emits text on standard output. Refuses one that has not what is asked for.

use std::process::ExitCode;

use anyhow::bail;
use weigh_keep::Recording;
use weigh_show::darshan::{Ranks, head, record};

use crate::arguments::{ExportArguments, ExportFormat};
use crate::show::print;

/// Pieces of so much text are written at once.
const PIECE: usize = 64 * 1024;

/// Writes it.
pub fn execute(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    let recording = Recording::open(&arguments.recording)?;
    match arguments.format {
        ExportFormat::DarshanParser => darshan(&recording)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn darshan(recording: &Recording) -> anyhow::Result<()> {
    if recording.summary().io.is_none() {
        let place = recording.directory().display();
        bail!("{place}: what was read and written is not in it; `weigh run --io` records it");
    }
    let mut processes = Vec::new();
    recording.each_process(|row| processes.push((row.started_ns, row.pid, row.uid)))?;
    let ranks = Ranks::new(processes);
    let mut text = head(recording.summary(), &ranks);
    let mut failed = None;
    recording.each_file(|row| {
        if let Some(used) = &row.used {
            text.push_str(&record(used, &ranks));
        }
        if text.len() >= PIECE && failed.is_none() {
            failed = print(&std::mem::take(&mut text)).err();
        }
    })?;
    match failed {
        Some(error) => Err(error),
        None => print(&text),
    }
}
