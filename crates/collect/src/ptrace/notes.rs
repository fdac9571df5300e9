//! What is to be said about the values of a traced job: which are unknown, and which not exact.
//!
//! Takes what went wrong; emits a note for each metric that is not exact.

use weigh_schema::event::Note;
use weigh_schema::quality::Quality;
use weigh_schema::{Counter, Formula, METRICS};

use crate::procfs::IO_COUNTERS;

/// The counters that `/proc` has for each thread, besides those of I/O.
const KNOWN: &[Counter] = &[
    Counter::Runtime,
    Counter::UserTicks,
    Counter::SystemTicks,
    Counter::VoluntarySwitches,
    Counter::InvoluntarySwitches,
    Counter::MinorFaults,
    Counter::MajorFaults,
    Counter::RunDelay,
];

/// What a traced job's values suffer from.
#[derive(Debug, Default)]
pub struct Findings {
    /// Programs whose I/O may not be read.
    pub hidden: Vec<String>,
    /// Threads whose I/O was lost when they were killed.
    pub lost: u64,
    /// Why some processes were not traced.
    pub untraced: Vec<String>,
    /// Whether CPU time was counted in clock ticks.
    pub cpu_by_ticks: bool,
    /// The bounds of the greatest sum of resident sizes: seen at a look, and at most.
    pub rss_sum: (u64, u64),
}

/// All notes.
pub fn notes(findings: &Findings) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut add = |metric: &str, quality, reason: &str| {
        notes.push(Note {
            metric: metric.to_string(),
            quality,
            source: None,
            reason: reason.to_string(),
        });
    };
    for metric in METRICS {
        let Formula::Sum { plus, .. } = metric.formula else { continue };
        let is_known =
            |counter: &&Counter| KNOWN.contains(counter) || IO_COUNTERS.contains(counter);
        let is_io = plus.contains(&Counter::ReadChars)
            || plus.contains(&Counter::WriteChars)
            || plus.contains(&Counter::ReadCalls)
            || plus.contains(&Counter::WriteCalls);
        if plus.iter().filter(is_known).count() == 0 {
            add(metric.name, Quality::Unavailable, "/proc does not tell it: needs BPF");
            continue;
        }
        let of_io_file = plus.first().is_some_and(|c| STORAGE.contains(c));
        if (is_io || of_io_file) && !findings.hidden.is_empty() {
            let reason = format!("may not be read of {}", findings.hidden.join(", "));
            add(metric.name, Quality::Unavailable, &reason);
            continue;
        }
        if (is_io || of_io_file) && findings.lost > 0 {
            let reason = format!("without that of {} threads that were killed", findings.lost);
            add(metric.name, Quality::Estimated, &reason);
        }
        if is_io {
            let reason = "without what the kernel does not count as reading and writing: send and \
                          recv on sockets, io_uring, splice, tee, vmsplice and AIO";
            add(metric.name, Quality::Exact, reason);
        }
    }
    let switches = "weigh's own stops of each thread are taken away again";
    add("context_switches_voluntary_total", Quality::Estimated, switches);
    let more = "being traced makes a job change between CPUs and wait a little more often";
    add("context_switches_involuntary_total", Quality::Exact, more);
    add("delay_cpu_seconds", Quality::Exact, more);
    if findings.cpu_by_ticks {
        add("cpu_seconds", Quality::Sampled, "this kernel counts clock ticks only");
    }
    let sampled = "looked at every 5 to 50 ms";
    add("memory_peak_virtual_bytes", Quality::Sampled, sampled);
    add("memory_peak_swap_bytes", Quality::Sampled, sampled);
    let (seen, upper) = findings.rss_sum;
    if (upper as f64) > seen as f64 * 1.01 {
        let reason = format!(
            "the greatest sum of the high-water marks of processes that lived at one moment; the \
             greatest sum seen at a look was {seen} bytes"
        );
        add("memory_peak_rss_sum_bytes", Quality::Estimated, &reason);
    }
    for reason in &findings.untraced {
        for metric in METRICS.iter().filter(|m| follows_from_processes(m.name, &m.formula)) {
            add(metric.name, Quality::Sampled, reason);
        }
    }
    notes
}

const STORAGE: [Counter; 3] =
    [Counter::StorageRead, Counter::StorageWritten, Counter::StorageCancelled];

fn follows_from_processes(name: &str, formula: &Formula) -> bool {
    match formula {
        Formula::Sum { plus, .. } => {
            plus.iter().any(|c| KNOWN.contains(c) || IO_COUNTERS.contains(c))
        }
        _ => {
            name.starts_with("cpu_user")
                || name.starts_with("cpu_system")
                || name.starts_with("cpu_cores")
                || ["memory_peak_bytes", "memory_peak_rss_sum_bytes"].contains(&name)
                || name == "memory_peak_process_rss_bytes"
                || name.starts_with("processes_")
                || name.starts_with("threads_")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(notes: &'a [Note], metric: &str) -> Vec<&'a Note> {
        notes.iter().filter(|note| note.metric == metric).collect()
    }

    #[test]
    fn what_proc_does_not_tell_is_unavailable() {
        let notes = notes(&Findings::default());
        for metric in ["net_sent_bytes_total", "files_opened_total", "delay_block_seconds"] {
            assert_eq!(of(&notes, metric)[0].quality, Quality::Unavailable, "{metric}");
        }
        for metric in ["cpu_seconds", "page_faults_minor_total", "processes_total"] {
            assert!(of(&notes, metric).is_empty(), "{metric}");
        }
    }

    #[test]
    fn hidden_io_is_unknown_not_nothing() {
        let notes = notes(&Findings { hidden: vec!["sudo".into()], ..Findings::default() });
        for metric in ["io_read_bytes_total", "storage_written_bytes_total"] {
            let notes = of(&notes, metric);
            assert_eq!((notes.len(), notes[0].quality), (1, Quality::Unavailable), "{metric}");
            assert!(notes[0].reason.contains("sudo"));
        }
    }

    #[test]
    fn processes_that_were_not_traced_are_named() {
        let why = "strace traces other processes".to_string();
        let notes = notes(&Findings { untraced: vec![why.clone()], ..Findings::default() });
        for metric in
            ["cpu_seconds", "processes_total", "memory_peak_bytes", "io_written_bytes_total"]
        {
            assert!(of(&notes, metric).iter().any(|note| note.reason == why), "{metric}");
        }
    }
}
