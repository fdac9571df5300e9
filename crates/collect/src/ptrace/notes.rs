//! What is to be said about the values of a traced job: which are unknown, and which not exact.
//!
//! Takes what went wrong; emits a note for each metric that is not exact.

use std::collections::BTreeSet;

use weigh_schema::event::Note;
use weigh_schema::{Counter, CounterValues, Formula, METRICS, Quality, metric_name};

use super::calls;
use crate::follow::NOT_IN_IO;
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
    /// What was counted without them.
    pub counted: CounterValues,
    /// Why some processes were not traced.
    pub untraced: Vec<String>,
    /// Whether CPU time was counted in clock ticks.
    pub cpu_by_ticks: bool,
    /// What was found of calls, if they were looked at.
    pub calls: Option<CallFindings>,
    /// The bounds of the greatest sum of resident sizes: seen at a look, and at most.
    pub rss_sum: (u64, u64),
    /// Why address spaces could not be told apart, if they could not.
    pub spaces: Option<String>,
    /// What a process had held before the job, if no process has passed that.
    pub mark_not_passed: Option<u64>,
}

/// What is known of the calls of a job.
#[derive(Debug, Default)]
pub struct CallFindings {
    /// Whether sockets, and opened files, were looked at.
    pub wanted: (bool, bool),
    /// Programs that the kernel served unseen.
    pub by_kernel: Vec<String>,
    /// Programs that could not be looked at, with the reason.
    pub missed: Vec<String>,
}

/// Counters that only calls tell of: of sockets, and of the rest.
const NETWORK: &[Counter] = &[Counter::NetSent, Counter::NetReceived, Counter::NetConnections];

impl CallFindings {
    /// What a job's calls have told.
    pub fn of(found: &calls::Findings, wanted: (bool, bool)) -> CallFindings {
        let names = |programs: &BTreeSet<String>| {
            programs.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        let mut missed = Vec::new();
        if !found.hidden.is_empty() {
            let programs = names(&found.hidden);
            missed.push(format!("the kernel hides what descriptors of {programs} refer to"));
        }
        if !found.unknown.is_empty() {
            let programs = names(&found.unknown);
            missed.push(format!("the calls of {programs} have numbers that are not known here"));
        }
        let by_kernel = found.by_kernel.iter().cloned().collect();
        CallFindings { wanted, by_kernel, missed }
    }

    /// Whether the counters that a metric is made of come from calls that were looked at.
    fn count(&self, counters: &[Counter]) -> bool {
        let (network, files) = self.wanted;
        let is_net = |counter: &Counter| NETWORK.contains(counter) || is_of_io_calls(counter);
        counters.iter().any(|c| (network && is_net(c)) || (files && *c == Counter::FilesOpened))
    }

    /// What is missing in a metric that is made of such counters; empty if nothing is.
    fn missing(&self, untraced: &[String]) -> String {
        let mut reasons = Vec::new();
        if !self.by_kernel.is_empty() {
            let programs = self.by_kernel.join(", ");
            reasons.push(format!("what {programs} had done by io_uring or AIO is not in it"));
        }
        reasons.extend(self.missed.iter().cloned());
        reasons.extend(untraced.iter().cloned());
        reasons.join("; ")
    }
}

fn is_of_io_calls(counter: &Counter) -> bool {
    use Counter::{OtherReadCalls, OtherReadChars, OtherWriteCalls, OtherWriteChars};
    use Counter::{SocketReadCalls, SocketReadChars, SocketWriteCalls, SocketWriteChars};
    let sockets = [SocketReadCalls, SocketReadChars, SocketWriteCalls, SocketWriteChars];
    let others = [OtherReadCalls, OtherReadChars, OtherWriteCalls, OtherWriteChars];
    sockets.contains(counter) || others.contains(counter)
}

/// All notes.
pub fn notes(findings: &Findings) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut add = |metric: &str, quality, reason: &str| {
        notes.push(Note::new(metric, quality, reason));
    };
    for metric in METRICS {
        let Formula::Sum { plus, .. } = metric.formula else { continue };
        let is_known =
            |counter: &&Counter| KNOWN.contains(counter) || IO_COUNTERS.contains(counter);
        let is_io = plus.contains(&Counter::ReadChars)
            || plus.contains(&Counter::WriteChars)
            || plus.contains(&Counter::ReadCalls)
            || plus.contains(&Counter::WriteCalls);
        if let Some(calls) = findings.calls.as_ref().filter(|calls| calls.count(plus)) {
            let missing = calls.missing(&findings.untraced);
            if !missing.is_empty() {
                add(metric.name, Quality::Estimated, &missing);
            }
            if !is_io {
                continue;
            }
        }
        if plus.iter().filter(is_known).count() == 0 {
            let reason = match plus.first() {
                Some(counter) if NETWORK.contains(counter) || *counter == Counter::FilesOpened => {
                    "only level 3 looks at files and sockets"
                }
                _ => "/proc does not tell it: needs BPF",
            };
            add(metric.name, Quality::Unavailable, reason);
            continue;
        }
        let of_io_file = plus.first().is_some_and(|c| STORAGE.contains(c));
        if (is_io || of_io_file) && !findings.hidden.is_empty() {
            let reason = format!("may not be read of {}", findings.hidden.join(", "));
            add(metric.name, Quality::Unavailable, &reason);
            continue;
        }
        if (is_io || of_io_file) && findings.lost > 0 {
            let (quality, reason) = without_lost(findings, plus);
            add(metric.name, quality, &reason);
        }
        if is_io && findings.calls.as_ref().is_none_or(|calls| !calls.wanted.0) {
            add(metric.name, Quality::Estimated, NOT_IN_IO);
        }
    }
    let switches = "weigh's own stops of each thread are taken away again";
    add(metric_name::context_switches_voluntary_total, Quality::Estimated, switches);
    let more = "being traced makes a job change between CPUs and wait a little more often";
    add(metric_name::context_switches_involuntary_total, Quality::Exact, more);
    add(metric_name::delay_cpu_seconds, Quality::Exact, more);
    if findings.cpu_by_ticks {
        add(metric_name::cpu_seconds, Quality::Sampled, "this kernel counts clock ticks only");
    }
    let sampled = "looked at every 5 to 50 ms";
    add(metric_name::memory_peak_virtual_bytes, Quality::Sampled, sampled);
    add(metric_name::memory_peak_swap_bytes, Quality::Sampled, sampled);
    let (seen, upper) = findings.rss_sum;
    if (upper as f64) > seen as f64 * 1.01 {
        let reason = format!(
            "the greatest sum of the high-water marks of processes that lived at one moment; the \
             greatest sum seen at a look was {seen} bytes"
        );
        add(metric_name::memory_peak_rss_sum_bytes, Quality::Estimated, &reason);
    }
    if let Some(mark) = findings.mark_not_passed {
        let reason = format!(
            "{sampled}; between two looks it may have been more, up to the {mark} bytes that the process had held before"
        );
        for metric in [
            metric_name::memory_peak_process_rss_bytes,
            metric_name::memory_peak_bytes,
            metric_name::memory_peak_rss_sum_bytes,
        ] {
            add(metric, Quality::Sampled, &reason);
        }
    }
    if let Some(reason) = &findings.spaces {
        for metric in [metric_name::memory_peak_bytes, metric_name::memory_peak_rss_sum_bytes] {
            add(metric, Quality::Estimated, reason);
        }
    }
    for reason in &findings.untraced {
        for metric in METRICS.iter().filter(|m| follows_from_processes(m.name, &m.formula)) {
            add(metric.name, Quality::Sampled, reason);
        }
    }
    notes
}

/// Of a sum without that of threads that were killed. Where nothing else was counted it is not known, and not 0.
fn without_lost(findings: &Findings, plus: &[Counter]) -> (Quality, String) {
    let lost = findings.lost;
    match plus.iter().any(|counter| findings.counted.get(*counter) > 0) {
        true => (
            Quality::Estimated,
            format!("at least: without that of {lost} threads that were killed"),
        ),
        false => (
            Quality::Unavailable,
            format!("{lost} threads were killed before it could be read, and no other had any"),
        ),
    }
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
                || [metric_name::memory_peak_bytes, metric_name::memory_peak_rss_sum_bytes]
                    .contains(&name)
                || name == metric_name::memory_peak_process_rss_bytes
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
    fn a_mark_from_before_the_job_makes_peaks_sampled() {
        let found = Findings { mark_not_passed: Some(7_000_003), ..Findings::default() };
        let notes = notes(&found);
        let note = of(&notes, "memory_peak_process_rss_bytes")[0];
        assert_eq!(note.quality, Quality::Sampled);
        assert!(note.reason.contains("7000003 bytes"), "{}", note.reason);
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
    fn what_calls_tell_is_exact_unless_something_passed_by() {
        let calls = || CallFindings { wanted: (true, true), ..CallFindings::default() };
        let all = ["net_sent_bytes_total", "net_connections_total", "files_opened_total"];
        let found = notes(&Findings { calls: Some(calls()), ..Findings::default() });
        for metric in all.iter().chain(&["io_read_bytes_total"]) {
            assert!(of(&found, metric).is_empty(), "{metric}");
        }
        assert_eq!(of(&found, "net_retransmits_total")[0].quality, Quality::Unavailable);
        let uring = CallFindings { by_kernel: vec!["db".into()], ..calls() };
        let found = notes(&Findings { calls: Some(uring), ..Findings::default() });
        for metric in all {
            let note = of(&found, metric)[0];
            assert_eq!(note.quality, Quality::Estimated, "{metric}");
            assert!(note.reason.contains("db"), "{}", note.reason);
        }
        let off = CallFindings { wanted: (false, true), ..CallFindings::default() };
        let found = notes(&Findings { calls: Some(off), ..Findings::default() });
        assert_eq!(of(&found, "net_sent_bytes_total")[0].quality, Quality::Unavailable);
        assert!(of(&found, "files_opened_total").is_empty());
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
    fn what_threads_took_with_them_is_no_0() {
        let mut found = Findings { lost: 3, ..Findings::default() };
        let quality_of = |found: &Findings, metric: &str| of(&notes(found), metric)[0].quality;
        for metric in
            ["io_written_bytes_total", "io_write_calls_total", "storage_written_bytes_total"]
        {
            assert_eq!(quality_of(&found, metric), Quality::Unavailable, "{metric}");
        }
        found.counted.set(Counter::WriteChars, 7);
        assert_eq!(quality_of(&found, "io_written_bytes_total"), Quality::Estimated);
        assert_eq!(quality_of(&found, "io_read_bytes_total"), Quality::Unavailable);
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
