//! `weigh trace read`: a recording again, through the same pipeline as a stream that runs.
//!
//! Reads the `.parquet` file of `weigh trace`; hands its records to what shows, writes and synthesises those of
//! the kernel. Refuses what is no recording, is damaged or newer, and fields and events that it has not.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use weigh_keep::TraceRecording;
use weigh_session::products::trace::{ReplayPlan, TraceSettings};
use weigh_trace::replay::RecordedStream as _;
use weigh_trace::sink::Totals;

use super::json_report::JsonReport;
use super::outputs::Outputs;
use crate::terminal::is_enough;
use weigh_arguments::TraceReadArguments;

/// Shows a recording, says what several of its events say together, or writes it in another form.
pub fn execute(arguments: &TraceReadArguments) -> anyhow::Result<ExitCode> {
    let settings = TraceSettings::from(arguments);
    if settings.synthesis.live {
        bail!("--live draws what goes on; all of a recording is there at once");
    }
    if settings.synthesis.every.is_some() {
        bail!("--every tells of what goes on; all of a recording is there at once");
    }
    let mut plan = ReplayPlan::prepare(settings.clone())?;
    let recording = TraceRecording::open(&arguments.file)?;
    if let Some(output) = &settings.output
        && is_same(output, &arguments.file)
    {
        bail!("-o {}: that is the recording itself", output.display());
    }
    plan.check(&recording)?;
    let json = JsonReport::open(&settings.synthesis)?;
    let outputs = Outputs { counters: arguments.counters.clone(), ..Outputs::default() };
    let replay = plan.run(&recording, &outputs)?;
    match replay.failed {
        // The reader of standard output may have read enough.
        Some(error) if is_enough(&error) && settings.writes_to_output() => {
            return Ok(ExitCode::SUCCESS);
        }
        Some(error) => return Err(error),
        None => {}
    }
    if !arguments.quiet {
        weigh_collect::message::show(&told(&replay.totals, &recording));
    }
    if let Some(found) = &replay.totals.synthesis {
        super::tell_synthesis(&settings, found, json, arguments.quiet)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn told(totals: &Totals, recording: &TraceRecording) -> String {
    let (rows, unwritten) = (recording.rows(), recording.note().unwritten_total);
    let (taken, seconds, lost) = (totals.taken, totals.seconds, totals.lost());
    let of_all = if taken == rows { String::new() } else { format!(" of {rows}") };
    let mut told = format!("weigh: {taken}{of_all} events in {seconds:.3} s, {lost} lost\n");
    if unwritten > 0 {
        told += &format!(
            "weigh: the recording ends early: {unwritten} events could not be written into it\n"
        );
    }
    told
}
