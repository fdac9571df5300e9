//! The verdict on a run: the truth that the workload told before it did anything, against the
//! recording.

use weigh_schema::Quality;

use super::Outcome;
use crate::support::is_slow;
use crate::support::measured::{Measured, is_exact_but_for_uncounted};

/// One value that is compared: its name in the table, its metric, and what it may be.
pub struct Expected {
    pub word: &'static str,
    pub metric: &'static str,
    pub low: f64,
    pub high: f64,
}

/// What a job did, exactly.
pub struct Truth {
    /// Processes ever.
    pub processes: u64,
    /// CPU time that they burned on purpose.
    pub cpu_ns: u64,
    /// Bytes written by calls.
    pub written_bytes: u64,
    /// The greatest memory that one of them touched.
    pub memory_bytes: u64,
}

impl Truth {
    /// What the workload told of itself. The truth, told by one write, is the job's too.
    pub fn told(measured: &Measured) -> Truth {
        let telling = measured.scratch.text("truth").len() as u64;
        Truth {
            processes: measured.truth("processes_total"),
            cpu_ns: measured.truth("cpu_ns_at_least"),
            written_bytes: measured.truth("io_written_bytes") + telling,
            memory_bytes: measured.truth("peak_process_rss_bytes_at_least"),
        }
    }

    /// Of so many pieces of work in so many processes.
    pub fn of_works(processes: u64, works: u64) -> Truth {
        Truth {
            processes,
            cpu_ns: works * 41_000_000,
            written_bytes: works * 10_007,
            memory_bytes: 9_000_000,
        }
    }

    fn demands(&self) -> Vec<Expected> {
        let (processes, written) = (self.processes as f64, self.written_bytes as f64);
        let (cpu, memory) = (self.cpu_ns as f64 * 1e-9, self.memory_bytes as f64);
        // What a process does besides: its start, its end, the page faults of its work; an emulated
        // CPU, which others have a part of, takes any time for that.
        let besides = if is_slow() { 0.5 } else { 0.012 };
        let most_cpu = cpu * 1.4 + besides * processes;
        let expected = |word, metric, low: f64, high: f64| Expected { word, metric, low, high };
        vec![
            expected("processes", "processes_total", processes, processes),
            expected("CPU", "cpu_seconds", cpu, most_cpu),
            expected("bytes", "io_written_bytes_total", written, written),
            expected("memory", "memory_peak_process_rss_bytes", memory, memory + 5e6),
        ]
    }
}

/// What the run gave, by the workload's own word.
pub fn judge(measured: &Measured) -> Result<Outcome, String> {
    judge_by(measured, &Truth::told(measured))
}

/// What the run gave: values that count as exact are right, the others say that they are not.
pub fn judge_by(measured: &Measured, truth: &Truth) -> Result<Outcome, String> {
    is_whole(measured)?;
    compare(measured, truth.demands())
}

/// The same of these values alone.
pub fn compare(measured: &Measured, demands: Vec<Expected>) -> Result<Outcome, String> {
    let mut told: Vec<(Quality, Vec<&str>)> = Vec::new();
    for expected in demands {
        let Expected { word, metric, low, high } = expected;
        let value = measured.value(metric);
        let number = value.number();
        if is_exact_but_for_uncounted(value) {
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
        // Whether a look comes in time is chance.
        let quality = match value.quality {
            Quality::Unavailable => Quality::Sampled,
            quality => quality,
        };
        match told.iter_mut().find(|(known, _)| *known == quality) {
            Some((_, words)) => words.push(word),
            None => told.push((quality, vec![word])),
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
    let endless = rows.iter().find(|row| row.ended_ns.is_none());
    match endless.filter(|_| total.quality == Quality::Exact) {
        Some(row) => Err(format!("'{}' ({}) has no end", row.command, row.pid)),
        None => Ok(()),
    }
}
