//! What is to be said about the values of a job that was followed by the library.

use weigh_schema::event::Note;
use weigh_schema::metric_name;
use weigh_schema::{Mechanism, Quality};

use super::level::Level;

/// What the values rest on.
pub struct Basis {
    /// How much the library did.
    pub level: Level,
    /// Whether the kernel's counts of all that was waited for are complete, and used.
    pub is_waited_for: bool,
    /// Why they are not.
    pub why_not: &'static str,
    /// In which programs the library was not, for people; empty if there were none.
    pub blind: String,
    /// Processes in PID namespaces that ended before they could say that they were there.
    pub unborn: u32,
    /// Processes may have been missed altogether.
    pub may_miss_processes: bool,
    /// No process had a second thread.
    pub has_no_threads: bool,
    /// What moved bytes unseen, for people.
    pub unseen_io: Vec<&'static str>,
    /// Whether the greatest resident size of one process is certain.
    pub process_peak: Result<Mechanism, String>,
    /// The sum of resident sizes is at least and at most.
    pub sum_bounds: (u64, u64),
    /// One of several processes was killed: what it held at last it could not say, so there is no upper bound.
    pub was_killed: bool,
}

const BY_RUSAGE: &[&str] = &[
    metric_name::cpu_seconds,
    metric_name::cpu_user_seconds,
    metric_name::cpu_system_seconds,
    metric_name::cpu_cores_average,
    metric_name::context_switches_voluntary_total,
    metric_name::context_switches_involuntary_total,
    metric_name::page_faults_minor_total,
    metric_name::page_faults_major_total,
];
const STORAGE: &[&str] =
    &[metric_name::storage_read_bytes_total, metric_name::storage_written_bytes_total];
const IO: &[&str] = &[
    metric_name::io_read_bytes_total,
    metric_name::io_written_bytes_total,
    metric_name::io_read_calls_total,
    metric_name::io_write_calls_total,
];
const NET: &[&str] = &[
    metric_name::net_sent_bytes_total,
    metric_name::net_received_bytes_total,
    metric_name::net_connections_total,
];
const SUMS: &[&str] = &[metric_name::memory_peak_bytes, metric_name::memory_peak_rss_sum_bytes];
const POPULATION: &[&str] = &[metric_name::processes_total, metric_name::processes_peak];
const UNKNOWN: &[&str] = &[
    metric_name::net_retransmits_total,
    metric_name::delay_cpu_seconds,
    metric_name::delay_block_seconds,
    metric_name::delay_reclaim_seconds,
    metric_name::delay_swapin_seconds,
];

fn note(metric: &str, quality: Quality, source: Option<Mechanism>, reason: &str) -> Note {
    Note { source, ..Note::new(metric, quality, reason) }
}

impl Basis {
    /// All there is to say.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = self.kernel_counts();
        notes.extend(self.calls());
        notes.extend(self.memory());
        if self.may_miss_processes {
            let reason = self.missed();
            notes.extend(POPULATION.iter().map(|m| note(m, Quality::Sampled, None, &reason)));
        }
        if self.unborn > 0 {
            let reason = format!(
                "without {} processes in PID namespaces that ended before they had begun",
                self.unborn
            );
            notes.extend(POPULATION.iter().map(|m| note(m, Quality::Estimated, None, &reason)));
        }
        if !self.has_no_threads || self.may_miss_processes {
            let reason =
                "threads are looked at in /proc now and then; at least as many as processes";
            notes.push(note(
                metric_name::threads_peak,
                Quality::Sampled,
                Some(Mechanism::Proc),
                reason,
            ));
        }
        let reason = "needs BPF: neither the library nor /proc tells it";
        notes.extend(UNKNOWN.iter().map(|m| note(m, Quality::Unavailable, None, reason)));
        notes
    }

    fn missed(&self) -> String {
        format!("{}: what it started and lived between two looks at /proc was not seen", self.blind)
    }

    fn kernel_counts(&self) -> Vec<Note> {
        let all = BY_RUSAGE.iter().map(|m| (m, Mechanism::Rusage));
        let all = all.chain(STORAGE.iter().map(|m| (m, Mechanism::Proc)));
        all.map(|(metric, source)| {
            if self.is_waited_for {
                let reason = "the kernel's own sum over all processes that were waited for";
                note(metric, Quality::Exact, Some(source), reason)
            } else {
                note(metric, Quality::Sampled, Some(Mechanism::Proc), self.why_not)
            }
        })
        .collect()
    }

    fn calls(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if !self.is_waited_for {
            notes.extend(IO.iter().map(|m| note(m, Quality::Sampled, None, self.why_not)));
        }
        if self.level == Level::Processes {
            let reason = "what recv, send, splice, tee, vmsplice, AIO and io_uring moved is not in \
                          it: that takes level 3";
            notes.extend(IO.iter().map(|m| note(m, Quality::Estimated, None, reason)));
            let reason = "only level 3 looks at files and sockets";
            let none = NET.iter().chain(&[metric_name::files_opened_total]);
            notes.extend(none.map(|m| note(m, Quality::Unavailable, None, reason)));
            return notes;
        }
        let reason = "what the dynamic loader and the C library open by themselves is not in it";
        notes.push(note(metric_name::files_opened_total, Quality::Estimated, None, reason));
        let past = "without what programs send, receive or splice by system calls of their own";
        let moved = IO.iter().chain(&NET[..2]);
        notes.extend(moved.map(|m| note(m, Quality::Estimated, None, past)));
        let mut missing = self.unseen_io.join(", ");
        if !self.blind.is_empty() {
            if !missing.is_empty() {
                missing += "; ";
            }
            missing += &self.blind;
        }
        if !missing.is_empty() {
            let reason = format!("not in it is what passed the library by: {missing}");
            let all = IO.iter().chain(NET).chain(&[metric_name::files_opened_total]);
            notes.extend(all.map(|m| note(m, Quality::Estimated, None, &reason)));
        }
        notes
    }

    fn memory(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let one = metric_name::memory_peak_process_rss_bytes;
        match &self.process_peak {
            Ok(Mechanism::Preload) => {}
            Ok(source) => {
                let reason = "the greatest of all processes that were waited for";
                notes.push(note(one, Quality::Exact, Some(*source), reason));
            }
            Err(reason) => notes.push(note(one, Quality::Sampled, None, reason)),
        }
        let (lower, upper) = self.sum_bounds;
        if self.may_miss_processes {
            // Nor is there an upper bound of what nobody has seen.
            let reason = self.missed();
            for metric in SUMS {
                notes.push(note(metric, Quality::Sampled, None, &reason));
            }
        } else if self.was_killed {
            let reason =
                "looked at now and then; a process was killed before it could say what it had held";
            for metric in SUMS {
                notes.push(note(metric, Quality::Sampled, None, reason));
            }
        } else if upper as f64 > lower as f64 * 1.01 {
            let reason = format!(
                "looked at now and then; the greatest sum of resident sizes is at least {lower} \
                 and at most {upper} bytes, by what each process held at most"
            );
            for metric in SUMS {
                notes.push(note(metric, Quality::Sampled, None, &reason));
            }
        } else if let Err(reason) = &self.process_peak {
            for metric in SUMS {
                notes.push(note(metric, Quality::Sampled, None, reason));
            }
        }
        let reason = "looked at now and then";
        for metric in [metric_name::memory_peak_virtual_bytes, metric_name::memory_peak_swap_bytes]
        {
            notes.push(note(metric, Quality::Sampled, Some(Mechanism::Proc), reason));
        }
        notes
    }
}
