//! The collectors beside the BPF programs, each behind the same small interface.
//!
//! To add one: a file here, and a line in [`SPECS`].

mod cgroup;
mod delays;
mod files;
mod footprint;
mod gpu;
mod hardware;
mod io;
mod pressure;
mod written;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weigh_collect::cgroup::JobCgroup;
use weigh_collect::collectors;
use weigh_collect::follow::{FileMechanism, JobMechanism};
use weigh_collect::spawn::Waiting;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorState, CollectorStatus, Note};
use weigh_schema::io::IoFound;
use weigh_schema::quality::{Quality, Value};
use weigh_schema::recording::RECORDING;
use weigh_schema::{Mechanism, metric};

pub(super) use cgroup::make as make_group;
pub(super) use delays::turn_on as turn_on_delays;
pub(super) use io::open as open_io;

use super::recorder::Recorder;
use super::settings::{Collector, RunSettings};
use crate::products::io::mount::JobMount;

/// All collectors of a run and what they are for. `weigh doctor` walks this list.
pub(crate) fn infos() -> impl Iterator<Item = CollectorInfo> {
    let own = [pressure::INFO, RECORDING, weigh_mount::INFO];
    collectors::COLLECTORS.iter().copied().chain(own)
}

/// A collector of values for the whole job, and what it offers besides.
pub(super) trait CollectorSource {
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

    /// When it has to be attended to, if ticks are too seldom for it.
    fn deadline(&self) -> Option<Instant> {
        None
    }

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
pub(super) struct Claim<'a> {
    /// The metrics.
    pub metrics: &'a [&'static str],
    /// Why they will never be known, if that is so.
    pub refusal: Option<&'a str>,
}

/// Takes samples at ticks.
pub(super) trait Sampler {
    /// Values for the series, at a tick.
    fn samples(&mut self, living: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)>;

    /// Whether samples closer together than windows would tell nothing, or distort a mean over samples.
    fn is_of_windows(&self) -> bool;
}

/// Knows values before the end.
pub(super) trait LiveValues {
    /// The present value of a metric, for limits.
    fn value(&self, metric: &str) -> Option<f64>;

    /// The longest time between two looks at a metric so far, where it is looked at now and then on this
    /// collector's own account.
    fn looks_apart(&self, metric: &str) -> Option<Duration>;
}

/// Reports rows of files: then no other collector does.
pub(super) trait FileRows {
    /// Takes in what has come, if it is time.
    fn attend(&mut self, recorder: &mut Recorder<'_>);

    /// The job has ended. Whether weigh may end, too, as far as this is concerned.
    fn may_end(&mut self) -> bool;
}

/// What collectors give for the summary.
#[derive(Default)]
pub(super) struct Findings {
    /// Values that are known directly.
    pub given: BTreeMap<String, Value>,
    /// Whether the growth of the watched directories was greatest at the end, and can have shrunk by calls alone.
    pub grew_until_the_end: bool,
    /// What there is to say about values that follow from the readings.
    pub notes: Vec<Note>,
    /// What was read and written.
    pub io: Option<Box<IoFound>>,
    /// Processes that were killed for want of memory, by the count of the job's own control group.
    pub oom_kills: Option<u64>,
}

impl Findings {
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
struct MissingCollector {
    name: String,
    mechanism: Mechanism,
    state: CollectorState,
    reason: String,
    metrics: &'static [&'static str],
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
pub(super) enum Subject<'a> {
    /// A command, whose process has not executed anything.
    Command(&'a Waiting),
    /// A process that runs already.
    Process(u32),
}

impl Subject<'_> {
    fn pid(self) -> u32 {
        match self {
            Subject::Command(waiting) => waiting.pid.as_raw_nonzero().get() as u32,
            Subject::Process(pid) => pid,
        }
    }
}

/// What a collector is started with.
struct StartContext<'a> {
    settings: &'a RunSettings,
    /// The job's first process.
    pid: u32,
    /// Whether it ran before weigh.
    runs_already: bool,
    /// The control group that was made for it, if one was, and whether it is in there already.
    group: Option<(Result<JobCgroup, String>, bool)>,
    follower: &'a mut dyn JobMechanism,
    /// Folders that weigh has made for this run, besides the recording.
    own_folders: &'a [PathBuf],
}

/// What a collector is, whether or not it is wanted and works.
struct CollectorSpec {
    collector: Collector,
    mechanism: Mechanism,
    metrics: &'static [&'static str],
    start: fn(&mut StartContext<'_>) -> Result<Box<dyn CollectorSource>, String>,
}

const SPECS: &[CollectorSpec] =
    &[hardware::SPEC, footprint::SPEC, files::SPEC, cgroup::SPEC, delays::SPEC, gpu::SPEC];

/// A collector at work.
pub(super) struct ActiveCollector {
    metrics: &'static [&'static str],
    mechanism: Mechanism,
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
                Some(value) => Value {
                    value: Some(unit.number(value)),
                    unit,
                    source: self.mechanism,
                    quality: Quality::Sampled,
                    reason: Some("as last looked at before this moment".to_string()),
                },
                None => {
                    let refusal = self.collector.claim().refusal;
                    Value::unavailable(unit, refusal.unwrap_or("not known yet at this moment"))
                }
            };
            Some(((*name).to_string(), value))
        })
    }
}

/// Starts all collectors on a job. `io` is what tells of reads and writes, where the user has said what is to; `own_folders` are those that weigh has made.
pub(super) fn start(
    settings: &RunSettings,
    subject: Subject<'_>,
    group: Result<JobCgroup, String>,
    follower: &mut dyn JobMechanism,
    mount: Option<JobMount>,
    io: Option<Box<dyn FileMechanism>>,
    own_folders: &[PathBuf],
) -> Vec<ActiveCollector> {
    let (waiting, is_in_group) = match subject {
        Subject::Command(waiting) => (Some(waiting), waiting.is_in_group),
        Subject::Process(_) => (None, false),
    };
    let (pid, runs_already, group) = (subject.pid(), waiting.is_none(), Some((group, is_in_group)));
    let written = waiting.filter(|_| settings.written).map(written::start);
    let by_file = settings.io.as_ref().map(|wanted| match mount {
        Some(mount) => io::start_at(mount),
        None => io::start((settings, wanted), subject, follower, io),
    });
    let asked_for = written.into_iter().chain(by_file);
    let mut start = StartContext { settings, pid, runs_already, group, follower, own_folders };
    let listed = SPECS
        .iter()
        .map(|spec| {
            let absent = |state, reason| -> Box<dyn CollectorSource> {
                Box::new(MissingCollector {
                    name: spec.collector.name().to_string(),
                    mechanism: spec.mechanism,
                    state,
                    reason,
                    metrics: spec.metrics,
                })
            };
            if !settings.wants(spec.collector) {
                let reason = format!("turned off by --without {}", spec.collector.name());
                return absent(CollectorState::Disabled, reason);
            }
            (spec.start)(&mut start)
                .unwrap_or_else(|reason| absent(CollectorState::Unavailable, reason))
        })
        .zip(SPECS)
        .map(|(collector, spec)| ActiveCollector {
            metrics: spec.metrics,
            mechanism: spec.mechanism,
            collector,
        });
    listed.chain(asked_for).chain([pressure::start()]).collect()
}
