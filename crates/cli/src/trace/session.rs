//! One stream, from its programs to its last record.

use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use weigh_collect::clock::Moment;
use weigh_collect::spawn::{SpawnError, Waiting};
use weigh_collect::trace::{self, KernelTrace, Settings, TraceError};
use weigh_trace::generate::{self, Access, Maps};
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::signature::Attach;
use weigh_trace::state::{Count, State, WATERMARK};

use super::sinks::{Sink, Times};
use crate::arguments::TraceArguments;
use crate::foreground::{Foreground, Started};

/// How often records are taken in that no watermark tells of.
const LOOK: Duration = Duration::from_millis(50);

/// What came of it.
pub struct Followed {
    /// How the command ended.
    pub status: Option<ExitStatus>,
    /// What was counted.
    pub totals: Totals,
    /// Why not all of it was kept.
    pub failed: Option<anyhow::Error>,
}

/// What was counted of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Records that were written.
    pub sent: u64,
    /// Records for which the ring had no room.
    pub lost: u64,
    /// Events that met their own program at work.
    pub missed: u64,
    /// Events that the filter let through, where there is sampling after it.
    pub matched: u64,
}

/// What was counted of all.
pub struct Totals {
    /// Of each probe.
    pub probes: Vec<Counted>,
    /// Records that were taken in.
    pub taken: u64,
    /// Threads that could not be followed.
    pub lost_threads: u64,
    /// How long it was.
    pub seconds: f64,
}

impl Totals {
    /// Events of which there is no record.
    pub fn lost(&self) -> u64 {
        self.probes.iter().map(|counted| counted.lost + counted.missed).sum()
    }

    /// In a few lines.
    pub fn told(&self, probes: &[Probe]) -> String {
        let mut told = format!(
            "weigh: {} events in {:.3} s, {} lost\n",
            self.taken,
            self.seconds,
            self.lost()
        );
        for (probe, counted) in probes.iter().zip(&self.probes) {
            told += &format!("       {:>12}  {}", counted.sent, probe.name);
            if probe.sampling.is_some() {
                told += &format!("  of {}", counted.matched);
            }
            if counted.lost + counted.missed > 0 {
                told += &format!("  {} lost", counted.lost + counted.missed);
            }
            told += "\n";
        }
        if self.lost_threads > 0 {
            told += &format!("weigh: {} threads could not be followed\n", self.lost_threads);
        }
        told
    }
}

/// A stream that runs.
struct Stream {
    kernel: KernelTrace,
    state: State,
    sink: Box<dyn Sink>,
    taken: u64,
    failed: Option<anyhow::Error>,
}

/// Follows until the last thread has ended, the time is over, or somebody interrupts.
pub fn follow(
    arguments: &TraceArguments,
    probes: &[Probe],
) -> anyhow::Result<Result<Followed, SpawnError>> {
    let is_of_all = arguments.command.is_empty() && arguments.pid.is_none();
    if arguments.system && !is_of_all && arguments.pid.is_some() {
        bail!("expected one of --system and --pid");
    }
    let state = State { probes: probes.len(), cpus: trace::cpus() };
    let settings = Settings {
        state_bytes: state.bytes(),
        ring_bytes: arguments.buffer,
        ring_per_cpu: arguments.per_cpu,
        follows: !is_of_all && !arguments.system,
    };
    let mut kernel = KernelTrace::open(&settings)?;
    kernel.set_word(WATERMARK, arguments.wake.unwrap_or(arguments.buffer as u64 / 8));
    for (number, probe) in probes.iter().enumerate() {
        load(&mut kernel, probe, number, &state, arguments.per_cpu)?;
    }
    let sink = super::sink(arguments, probes)?;
    let mut stream = Stream { kernel, state, sink, taken: 0, failed: None };
    for number in 0..probes.len() {
        stream.kernel.attach(number)?;
    }
    let foreground = Foreground::prepare()?;
    let times = Times { began_ns: Moment::now().ns(), epoch_ns: epoch_ns() };
    let began = Instant::now();
    let started = match (arguments.pid, arguments.command.is_empty()) {
        (Some(pid), _) => {
            stream.kernel.join(pid).with_context(|| format!("--pid {pid}"))?;
            foreground.stay()
        }
        (None, true) => foreground.stay(),
        (None, false) => {
            let arm = |waiting: &Waiting| Ok(stream.kernel.arm(waiting.pidfd())?);
            match foreground.start(&arguments.command, &[], arm)? {
                Ok(started) => started,
                Err(error) => return Ok(Err(error)),
            }
        }
    };
    let end = arguments.duration.map(|duration| began + duration);
    let status = stream.until_over(started, probes, &times, end)?;
    Ok(Ok(stream.finish(probes, &times, began, status)))
}

/// The clock of the day at the moment when the records' clock shows 0.
fn epoch_ns() -> i64 {
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    i64::try_from(day).unwrap_or(i64::MAX).saturating_sub_unsigned(Moment::now().ns())
}

/// Has the kernel check a probe's program: first as one that reads structures directly, then, if the
/// kernel does not like that, by its helpers.
fn load(
    kernel: &mut KernelTrace,
    probe: &Probe,
    number: usize,
    state: &State,
    is_ring_per_cpu: bool,
) -> anyhow::Result<()> {
    let given = kernel.descriptors();
    let maps =
        Maps { state: given.state, ring: given.ring, is_ring_per_cpu, members: given.members };
    let point = match &probe.attach {
        Attach::Tracepoint { btf_id } => trace::Point::Tracepoint { btf_id: *btf_id },
        Attach::Function { btf_id, returns } => {
            trace::Point::Function { btf_id: *btf_id, returns: *returns }
        }
        Attach::User { path, function, .. } => {
            bail!("user:{path}:{function}: functions of programs are not followed yet")
        }
    };
    let mut load_by = |access| -> anyhow::Result<Result<usize, TraceError>> {
        let code = generate::program(probe, number as u32, state, &maps, access)
            .with_context(|| probe.name.clone())?;
        Ok(kernel.load(&probe.name, point.clone(), &code))
    };
    if load_by(Access::Direct)?.is_err() {
        load_by(Access::Helpers)??;
    }
    Ok(())
}

impl Stream {
    fn until_over(
        &mut self,
        mut started: Started,
        probes: &[Probe],
        times: &Times,
        end: Option<Instant>,
    ) -> anyhow::Result<Option<ExitStatus>> {
        loop {
            let look = Instant::now() + LOOK;
            started.wait(end.map_or(look, |end| end.min(look)), &[self.kernel.wake_fd()])?;
            started.attend(&|pid| self.kernel.is_member(pid))?;
            self.take_in(probes, times);
            let is_time = end.is_some_and(|end| Instant::now() >= end);
            let has_ended = match self.kernel.living() {
                Some(living) => living == 0,
                None => started.status().is_some(),
            };
            if has_ended || started.is_interrupted() || is_time {
                return Ok(started.status());
            }
        }
    }

    /// Hands on all records that are there. When they can not be kept any more, they are not made any
    /// more either.
    fn take_in(&mut self, probes: &[Probe], times: &Times) -> u64 {
        let Stream { kernel, sink, failed, .. } = self;
        let records = kernel.drain(|bytes| {
            let Some(record) = Record::new(bytes) else { return };
            if let Some(probe) = probes.get(record.event() as usize)
                && failed.is_none()
                && let Err(error) = sink.take(probe, record, times)
            {
                *failed = Some(error);
            }
        });
        if let Err(error) = sink.end_batch()
            && failed.is_none()
        {
            *failed = Some(error);
        }
        if failed.is_some() {
            kernel.detach_all();
        }
        self.taken += records;
        records
    }

    fn finish(
        mut self,
        probes: &[Probe],
        times: &Times,
        began: Instant,
        status: Option<ExitStatus>,
    ) -> Followed {
        let seconds = began.elapsed().as_secs_f64();
        self.kernel.detach_all();
        while self.take_in(probes, times) > 0 {}
        let totals = Totals {
            probes: (0..probes.len()).map(|number| self.counted(number)).collect(),
            taken: self.taken,
            lost_threads: self.kernel.lost_threads(),
            seconds,
        };
        let finished = self.sink.finish(&totals);
        let failed = self.failed.or(finished.err());
        Followed { status, totals, failed }
    }

    fn counted(&self, number: usize) -> Counted {
        let sum = |count| -> u64 {
            let of = |cpu| self.kernel.word(self.state.count(cpu, number, count));
            (0..self.state.cpus).map(of).sum()
        };
        Counted {
            sent: sum(Count::Sent),
            lost: sum(Count::Lost),
            missed: self.kernel.missed(number),
            matched: sum(Count::Matched),
        }
    }
}
