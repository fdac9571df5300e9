//! The verdict on a run: the truth that the workload told before it did anything, against the
//! recording.

use weigh_schema::Quality;

use super::Outcome;
use crate::support::measured::Measured;
use crate::support::slowness;

/// One value that is compared: its name in the table, its metric, and what it may be.
struct Expected {
    word: &'static str,
    metric: &'static str,
    low: f64,
    high: f64,
}

/// What the workload's truth demands.
fn expected(measured: &Measured) -> Vec<Expected> {
    let of = |key| measured.truth(key) as f64;
    let processes = of("processes_total");
    // What a process does besides: its start, its end, the page faults of its work.
    let beside = 0.012 * processes * f64::from(slowness());
    let cpu = of("cpu_ns_at_least") * 1e-9;
    // The truth, told by one write, is the job's too.
    let written = of("io_written_bytes") + measured.scratch.text("truth").len() as f64;
    let memory = of("peak_process_rss_bytes_at_least");
    vec![
        Expected { word: "processes", metric: "processes_total", low: processes, high: processes },
        Expected { word: "CPU", metric: "cpu_seconds", low: cpu, high: cpu * 1.4 + beside },
        Expected { word: "bytes", metric: "io_written_bytes_total", low: written, high: written },
        Expected {
            word: "memory",
            metric: "memory_peak_process_rss_bytes",
            low: memory,
            high: memory + 5e6,
        },
    ]
}

/// What the run gave: values that count as exact are right, the others say that they are not.
pub fn judge(measured: &Measured) -> Result<Outcome, String> {
    is_whole(measured)?;
    let mut told: Vec<(Quality, Vec<&str>)> = Vec::new();
    for expected in expected(measured) {
        let Expected { word, metric, low, high } = expected;
        let value = measured.value(metric);
        let number = value.number();
        if value.quality == Quality::Exact {
            if !number.is_some_and(|n| (low..=high).contains(&n)) {
                return Err(format!(
                    "{metric} is {number:?} and counts as exact; it is {low} to {high}"
                ));
            }
            continue;
        }
        if value.reason.as_deref().is_none_or(str::is_empty) {
            return Err(format!("{metric} is {} and has no reason", value.quality));
        }
        if number.is_some_and(|n| n > high) {
            return Err(format!("{metric} is {number:?}, more than there was: {high}"));
        }
        match told.iter_mut().find(|(quality, _)| *quality == value.quality) {
            Some((_, words)) => words.push(word),
            None => told.push((value.quality, vec![word])),
        }
    }
    if told.is_empty() {
        return Ok(Outcome::Exact);
    }
    let told: Vec<_> =
        told.iter().map(|(quality, words)| format!("{} {quality}", words.join(", "))).collect();
    Ok(Outcome::Told(told.join("; ")))
}

/// Nothing is lost, and the table of processes agrees with the summary.
pub fn is_whole(measured: &Measured) -> Result<(), String> {
    let lost: u64 = measured.summary().collectors.iter().map(|c| c.lost).sum();
    if lost > 0 {
        return Err(format!("{lost} events are lost"));
    }
    if !measured.recording().is_complete() {
        return Err("the recording is cut".to_string());
    }
    let total = measured.value("processes_total");
    let rows = measured.processes();
    if total.number().is_some_and(|total| total != rows.len() as f64) {
        return Err(format!("{} rows, and processes_total is {total:?}", rows.len()));
    }
    // Before and after the command there is a little of weigh.
    const LEEWAY_NS: i64 = 50_000_000;
    let job = &measured.summary().job;
    let from_ns = job.started.as_nanosecond() as i64 - LEEWAY_NS;
    let to_ns = job.ended.expect("the job has ended").as_nanosecond() as i64 + LEEWAY_NS;
    for row in &rows {
        let ended_ns = row.ended_ns.unwrap_or(row.started_ns);
        if row.started_ns < from_ns || ended_ns < row.started_ns || ended_ns > to_ns {
            return Err(format!("out of the job's time, {from_ns} to {to_ns}: {row:?}"));
        }
    }
    if total.quality == Quality::Exact {
        if let Some(row) = rows.iter().find(|row| row.ended_ns.is_none()) {
            return Err(format!("'{}' ({}) has no end", row.command, row.pid));
        }
    }
    Ok(())
}
