//! What a collector is: a small interface, and what it offers besides.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weigh_collect::cgroup::JobCgroup;
use weigh_collect::follow::JobMechanism;
use weigh_collect::spawn::Waiting;
use weigh_schema::call::CallsReport;
use weigh_schema::event::{CollectorState, CollectorStatus, Note};
use weigh_schema::io::IoFound;
use weigh_schema::summary::{FileSystemRoom, GpuUse};
use weigh_schema::{Mechanism, Quality, Value, metric};

use crate::products::run::recorder::Recorder;
use crate::products::run::settings::{Collector, RunSettings};

/// Readable when a collector has something to take in.
pub(in crate::products::run) type Wakers<'a> = Vec<BorrowedFd<'a>>;

/// A collector of values for the whole job, and what it offers besides.
pub(in crate::products::run) trait CollectorSource {
    /// The command is about to begin.
    fn begin(&mut self) {}

    /// The metrics of which it is not to be believed what the mechanism's readings say.
    fn claim(&self) -> Claim<'_> {
        Claim::default()
    }

    /// Samples for the series.
    fn sampler(&mut self) -> Option<&mut dyn Sampler> {
        None
    }

    /// Values before the end.
    fn live_values(&self) -> Option<&dyn LiveValues> {
        None
    }

    /// Rows of files.
    fn file_rows(&mut self) -> Option<&mut dyn FileRows> {
        None
    }

    /// What wakes the session for it, beside its deadline.
    fn wakers(&self) -> Wakers<'_> {
        Vec::new()
    }

    /// When it has to be attended to, if ticks are too seldom for it.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Takes in what has come, if it is time.
    fn attend(&mut self, _recorder: &mut Recorder<'_>) {}

    /// Writes down what is known so far beside the series, at a tick.
    fn record(&mut self, _recorder: &mut Recorder<'_>) {}

    /// The values for the summary, and how the collector fared.
    fn finish(
        self: Box<Self>,
        findings: &mut Findings,
        recorder: &mut Recorder<'_>,
    ) -> CollectorStatus;
}

/// The metrics that a collector knows, or of which it knows that nothing does.
#[derive(Clone, Copy, Default)]
pub(in crate::products::run) struct Claim<'a> {
    /// The metrics.
    pub metrics: &'a [&'static str],
    /// Why they will never be known, if that is so.
    pub refusal: Option<&'a str>,
}

/// Takes samples at ticks.
pub(in crate::products::run) trait Sampler {
    /// Values for the series, at a tick.
    fn samples(&mut self, living: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)>;

    /// Whether samples closer together than windows would tell nothing, or distort a mean over samples.
    fn is_of_windows(&self) -> bool;
}

/// Knows values before the end.
pub(in crate::products::run) trait LiveValues {
    /// The present value of a metric, for limits.
    fn value(&self, metric: &str) -> Option<f64>;

    /// The longest time between two looks at a metric so far, where it is looked at now and then on this
    /// collector's own account.
    fn looks_apart(&self, metric: &str) -> Option<Duration>;
}

/// Reports rows of files: then no other collector does.
pub(in crate::products::run) trait FileRows {
    /// The job has ended. Whether weigh may end, too, as far as this is concerned.
    fn may_end(&mut self) -> bool;
}

/// What collectors give for the summary.
#[derive(Default)]
pub(in crate::products::run) struct Findings {
    /// Values that are known directly.
    pub given: BTreeMap<String, Value>,
    /// Whether the growth of the watched directories was greatest at the end, and can have shrunk by calls alone.
    pub grew_until_the_end: bool,
    /// What there is to say about values that follow from the readings.
    pub notes: Vec<Note>,
    /// How many calls there were that move bytes and are in no sum, if somebody has looked at each call.
    pub uncounted_calls: Option<u64>,
    /// What was read and written.
    pub io: Option<Box<IoFound>>,
    /// What system calls cost, where they were followed.
    pub calls: Option<Box<CallsReport>>,
    /// The file systems that the job used.
    pub file_systems: Vec<FileSystemRoom>,
    /// What processes did with GPUs.
    pub gpus: Vec<GpuUse>,
    /// Processes that were killed for want of memory, by the count of the job's own control group.
    pub oom_kills: Option<u64>,
}

impl Findings {
    /// Takes what the mechanism has to say. Whether there were calls that it cannot count another may know.
    pub fn take_notes(&mut self, notes: Vec<Note>) {
        let known = |mut note: Note| {
            if let Some(calls) = self.uncounted_calls.filter(|_| note.is_of_uncounted()) {
                note.reason = Note::uncounted_calls(calls);
                return (calls > 0).then_some(note);
            }
            Some(note)
        };
        self.notes.extend(notes.into_iter().filter_map(known));
    }

    /// Gives a metric no value, and says why.
    pub fn unavailable(&mut self, metrics: &[&str], reason: &str) {
        for name in metrics {
            if let Some(metric) = metric(name) {
                let value = Value::unavailable(metric.unit, reason);
                self.given.insert((*name).to_string(), value);
            }
        }
    }
}

/// A collector that does nothing but say why.
pub(super) struct MissingCollector {
    pub(super) name: String,
    pub(super) mechanism: Mechanism,
    pub(super) state: CollectorState,
    pub(super) reason: String,
    pub(super) metrics: &'static [&'static str],
}

impl CollectorSource for MissingCollector {
    fn claim(&self) -> Claim<'_> {
        Claim { metrics: self.metrics, refusal: Some(&self.reason) }
    }

    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder<'_>) -> CollectorStatus {
        findings.unavailable(self.metrics, &self.reason);
        CollectorStatus {
            name: self.name,
            mechanism: self.mechanism,
            status: self.state,
            reason: Some(self.reason),
            lost: 0,
        }
    }
}

/// What collectors are started on.
#[derive(Clone, Copy)]
pub(in crate::products::run) enum Subject<'a> {
    /// A command, whose process has not executed anything.
    Command(&'a Waiting),
    /// A process that runs already.
    Process(u32),
}

impl Subject<'_> {
    pub(super) fn pid(self) -> u32 {
        match self {
            Subject::Command(waiting) => waiting.pid.as_raw_nonzero().get() as u32,
            Subject::Process(pid) => pid,
        }
    }
}

/// What a collector is started with.
pub(super) struct StartContext<'a> {
    pub(super) settings: &'a RunSettings,
    /// The job's first process.
    pub(super) pid: u32,
    /// Whether it ran before weigh.
    pub(super) runs_already: bool,
    /// The control group that was made for it, if one was, and whether it is in there already.
    pub(super) group: Option<(Result<JobCgroup, String>, bool)>,
    pub(super) follower: &'a mut dyn JobMechanism,
    /// Folders that weigh has made for this run, besides the recording.
    pub(super) own_folders: &'a [PathBuf],
}

/// What a collector is, whether or not it is wanted and works.
pub(super) struct CollectorSpec {
    pub(super) collector: Collector,
    pub(super) mechanism: Mechanism,
    pub(super) metrics: &'static [&'static str],
    pub(super) start: fn(&mut StartContext<'_>) -> Result<Box<dyn CollectorSource>, String>,
}

/// A collector at work.
pub(in crate::products::run) struct ActiveCollector {
    pub(super) metrics: &'static [&'static str],
    pub(super) mechanism: Mechanism,
    /// The collector.
    pub collector: Box<dyn CollectorSource>,
}

impl ActiveCollector {
    /// The present value of a metric.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.collector.live_values()?.value(metric)
    }

    /// What it knows of its metrics before the job has ended.
    pub fn so_far(&self) -> impl Iterator<Item = (String, Value)> + '_ {
        self.metrics.iter().filter_map(|name| {
            let unit = metric(name)?.unit;
            let value = match self.value(name) {
                Some(value) => Value::exact(unit, value, self.mechanism)
                    .qualified(Quality::Sampled, "as last looked at before this moment"),
                None => {
                    let refusal = self.collector.claim().refusal;
                    Value::unavailable(unit, refusal.unwrap_or("not known yet at this moment"))
                }
            };
            Some(((*name).to_string(), value))
        })
    }
}
