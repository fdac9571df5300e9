//! A job that is followed by looking at `/proc` now and then, with what wait4(2) knows of those
//! that were waited for.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use weigh_schema::event::{CollectorStatus, Event, JobReading, Note, ProcessEnd};
use weigh_schema::{Counter, Formula, METRICS, Mechanism, Metric, Quality};

use super::JobPoller;
use crate::follow::{Follow, FollowError};
use crate::{rusage, signals};

/// Time between looks at `/proc`, at most.
const POLL: Duration = Duration::from_millis(50);

/// A job that is looked at now and then.
pub struct PolledJob {
    poller: Option<JobPoller>,
    /// Why it is not followed by better means, in a line.
    why: String,
    begun: Instant,
    reading: JobReading,
    known: Vec<Counter>,
    living: Vec<u32>,
    ended: VecDeque<Event>,
    last: Option<Instant>,
}

impl PolledJob {
    /// Makes weigh the one that adopts orphans, and gets ready. `why` says in a line why there is
    /// nothing better.
    pub fn open(why: &str) -> PolledJob {
        rusage::adopt_orphans();
        PolledJob {
            poller: None,
            why: why.lines().next().unwrap_or_default().to_string(),
            begun: Instant::now(),
            reading: JobReading::default(),
            known: Vec::new(),
            living: Vec::new(),
            ended: VecDeque::new(),
            last: None,
        }
    }

    fn look(&mut self) {
        let Some(poller) = &mut self.poller else { return };
        let at_ns = self.begun.elapsed().as_nanos() as u64;
        // A look that fails leaves the last one standing; the status says what is hidden.
        if let Ok(poll) = poller.poll(at_ns) {
            self.known =
                Counter::ALL.iter().copied().filter(|c| poll.counter(*c).is_some()).collect();
            self.reading = poll.reading;
            self.ended.extend(poll.ended.into_iter().map(|end| Event::ProcessEnd(Box::new(end))));
            self.living = poller.living();
        }
        self.last = Some(Instant::now());
    }

    /// What the kernel added up at the end of everybody that was waited for.
    fn add_what_was_waited_for(&mut self) {
        let waited = rusage::waited();
        for counter in rusage::COUNTERS {
            self.reading.counters.set(counter, waited.counters.get(counter));
        }
        if self.was_seen() && !is_inherited(&waited) {
            // All processes together held at least what one of them did.
            let (memory, peak) = (&mut self.reading.memory, waited.rss_peak_bytes);
            memory.process_peak = peak;
            memory.floor_peak = memory.floor_peak.max(peak);
            memory.rss_sum_peak = memory.rss_sum_peak.max(peak);
        }
    }

    fn was_seen(&self) -> bool {
        self.reading.memory.process_peak > 0
    }

    fn sampled(&self, metric: &Metric) -> bool {
        match metric.formula {
            // Sockets and io_uring are not in what /proc tells; the rest of the sum is.
            Formula::Sum { plus, .. } => plus.first().is_some_and(|c| self.known.contains(c)),
            _ => matches!(
                metric.name,
                "cpu_user_seconds"
                    | "cpu_system_seconds"
                    | "cpu_cores_average"
                    | "cpu_cores_peak"
                    | "memory_peak_bytes"
                    | "memory_peak_rss_sum_bytes"
                    | "memory_peak_process_rss_bytes"
                    | "memory_peak_virtual_bytes"
                    | "memory_peak_swap_bytes"
                    | "processes_total"
                    | "processes_peak"
                    | "threads_peak"
            ),
        }
    }

    fn note(&self, metric: &Metric, all_waited_for: bool, is_inherited: bool) -> Note {
        let note = |quality, source, reason: String| Note {
            metric: metric.name.to_string(),
            quality,
            source: Some(source),
            reason,
        };
        let is_waited = all_waited_for
            && by_rusage(metric)
            && !(metric.name == "memory_peak_process_rss_bytes" && is_inherited);
        if is_waited {
            note(Quality::Exact, Mechanism::Rusage, String::new())
        } else if !self.was_seen() {
            let reason = "needs BPF; the job ended before /proc was first looked at";
            note(Quality::Unavailable, Mechanism::None, reason.into())
        } else if self.sampled(metric) {
            let reason =
                "looked at in /proc now and then; what happened between two looks is missing";
            note(Quality::Sampled, Mechanism::Proc, reason.into())
        } else {
            note(Quality::Unavailable, Mechanism::None, format!("needs BPF; {}", self.why))
        }
    }
}

/// Whether the greatest process may be weigh's own copy between fork and exec.
fn is_inherited(waited: &rusage::Waited) -> bool {
    waited.rss_peak_bytes <= rusage::own_rss_peak_bytes()
}

impl Follow for PolledJob {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Proc
    }

    fn arm(&mut self, pid: u32, _pidfd: BorrowedFd<'_>) -> Result<(), FollowError> {
        self.poller = Some(JobPoller::new(pid, &[std::process::id()])?);
        self.begun = Instant::now();
        Ok(())
    }

    fn next_look(&self) -> Option<Instant> {
        Some(self.last.map_or_else(Instant::now, |last| last + POLL))
    }

    fn is_last_look_due(&self) -> bool {
        true
    }

    fn events(&mut self) -> Vec<Event> {
        if self.last.is_none_or(|last| last.elapsed() >= POLL) {
            self.look();
        }
        self.ended.drain(..).collect()
    }

    fn read(&mut self) -> Result<JobReading, FollowError> {
        self.look();
        if self.living.is_empty() {
            self.add_what_was_waited_for();
        }
        Ok(self.reading.clone())
    }

    fn glance(&self) -> JobReading {
        self.reading.clone()
    }

    fn living(&self) -> Vec<ProcessEnd> {
        self.living
            .iter()
            .map(|pid| ProcessEnd {
                pid: *pid,
                name: crate::host::process_name(*pid).unwrap_or_default(),
                ..Default::default()
            })
            .collect()
    }

    fn processes(&mut self) -> Vec<ProcessEnd> {
        self.poller.iter().flat_map(JobPoller::remaining).collect()
    }

    fn signal(&mut self, to: Option<u32>, list: &[i32]) -> usize {
        self.look();
        let mut pids = self.living.clone();
        pids.retain(|pid| to.is_none_or(|wanted| *pid == wanted));
        signals::send_to_all(&pids, list)
    }

    fn statuses(&self) -> Vec<CollectorStatus> {
        self.poller.iter().map(JobPoller::status).collect()
    }

    fn notes(&mut self) -> Vec<Note> {
        let all_waited_for = self.living.is_empty();
        let is_inherited = is_inherited(&rusage::waited());
        let is_measured = |metric: &&Metric| {
            metric.name != "wall_seconds" && !matches!(metric.formula, Formula::NotMeasured(_))
        };
        let metrics = METRICS.iter().filter(is_measured);
        metrics.map(|metric| self.note(metric, all_waited_for, is_inherited)).collect()
    }

    fn counts_opens(&self) -> Result<(), String> {
        Err(self.why.clone())
    }
}

/// Whether wait4(2) knows a metric's value for the whole job.
fn by_rusage(metric: &Metric) -> bool {
    match metric.formula {
        Formula::Sum { plus, .. } => plus.iter().all(|c| rusage::COUNTERS.contains(c)),
        _ => matches!(
            metric.name,
            "cpu_user_seconds"
                | "cpu_system_seconds"
                | "cpu_cores_average"
                | "memory_peak_process_rss_bytes"
        ),
    }
}
