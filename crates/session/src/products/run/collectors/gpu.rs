//! Graphics processors. NVML may take a second to start, and its calls some milliseconds: all of
//! it is done on a thread of its own, and the job never waits for it.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};

use weigh_collect::gpu::{self, GpuError, GpuSample, Gpus};
use weigh_schema::event::CollectorStatus;
use weigh_schema::metric_name;
use weigh_schema::quality::{Mechanism, Quality, Value};
use weigh_schema::{Unit, metric};

use super::collector::{CollectorSource, CollectorSpec, Findings, Sampler, StartContext};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::Collector;

const MEMORY: &str = metric_name::gpu_memory_peak_bytes;
/// Of the job, and of each process.
const MEMORY_SERIES: &str = "gpu_memory_bytes";
const UTILIZATION: &str = metric_name::gpu_utilization_ratio;

pub(super) const SPEC: CollectorSpec = CollectorSpec {
    collector: Collector::Gpu,
    mechanism: Mechanism::Nvml,
    metrics: &[MEMORY, UTILIZATION],
    start,
};

fn start(_: &mut StartContext<'_>) -> Result<Box<dyn CollectorSource>, String> {
    let (ask, asked) = channel::<HashSet<u32>>();
    let (answer, answers) = channel();
    std::thread::Builder::new()
        .name("gpu".into())
        .spawn(move || serve(&asked, &answer))
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(Box::new(Gpu {
        ask,
        answers,
        waiting: false,
        ready: None,
        latest: GpuSample::default(),
        is_new: false,
        memory_peak: None,
        utilization: (0.0, 0),
    }))
}

type Answer = Result<GpuSample, GpuError>;

/// The first answer says whether there are GPUs.
fn serve(asked: &Receiver<HashSet<u32>>, answer: &Sender<Answer>) {
    let gpus = match Gpus::open(None) {
        Ok(gpus) => gpus,
        Err(error) => {
            let _ = answer.send(Err(error));
            // What this thread has read is told from what the job has read as long as it is there.
            while asked.recv().is_ok() {}
            return;
        }
    };
    let mut pids = HashSet::new();
    loop {
        if answer.send(gpus.sample(&|pid| pids.contains(&pid))).is_err() {
            return;
        }
        match asked.recv() {
            Ok(next) => pids = next,
            Err(_) => return,
        }
    }
}

struct Gpu {
    ask: Sender<HashSet<u32>>,
    answers: Receiver<Answer>,
    waiting: bool,
    ready: Option<Result<(), GpuError>>,
    latest: GpuSample,
    /// Whether that has not been recorded.
    is_new: bool,
    memory_peak: Option<u64>,
    utilization: (f64, u32),
}

impl Gpu {
    fn take_answers(&mut self) {
        while let Ok(answer) = self.answers.try_recv() {
            self.waiting = false;
            match answer {
                Ok(sample) => self.take(sample),
                Err(error) => self.ready = Some(Err(error)),
            }
        }
    }

    fn take(&mut self, sample: GpuSample) {
        let is_first = self.ready.is_none();
        self.ready = Some(Ok(()));
        if is_first {
            return; // asked with no process
        }
        self.memory_peak = self.memory_peak.max(sample.memory_bytes);
        if let Some(ratio) = sample.utilization_ratio {
            self.utilization = (self.utilization.0 + ratio, self.utilization.1 + 1);
        }
        self.latest = sample;
        self.is_new = true;
    }

    fn reason(&self) -> String {
        match &self.ready {
            None => "NVML had not started when the job ended".to_string(),
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
        for (pid, bytes) in &self.latest.memory_by_process {
            let value = bytes.map(|bytes| (MEMORY_SERIES.to_string(), bytes as f64));
            recorder.process_samples(*pid, None, value.into_iter().collect());
        }
    }

    fn finish(
        mut self: Box<Self>,
        findings: &mut Findings,
        _: &mut Recorder<'_>,
    ) -> CollectorStatus {
        self.take_answers();
        let ratio =
            (self.utilization.1 > 0).then(|| self.utilization.0 / f64::from(self.utilization.1));
        for (name, value) in [(MEMORY, self.memory_peak.map(|b| b as f64)), (UTILIZATION, ratio)] {
            let unit = metric(name).map_or(Unit::Count, |m| m.unit);
            let value = match value {
                Some(value) => Value {
                    value: Some(unit.number(value)),
                    unit,
                    source: Mechanism::Nvml,
                    quality: Quality::Sampled,
                    reason: Some("looked at with each sample".into()),
                },
                None => Value::unavailable(unit, self.reason()),
            };
            findings.given.insert(name.to_string(), value);
        }
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

impl Sampler for Gpu {
    fn samples(&mut self, living: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)> {
        self.take_answers();
        if matches!(self.ready, Some(Ok(()))) && !self.waiting {
            self.waiting = self.ask.send(living().into_iter().collect()).is_ok();
        }
        let memory = self.latest.memory_bytes.map(|bytes| (MEMORY_SERIES, bytes as f64));
        let ratio = self.latest.utilization_ratio.map(|ratio| (UTILIZATION, ratio));
        memory.into_iter().chain(ratio).collect()
    }

    fn is_of_windows(&self) -> bool {
        true
    }
}
