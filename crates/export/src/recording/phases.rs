//! Phases over time as Chrome's trace events, which Perfetto opens as well.

use serde_json::json;
use weigh_schema::region::PhaseRow;

use super::{Piece, RecordingFormat, RecordingPart, RecordingRows, TextKind};

/// The form.
pub const FORMAT: RecordingFormat = RecordingFormat {
    name: "chrome",
    help: "Phases over time, for ui.perfetto.dev and chrome://tracing",
    text: TextKind::Json,
    part: RecordingPart::Regions,
    write,
};

fn event(row: &PhaseRow, start_ns: i64) -> String {
    let us = |ns: i64| ns as f64 * 1e-3;
    let event = json!({
        "name": row.name,
        "cat": "phase",
        "ph": "X",
        "ts": us(row.started_ns.saturating_sub(start_ns)),
        "dur": us(row.ended_ns.saturating_sub(row.started_ns)),
        "pid": row.process,
        "tid": row.thread,
        "args": { "iteration": row.iteration },
    });
    event.to_string()
}

fn write(recording: &dyn RecordingRows, piece: Piece<'_>) -> anyhow::Result<bool> {
    let start_ns = recording.summary().job.started.as_nanosecond() as i64;
    let mut events: Vec<String> = Vec::new();
    recording.each_phase(&mut |row| events.push(event(&row, start_ns)))?;
    if events.is_empty() {
        return Ok(false);
    }
    let text =
        format!("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", events.join(",\n"));
    piece(&text)?;
    Ok(true)
}
