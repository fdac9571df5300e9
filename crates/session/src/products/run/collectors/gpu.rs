//! Graphics processors, by NVML and by the kernel's DRM. NVML may take a second to start, and its calls some milliseconds: all of
//! it is done on a thread of its own, and the job never waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use weigh_collect::gpu::{self, DeviceUse, GpuDevice, GpuError, GpuSource, Gpus, JobGpus, JobLook};
use weigh_schema::event::CollectorStatus;
use weigh_schema::summary::GpuUse;
use weigh_schema::{Mechanism, Quality, Unit, Value, metric, metric_name};

use super::collector::{CollectorSource, CollectorSpec, Findings, Sampler, StartContext};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::Collector;

const MEMORY: &str = metric_name::gpu_memory_peak_bytes;
/// Of the job, and of each process.
const MEMORY_SERIES: &str = "gpu_memory_bytes";
const UTILIZATION: &str = metric_name::gpu_utilization_ratio;
/// Of the job, and of each process.
const TIME: &str = metric_name::gpu_seconds;
/// So long the end waits for what NVML tells of processes that have ended.
const PATIENCE: Duration = Duration::from_millis(300);

pub(super) const SPEC: CollectorSpec = CollectorSpec {
    collector: Collector::Gpu,
    mechanism: Mechanism::Nvml,
    metrics: &[MEMORY, TIME, UTILIZATION],
    start,
};

fn start(context: &mut StartContext<'_>) -> Result<Box<dyn CollectorSource>, String> {
    let (ask, asked) = channel::<BTreeSet<u32>>();
    let (answer, answers) = channel();
    let runs_already = context.runs_already;
    std::thread::Builder::new()
        .name("gpu".into())
        .spawn(move || serve(runs_already, &asked, &answer))
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(Box::new(Gpu {
        ask,
        answers,
        waiting: false,
        ready: None,
        devices: Vec::new(),
        latest: JobLook::default(),
        is_new: false,
        memory_peak: None,
        utilization: (0.0, 0),
    }))
}

enum Answer {
    /// These are there; the first answer, if there are any.
    Devices(Vec<GpuDevice>),
    Look(Result<Box<JobLook>, GpuError>),
}

fn serve(runs_already: bool, asked: &Receiver<BTreeSet<u32>>, answer: &Sender<Answer>) {
    let mut gpus = match JobGpus::open(Gpus::open(None), runs_already) {
        Ok(gpus) => gpus,
        Err(error) => {
            let _ = answer.send(Answer::Look(Err(error)));
            // What this thread has read is told from what the job has read as long as it is there.
            while asked.recv().is_ok() {}
            return;
        }
    };
    // What was done before is none of the job's.
    let _ = gpus.look(&BTreeSet::new());
    let _ = answer.send(Answer::Devices(gpus.devices().to_vec()));
    while let Ok(pids) = asked.recv() {
        if answer.send(Answer::Look(gpus.look(&pids).map(Box::new))).is_err() {
            return;
        }
    }
}

struct Gpu {
    ask: Sender<BTreeSet<u32>>,
    answers: Receiver<Answer>,
    waiting: bool,
    ready: Option<Result<(), GpuError>>,
    devices: Vec<GpuDevice>,
    latest: JobLook,
    /// Whether that has not been recorded.
    is_new: bool,
    memory_peak: Option<u64>,
    utilization: (f64, u32),
}

impl Gpu {
    fn take_answers(&mut self) {
        while let Ok(answer) = self.answers.try_recv() {
            self.take(answer);
        }
    }

    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Devices(devices) => {
                self.devices = devices;
                self.ready = Some(Ok(()));
            }
            Answer::Look(look) => {
                self.waiting = false;
                match look {
                    Ok(look) => self.take_look(*look),
                    Err(error) => self.ready = Some(Err(error)),
                }
            }
        }
    }

    fn take_look(&mut self, look: JobLook) {
        self.ready = Some(Ok(()));
        self.memory_peak = self.memory_peak.max(look.memory_bytes);
        if let Some(ratio) = look.utilization_ratio {
            self.utilization = (self.utilization.0 + ratio, self.utilization.1 + 1);
        }
        self.latest = look;
        self.is_new = true;
    }

    /// NVML may tell of processes that have ended just now.
    fn take_last(&mut self) {
        self.take_answers();
        let uses_any = self.latest.uses.values().any(|used| used.source == GpuSource::Nvml);
        if uses_any && self.ask.send(BTreeSet::new()).is_ok() {
            let looks = 1 + usize::from(self.waiting);
            for _ in 0..looks {
                let Ok(answer) = self.answers.recv_timeout(PATIENCE) else { return };
                self.take(answer);
            }
        }
    }

    fn reason(&self) -> String {
        match &self.ready {
            None => "NVML had not answered when the job ended".to_string(),
            Some(Err(error)) => error.to_string(),
            Some(Ok(())) => "the job had no process on a GPU at any sample".to_string(),
        }
    }
}

impl CollectorSource for Gpu {
    fn sampler(&mut self) -> Option<&mut dyn Sampler> {
        Some(self)
    }

    fn record(&mut self, recorder: &mut Recorder<'_>) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        for (pid, process) in &self.latest.processes {
            let memory = process.memory_bytes.map(|bytes| (MEMORY_SERIES, bytes as f64));
            let busy = process.busy.map(|busy| (TIME, busy.as_secs_f64()));
            let values = memory.into_iter().chain(busy);
            let values = values.map(|(name, value)| (name.to_string(), value)).collect();
            recorder.process_samples(*pid, None, values);
        }
    }

    fn finish(
        mut self: Box<Self>,
        findings: &mut Findings,
        _: &mut Recorder<'_>,
    ) -> CollectorStatus {
        self.take_last();
        let ratio =
            (self.utilization.1 > 0).then(|| self.utilization.0 / f64::from(self.utilization.1));
        let (best, busy) = (self.trust(), self.busy());
        for (name, value, (source, quality, reason)) in [
            (MEMORY, self.memory_peak.map(|b| b as f64), (best.0, Quality::Sampled, LOOKED)),
            (TIME, busy.map(|busy| busy.as_secs_f64()), best),
            (UTILIZATION, ratio, (Mechanism::Nvml, Quality::Sampled, LOOKED)),
        ] {
            let value = match value {
                Some(value) => known(name, value, (source, quality, reason)),
                None => Value::unavailable(unit(name), self.reason()),
            };
            findings.given.insert(name.to_string(), value);
        }
        findings.gpus = self.uses();
        let mut status = gpu::status(match &self.ready {
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        });
        if self.ready.is_none() {
            status.reason = Some(self.reason());
        }
        status
    }
}

const LOOKED: &str = "looked at with each sample";
const CLIENTS: &str =
    "looked at with each sample: what a client did between the last look and its end is not in it";
const UTILIZED: &str =
    "the utilization that NVML reports for the process, times the time between two looks";
const ACCOUNTS: &str =
    "by the accounts of NVIDIA's driver: its whole percents of the process's time";

/// Who tells of time, how well, and why not better.
type TimeTrust = (Mechanism, Quality, &'static str);

fn trust(source: GpuSource) -> TimeTrust {
    match source {
        GpuSource::Opened | GpuSource::Drm => (Mechanism::Proc, Quality::Sampled, CLIENTS),
        GpuSource::Nvml => (Mechanism::Nvml, Quality::Estimated, UTILIZED),
        GpuSource::NvmlAccounts => (Mechanism::Nvml, Quality::Estimated, ACCOUNTS),
    }
}

fn unit(name: &str) -> Unit {
    metric(name).map_or(Unit::Count, |metric| metric.unit)
}

fn known(name: &str, value: f64, (source, quality, reason): TimeTrust) -> Value {
    Value::exact(unit(name), value, source).qualified(quality, reason)
}

impl Gpu {
    /// How far a sum can be trusted: no further than its worst part.
    fn trust(&self) -> TimeTrust {
        let sources = self.latest.uses.values().map(|used| used.source);
        let worst = sources.max_by_key(|source| (*source == GpuSource::Nvml, *source as u8));
        match worst {
            None if self.devices.iter().any(GpuDevice::is_of_nvml) => trust(GpuSource::Nvml),
            worst => trust(worst.unwrap_or_default()),
        }
    }

    /// Absent before the first look, and where one of the GPUs does not tell.
    fn busy(&self) -> Option<Duration> {
        self.memory_peak.and(self.latest.busy)
    }

    fn uses(&self) -> Vec<GpuUse> {
        let named = |((pid, at), used): (&(u32, usize), &DeviceUse)| {
            let device = self.devices.get(*at)?;
            Some(GpuUse {
                pid: *pid,
                gpu: device.name.clone(),
                uuid: device.uuid.clone(),
                opened: used.opened.iter().map(|file| file.display().to_string()).collect(),
                metrics: use_metrics(used),
            })
        };
        self.latest.uses.iter().filter_map(named).collect()
    }
}

fn use_metrics(used: &DeviceUse) -> BTreeMap<String, Value> {
    let (source, quality, reason) = trust(used.source);
    let nobody = match used.source {
        GpuSource::Opened => "the process had it open, and its driver names no client of it",
        _ => "the GPU does not tell it of single processes",
    };
    let memory = used.memory_peak_bytes.map(|bytes| match used.source {
        GpuSource::NvmlAccounts => (bytes as f64, (source, Quality::Exact, ACCOUNTS)),
        _ => (bytes as f64, (source, Quality::Sampled, LOOKED)),
    });
    let busy = used.busy.map(|busy| (busy.as_secs_f64(), (source, quality, reason)));
    let value = |name: &str, value: Option<(f64, TimeTrust)>| {
        let value = value.map(|(value, trust)| known(name, value, trust));
        (name.to_string(), value.unwrap_or_else(|| Value::unavailable(unit(name), nobody)))
    };
    BTreeMap::from([value(MEMORY, memory), value(TIME, busy)])
}

impl Sampler for Gpu {
    fn samples(&mut self, living: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)> {
        self.take_answers();
        if matches!(self.ready, Some(Ok(()))) && !self.waiting {
            self.waiting = self.ask.send(living().into_iter().collect()).is_ok();
        }
        let memory = self.latest.memory_bytes.map(|bytes| (MEMORY_SERIES, bytes as f64));
        let busy = self.busy().map(|busy| (TIME, busy.as_secs_f64()));
        let ratio = self.latest.utilization_ratio.map(|ratio| (UTILIZATION, ratio));
        memory.into_iter().chain(busy).chain(ratio).collect()
    }

    fn is_of_windows(&self) -> bool {
        true
    }
}
