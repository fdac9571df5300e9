//! The schedule of samples, on the clock of the run's loop.

use std::time::{Duration, Instant};

use weigh_account::{SamplingSchedule, Tick};
use weigh_collect::clock;
use weigh_collect::follow::JobMechanism;
use weigh_schema::Mechanism;

/// When the next sample is due.
pub(in crate::products::run) struct Ticks {
    schedule: SamplingSchedule,
    begun: Instant,
    /// Whether samples cost another process more than this one.
    costs_elsewhere: bool,
    /// Whether the user leaves it to weigh how often samples are taken.
    may_vary: bool,
}

/// What a sample costs, from its beginning on.
pub(in crate::products::run) struct SampleCost {
    began: Instant,
    cpu_ns: u64,
}

impl Ticks {
    /// The schedule for a job that begins now. By all mechanisms but BPF a sample is a look at `/proc`, which costs
    /// time for each process.
    pub fn new(job: &dyn JobMechanism, interval: Option<Duration>, begun: Instant) -> Ticks {
        let schedule = match (interval, job.mechanism()) {
            (Some(interval), _) => SamplingSchedule::fixed(interval),
            (None, Mechanism::Bpf) => SamplingSchedule::of_counters(),
            (None, _) => SamplingSchedule::of_looks(),
        };
        Ticks { schedule, begun, costs_elsewhere: job.is_remote(), may_vary: interval.is_none() }
    }

    pub fn next(&self) -> Instant {
        self.begun + self.schedule.next()
    }

    pub fn due(&self, now: Instant) -> Option<Tick> {
        self.schedule.due(now - self.begun)
    }

    pub fn begin_sample(&self) -> SampleCost {
        SampleCost { began: Instant::now(), cpu_ns: clock::thread_cpu_ns() }
    }

    /// What was due is done; whether somebody watches the recording.
    pub fn sampled(&mut self, now: Instant, cost: SampleCost, is_watched: bool) {
        let cost = match self.costs_elsewhere {
            true => cost.began.elapsed(),
            false => Duration::from_nanos(clock::thread_cpu_ns() - cost.cpu_ns),
        };
        match is_watched && self.may_vary {
            true => self.schedule.sampled_while_watched(now - self.begun, cost),
            false => self.schedule.sampled(now - self.begun, cost),
        }
    }
}
