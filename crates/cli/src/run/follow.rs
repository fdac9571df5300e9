//! Who follows the job: the kernel itself by BPF, or, without the rights for that, weigh by
//! looking at `/proc` now and then.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_collect::job::{Hold, JobError, KernelJob, Wanted};
use weigh_collect::poll::JobPoller;
use weigh_collect::rusage;
use weigh_collect::signals;
use weigh_schema::event::{CollectorStatus, Event, FileKey, JobReading, ProcessEnd};
use weigh_schema::quality::{Mechanism, Quality, Value};
use weigh_schema::{Counter, Formula, METRICS, Metric};

use super::collectors::Findings;
use super::settings::Settings;
use crate::arguments::Collector;

/// Time between looks at `/proc`, at most.
const POLL: Duration = Duration::from_millis(50);

/// One who follows the job.
pub enum Follower {
    /// The kernel.
    Kernel(Box<KernelJob>),
    /// weigh.
    Poll(Box<Polled>),
}

/// A job that is looked at now and then.
pub struct Polled {
    poller: Option<JobPoller>,
    why: String,
    begun: Instant,
    reading: JobReading,
    known: Vec<Counter>,
    living: Vec<u32>,
    ended: VecDeque<Event>,
    last: Option<Instant>,
}

impl Follower {
    /// The kernel if it can, else weigh; the reason is told.
    pub fn open(settings: &Settings) -> anyhow::Result<Follower> {
        let why = if settings.wants(Collector::Bpf) {
            let wanted = Wanted {
                network: settings.wants(Collector::Network),
                files: settings.wants(Collector::Files),
            };
            match KernelJob::open(wanted) {
                Ok(job) => return Ok(Follower::Kernel(Box::new(job))),
                Err(error @ JobError::Missing(_)) => error.to_string(),
                Err(error) => crate::in_full(&error.into()),
            }
        } else {
            "turned off by --without bpf".to_string()
        };
        rusage::adopt_orphans();
        Ok(Follower::Poll(Box::new(Polled {
            poller: None,
            why,
            begun: Instant::now(),
            reading: JobReading::default(),
            known: Vec::new(),
            living: Vec::new(),
            ended: VecDeque::new(),
            last: None,
        })))
    }

    /// Why the kernel does not follow the job, if it does not, at full length.
    pub fn gave_up(&self) -> Option<&str> {
        match self {
            Follower::Kernel(_) => None,
            Follower::Poll(polled) => Some(&polled.why),
        }
    }

    /// The mechanism behind the readings.
    pub fn source(&self) -> Mechanism {
        match self {
            Follower::Kernel(_) => Mechanism::Bpf,
            Follower::Poll(_) => Mechanism::Proc,
        }
    }

    /// Gets ready to follow a process that waits to execute the command.
    pub fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> anyhow::Result<()> {
        match self {
            Follower::Kernel(job) => Ok(job.arm(pidfd)?),
            Follower::Poll(polled) => {
                let own = std::process::id();
                polled.poller = Some(JobPoller::new(pid, &[own])?);
                polled.begun = Instant::now();
                Ok(())
            }
        }
    }

    /// A descriptor that tells of what should not wait.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Follower::Kernel(job) => Some(job.wake_fd()),
            Follower::Poll(_) => None,
        }
    }

    /// When the job has to be looked at again on the follower's own account.
    pub fn next(&self) -> Option<Instant> {
        match self {
            Follower::Kernel(_) => None,
            Follower::Poll(polled) => Some(polled.last.map_or_else(Instant::now, |l| l + POLL)),
        }
    }

    /// What has happened.
    pub fn events(&mut self) -> Vec<Event> {
        match self {
            Follower::Kernel(job) => job.events(),
            Follower::Poll(polled) => {
                if polled.last.is_none_or(|last| last.elapsed() >= POLL) {
                    polled.look();
                }
                polled.ended.drain(..).collect()
            }
        }
    }

    /// Brings everything up to date and reads the job.
    pub fn read(&mut self) -> anyhow::Result<JobReading> {
        match self {
            Follower::Kernel(job) => Ok(job.read()?),
            Follower::Poll(polled) => {
                polled.look();
                Ok(polled.reading.clone())
            }
        }
    }

    /// The job as last known.
    pub fn glance(&self) -> JobReading {
        match self {
            Follower::Kernel(job) => job.glance(),
            Follower::Poll(polled) => polled.reading.clone(),
        }
    }

    /// Threads whose last accounting is still to come.
    pub fn unsettled(&self) -> u64 {
        match self {
            Follower::Kernel(job) => job.unsettled(),
            Follower::Poll(_) => 0,
        }
    }

    /// When the last process ended, if the follower knows.
    pub fn ended_ns(&self) -> Option<u64> {
        match self {
            Follower::Kernel(job) => job.ended_ns(),
            Follower::Poll(_) => None,
        }
    }

    /// The processes that are alive.
    pub fn living(&self) -> Vec<ProcessEnd> {
        match self {
            Follower::Kernel(job) => job.living(),
            Follower::Poll(polled) => polled
                .living
                .iter()
                .map(|pid| ProcessEnd {
                    pid: *pid,
                    name: weigh_collect::host::process_name(*pid).unwrap_or_default(),
                    ..Default::default()
                })
                .collect(),
        }
    }

    /// All processes of which no end was told yet.
    pub fn processes(&mut self) -> Vec<ProcessEnd> {
        match self {
            Follower::Kernel(job) => job.processes(),
            Follower::Poll(polled) => polled.part_with_all(),
        }
    }

    /// Sends signals to all living processes.
    pub fn signal_all(&mut self, list: &[i32]) -> usize {
        match self {
            Follower::Kernel(job) => job.signal_all(list),
            Follower::Poll(polled) => {
                polled.look();
                signals::send_to_all(&polled.living, list)
            }
        }
    }

    /// Sends signals to one process, if it is of the job still.
    pub fn signal_one(&mut self, pid: u32, list: &[i32]) -> usize {
        match self {
            Follower::Kernel(job) => job.signal_one(pid, list),
            Follower::Poll(polled) => {
                polled.look();
                let of_job: Vec<u32> =
                    polled.living.iter().copied().filter(|p| *p == pid).collect();
                signals::send_to_all(&of_job, list)
            }
        }
    }

    /// Sets limits; returns those that are checked in the kernel.
    pub fn set_limits(
        &mut self,
        limits: &[(&str, f64, f64)],
        hold: Hold,
    ) -> anyhow::Result<Vec<String>> {
        match self {
            Follower::Kernel(job) => Ok(job.set_limits(limits, hold)?),
            Follower::Poll(_) => Ok(Vec::new()),
        }
    }

    /// Nobody is stopped any more.
    pub fn release(&mut self) -> anyhow::Result<()> {
        match self {
            Follower::Kernel(job) => job.release().context("while letting go of the job"),
            Follower::Poll(_) => Ok(()),
        }
    }

    /// The job is being told to end.
    pub fn set_ending(&mut self) -> anyhow::Result<()> {
        match self {
            Follower::Kernel(job) => job.set_ending().context("while ending the job"),
            Follower::Poll(_) => Ok(()),
        }
    }

    /// The job is being killed.
    pub fn set_killing(&mut self) -> anyhow::Result<()> {
        match self {
            Follower::Kernel(job) => job.set_killing().context("while killing the job"),
            Follower::Poll(_) => Ok(()),
        }
    }

    /// How the collectors fare.
    pub fn statuses(&self) -> Vec<CollectorStatus> {
        match self {
            Follower::Kernel(job) => job.statuses(),
            Follower::Poll(polled) => polled.poller.iter().map(JobPoller::status).collect(),
        }
    }

    /// Whether opens of files are counted in the kernel.
    pub fn counts_opens(&self) -> bool {
        matches!(self, Follower::Kernel(job) if job.counts_opens())
    }

    /// Why they are not, for people.
    pub fn why_opens_are_not_counted(&self) -> String {
        match self {
            Follower::Kernel(job) => job.why_opens_are_not_counted(),
            Follower::Poll(polled) => polled.why().to_string(),
        }
    }

    /// How often a file was opened, if that is counted.
    pub fn take_opens(&self, key: &FileKey) -> Option<u64> {
        match self {
            Follower::Kernel(job) => job.take_opens(key),
            Follower::Poll(_) => None,
        }
    }

    /// What is to be said about values, and values that are known from elsewhere.
    pub fn finish(&mut self, wall_seconds: f64, findings: &mut Findings) {
        match self {
            // What a collector gives directly needs no note.
            Follower::Kernel(job) => findings.notes.extend(job.notes()),
            Follower::Poll(polled) => polled.finish(wall_seconds, findings),
        }
    }

    /// Stops following.
    pub fn close(self) {
        if let Follower::Kernel(job) = self {
            job.close();
        }
    }
}

impl Polled {
    /// The reason in a line; what the verifier said was printed at the start.
    fn why(&self) -> &str {
        self.why.lines().next().unwrap_or_default()
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

    fn part_with_all(&self) -> Vec<ProcessEnd> {
        self.poller.iter().flat_map(JobPoller::remaining).collect()
    }

    /// CPU time and faults are exact once all was waited for; what the looks saw is sampled; the
    /// rest is not known, and why.
    fn finish(&mut self, wall_seconds: f64, findings: &mut Findings) {
        let waited = rusage::waited();
        let all_waited_for = self.living.is_empty();
        let mut reading = JobReading { counters: waited.counters.clone(), ..Default::default() };
        reading.memory.process_peak = waited.rss_peak_bytes;
        let was_seen = self.reading.memory.process_peak > 0;
        if was_seen && waited.rss_peak_bytes > rusage::own_rss_peak_bytes() {
            // All processes together held at least what one of them did.
            let memory = &mut self.reading.memory;
            memory.floor_peak = memory.floor_peak.max(waited.rss_peak_bytes);
            memory.rss_sum_peak = memory.rss_sum_peak.max(waited.rss_peak_bytes);
        }
        for metric in METRICS
            .iter()
            .filter(|m| m.name != "wall_seconds" && !matches!(m.formula, Formula::NotMeasured(_)))
        {
            let inherited = metric.name == "memory_peak_process_rss_bytes"
                && waited.rss_peak_bytes <= rusage::own_rss_peak_bytes();
            let value = if all_waited_for && by_rusage(metric) && !inherited {
                let value = weigh_account::job_value(metric, &reading, wall_seconds);
                self.value(metric, value, Mechanism::Rusage, Quality::Exact, None)
            } else if !was_seen {
                let reason = "needs BPF; the job ended before /proc was first looked at";
                Value::unavailable(metric.unit, reason)
            } else if self.sampled(metric) {
                let value = weigh_account::job_value(metric, &self.reading, wall_seconds);
                let reason = "looked at in /proc now and then; what happened between two looks \
                              is missing";
                self.value(metric, value, Mechanism::Proc, Quality::Sampled, Some(reason))
            } else {
                Value::unavailable(metric.unit, format!("needs BPF; {}", self.why()))
            };
            findings.given.entry(metric.name.to_string()).or_insert(value);
        }
    }

    fn value(
        &self,
        metric: &Metric,
        value: Option<f64>,
        source: Mechanism,
        quality: Quality,
        reason: Option<&str>,
    ) -> Value {
        match value {
            Some(value) => Value {
                value: Some(metric.unit.number(value)),
                unit: metric.unit,
                source,
                quality,
                reason: reason.map(str::to_string),
            },
            None => Value::unavailable(metric.unit, self.why()),
        }
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
