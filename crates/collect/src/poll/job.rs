//! A job that is followed by looking at `/proc` now and then, with what wait4(2) knows of those
//! that were waited for.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use weigh_schema::event::{CollectorStatus, Event, JobReading, Note, ProcessEnd};
use weigh_schema::limit::OnLimit;
use weigh_schema::metric_name;
use weigh_schema::{Counter, CounterValues, Formula, Group, METRICS, Mechanism, Metric, Quality};

use super::poller::JobPoller;
use crate::clock::Moment;
use crate::follow::{
    Attachment, Enforcement, JobMechanism, JobReader, MechanismError, Members, NOT_IN_IO,
    OpenCounts, RunningAttachment, RunningOffer, ZombieReader,
};
use crate::limit_watchdog::LimitWatchdog;
use crate::procfs::IO_COUNTERS;
use crate::reaped_io::WaitedIo;
use crate::rusage::{self, has_no_children};
use crate::{resident_marks, signals, spaces};

/// Time between looks at `/proc`: while memory grows, and otherwise.
const POLL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));

/// Looks take up to so much of a CPU, whatever their number of processes: one part in this many.
const PART_OF_CPU: u32 = 20;

/// Growth of memory since the last look that makes it worth to look more often.
const GROWN: f64 = 1.01;

/// Sums of the same looks that tell by themselves how they were found.
const PARTS: [&str; 4] = [
    metric_name::memory_peak_anonymous_bytes,
    metric_name::memory_peak_shared_bytes,
    metric_name::memory_peak_file_bytes,
    metric_name::memory_peak_hugetlb_bytes,
];

/// Its name, as in options.
const NAME: &str = "poll";

/// What weigh has not started it does not wait for, and so does not learn what it has used in the end.
const NOT_RUNNING: &str =
    "adds up what is waited for, and a process that runs already is another's child";

/// A job that is looked at now and then.
pub struct PolledJob {
    poller: Option<JobPoller>,
    /// Why it is not followed by better means, in a line.
    why: String,
    begun: Moment,
    reading: JobReading,
    known: Vec<Counter>,
    living: Vec<u32>,
    ended: VecDeque<Event>,
    last: Option<Instant>,
    /// Until the next look.
    pause: Duration,
    usage_before: CounterValues,
    waited_io: Option<WaitedIo>,
    /// Whether the kernel's sums have everything that was read and written.
    is_io_whole: bool,
    watchdog: LimitWatchdog,
}

impl PolledJob {
    /// Whether it attaches to processes that run already.
    pub const RUNNING: RunningOffer = Err(NOT_RUNNING);

    /// Makes weigh the one that adopts orphans, and gets ready. `why` says in a line why there is
    /// nothing better.
    pub fn open(why: &str) -> PolledJob {
        rusage::adopt_orphans();
        PolledJob {
            poller: None,
            why: why.lines().next().unwrap_or_default().to_string(),
            begun: Moment::now(),
            reading: JobReading::default(),
            known: Vec::new(),
            living: Vec::new(),
            ended: VecDeque::new(),
            last: None,
            pause: POLL.0,
            usage_before: CounterValues::default(),
            waited_io: None,
            is_io_whole: false,
            watchdog: LimitWatchdog::default(),
        }
    }

    fn look(&mut self) {
        let Some(poller) = &mut self.poller else { return };
        let began = Instant::now();
        let at_ns = self.begun.elapsed_ns();
        let before = self.reading.memory.rss_sum;
        // A look that fails leaves the last one standing; the status says what is hidden.
        if let Ok(poll) = poller.poll(at_ns) {
            self.known =
                Counter::ALL.iter().copied().filter(|c| poll.counter(*c).is_some()).collect();
            self.reading = poll.reading;
            self.ended.extend(poll.ended.into_iter().map(|end| Event::ProcessEnd(Box::new(end))));
            self.living = poller.living();
        }
        let grows = self.reading.memory.rss_sum as f64 > before as f64 * GROWN;
        let pause = if grows { POLL.0 } else { (self.pause * 2).min(POLL.1) };
        self.pause = pause.max(began.elapsed() * PART_OF_CPU);
        self.last = Some(Instant::now());
    }

    /// What the kernel added up at the end of everybody that was waited for.
    fn add_what_was_waited_for(&mut self) {
        let waited = rusage::waited();
        for counter in rusage::COUNTERS {
            let before = self.usage_before.get(counter);
            self.reading.counters.set(counter, waited.counters.get(counter).saturating_sub(before));
        }
        if let Some(Ok(io)) = self.waited_io.as_mut().map(WaitedIo::read) {
            for &counter in IO_COUNTERS {
                self.reading.counters.set(counter, io.get(counter));
            }
            self.is_io_whole = true;
        }
        if is_inherited(&waited) {
            return;
        }
        let was_memory_seen = self.was_memory_seen();
        let (memory, peak) = (&mut self.reading.memory, waited.rss_peak_bytes);
        memory.process_peak = peak;
        if was_memory_seen {
            // All processes together held at least what one of them did.
            memory.floor_peak = memory.floor_peak.max(peak);
            memory.likely_peak = memory.likely_peak.max(peak);
            memory.rss_sum_peak = memory.rss_sum_peak.max(peak);
            if let Some(certain) = &mut memory.certain {
                certain.rss_sum_peak = certain.rss_sum_peak.max(peak);
            }
        }
    }

    /// Whether the kernel has added up what all processes have used, as far as can be told.
    fn all_are_waited_for(&self) -> bool {
        let has_unwaited = self.poller.as_ref().is_some_and(JobPoller::has_unwaited);
        self.living.is_empty() && has_no_children() && !has_unwaited
    }

    fn is_io_exact(&self) -> bool {
        self.is_io_whole && self.waited_io.as_ref().is_some_and(|io| !io.has_lost_threads)
    }

    fn was_seen(&self) -> bool {
        self.reading.population.processes_total > 0
    }

    /// Whether a look found memory: a process that has come to its end has none any more.
    fn was_memory_seen(&self) -> bool {
        self.reading.memory.rss_sum_peak > 0
    }

    /// The bounds, and what they rest on.
    fn memory_bounds(&self) -> String {
        let memory = &self.reading.memory;
        let marks = self.poller.as_ref().map_or(0, JobPoller::marks_peak);
        let why = self.poller.as_ref().and_then(JobPoller::not_compared);
        let why = why.map_or_else(String::new, |why| format!("; {why}"));
        format!(
            "looked at in /proc every {} to {} ms; the greatest sum of resident sizes is at least \
             {} and at most {} bytes, by what each process was seen to hold{why}",
            POLL.0.as_millis(),
            POLL.1.as_millis(),
            memory.floor_peak,
            marks.max(memory.rss_sum_peak),
        )
    }

    fn sampled(&self, metric: &Metric) -> bool {
        match metric.formula {
            // Sockets and io_uring are not in what /proc tells; the rest of the sum is.
            Formula::Sum { plus, .. } => plus.first().is_some_and(|c| self.known.contains(c)),
            _ => {
                matches!(
                    metric.name,
                    metric_name::cpu_user_seconds
                        | metric_name::cpu_system_seconds
                        | metric_name::cpu_cores_average
                        | metric_name::cpu_cores_peak
                        | metric_name::memory_peak_bytes
                        | metric_name::memory_peak_rss_sum_bytes
                        | metric_name::memory_peak_process_rss_bytes
                        | metric_name::memory_peak_virtual_bytes
                        | metric_name::memory_peak_swap_bytes
                        | metric_name::processes_total
                        | metric_name::processes_peak
                        | metric_name::threads_peak
                ) || PARTS.contains(&metric.name)
            }
        }
    }

    fn note(&self, metric: &Metric, all_waited_for: bool, is_inherited: bool) -> Note {
        let note = |quality, source, reason: String| Note {
            source: Some(source),
            ..Note::new(metric.name, quality, reason)
        };
        let is_process_peak = metric.name == metric_name::memory_peak_process_rss_bytes;
        let is_waited = all_waited_for && by_rusage(metric) && !(is_process_peak && is_inherited);
        if is_waited {
            note(Quality::Exact, Mechanism::Rusage, String::new())
        } else if all_waited_for && by_waited_io(metric) && self.is_io_exact() {
            let waited = "of all processes that were waited for";
            match is_storage(metric) {
                true => note(Quality::Exact, Mechanism::Proc, waited.to_owned()),
                // Whether there was any of it nobody tells.
                false => {
                    note(Quality::Estimated, Mechanism::Proc, format!("{waited}; {NOT_IN_IO}"))
                }
            }
        } else if !self.was_seen() {
            let reason = "needs BPF; /proc had not been looked at by then";
            note(Quality::Unavailable, Mechanism::None, reason.into())
        } else if metric.group == Group::Memory && !self.was_memory_seen() {
            let reason = "no look at /proc found a process that had not given back its memory";
            note(Quality::Unavailable, Mechanism::None, reason.into())
        } else if [metric_name::memory_peak_bytes, metric_name::memory_peak_rss_sum_bytes]
            .contains(&metric.name)
        {
            note(Quality::Sampled, Mechanism::Proc, self.memory_bounds())
        } else if self.sampled(metric) {
            // Of some the summary says it.
            let reason = match PARTS.contains(&metric.name) {
                true => "",
                false => {
                    "looked at in /proc now and then; what happened between two looks is missing"
                }
            };
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

impl JobReader for PolledJob {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Proc
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.watchdog.wake_fd()
    }

    fn next_look(&self) -> Option<Instant> {
        Some(self.last.map_or_else(Instant::now, |last| last + self.pause))
    }

    fn events(&mut self) -> Vec<Event> {
        let crossings = self.watchdog.crossings();
        if !crossings.is_empty() || self.last.is_none_or(|last| last.elapsed() >= self.pause) {
            self.look();
        }
        self.ended.extend(crossings.into_iter().map(Event::Limit));
        self.ended.drain(..).collect()
    }

    fn read(&mut self) -> Result<JobReading, MechanismError> {
        self.look();
        if self.all_are_waited_for() {
            self.watchdog.rest();
            self.add_what_was_waited_for();
        }
        Ok(self.reading.clone())
    }

    fn glance(&self) -> JobReading {
        self.reading.clone()
    }

    fn statuses(&self) -> Vec<CollectorStatus> {
        self.poller.iter().map(JobPoller::status).collect()
    }

    fn notes(&mut self) -> Vec<Note> {
        let all_waited_for = self.all_are_waited_for();
        let is_inherited = is_inherited(&rusage::waited());
        let is_measured = |metric: &&Metric| {
            metric.name != metric_name::wall_seconds
                && !metric.is_of_node()
                && !matches!(metric.formula, Formula::NotMeasured(_))
        };
        let metrics = METRICS.iter().filter(is_measured);
        let mut notes: Vec<Note> =
            metrics.map(|metric| self.note(metric, all_waited_for, is_inherited)).collect();
        resident_marks::qualify(&mut notes, &self.reading.memory, None);
        notes
    }
}

impl Attachment for PolledJob {
    fn arm(&mut self, pid: u32, _pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        let poller = JobPoller::new(pid, &[std::process::id()])?;
        self.usage_before = rusage::waited().counters;
        self.waited_io = WaitedIo::begin().ok();
        self.begun = Moment::now();
        self.watchdog.start(&poller, self.begun);
        self.poller = Some(poller);
        Ok(())
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Err(MechanismError::new(NAME, NOT_RUNNING))
    }
}

impl Members for PolledJob {
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

    fn unsettled(&self) -> u64 {
        0
    }

    fn signal(&mut self, to: Option<u32>, list: &[i32]) -> usize {
        if let Some(poller) =
            self.poller.as_ref().filter(|_| to.is_none() && signals::put_an_end(list))
        {
            let _turn = self.watchdog.wait_for_turn();
            return poller.signal_all(list).len();
        }
        self.look();
        let mut pids = self.living.clone();
        pids.retain(|pid| to.is_none_or(|wanted| *pid == wanted));
        signals::send_to_all(&pids, list)
    }
}

impl ZombieReader for PolledJob {
    fn read_zombie(&mut self) -> Result<(), MechanismError> {
        self.read().map(drop)
    }
}

impl Enforcement for PolledJob {
    fn why_lower_bounds(&self) -> Option<String> {
        spaces::refusal()
    }

    fn set_limits(
        &mut self,
        limits: &[(&str, f64, f64)],
        on_limit: OnLimit,
    ) -> Result<Vec<String>, MechanismError> {
        self.watchdog.set_limits(limits, on_limit);
        Ok(Vec::new())
    }

    fn release(&mut self) -> Result<(), MechanismError> {
        self.watchdog.rest();
        Ok(())
    }

    fn set_ending(&mut self) -> Result<(), MechanismError> {
        self.watchdog.set_ending();
        Ok(())
    }
}

impl JobMechanism for PolledJob {
    fn enforcement(&mut self) -> Option<&mut dyn Enforcement> {
        Some(self)
    }

    fn zombie_reader(&mut self) -> Option<&mut dyn ZombieReader> {
        Some(self)
    }

    fn open_counts(&mut self) -> Result<&mut dyn OpenCounts, String> {
        Err(self.why.clone())
    }
}

/// Whether a metric begins with a sum of I/O that the kernel keeps of those that were waited for.
fn by_waited_io(metric: &Metric) -> bool {
    matches!(metric.formula, Formula::Sum { plus, .. }
        if plus.first().is_some_and(|counter| IO_COUNTERS.contains(counter)))
}

/// Whether it is about storage, where every way of reading and writing counts.
fn is_storage(metric: &Metric) -> bool {
    metric.group == Group::Storage
}

/// Whether wait4(2) knows a metric's value for the whole job.
fn by_rusage(metric: &Metric) -> bool {
    match metric.formula {
        Formula::Sum { plus, .. } => plus.iter().all(|c| rusage::COUNTERS.contains(c)),
        _ => matches!(
            metric.name,
            metric_name::cpu_user_seconds
                | metric_name::cpu_system_seconds
                | metric_name::cpu_cores_average
                | metric_name::memory_peak_process_rss_bytes
        ),
    }
}
