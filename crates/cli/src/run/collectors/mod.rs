//! The collectors beside the BPF programs, each behind the same small interface.
//!
//! To add one: a file here, and a line in [`start`].

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
use weigh_collect::follow::Follow;
use weigh_collect::io::FollowIo;
use weigh_collect::spawn::Waiting;
use weigh_schema::event::{CollectorState, CollectorStatus, Note};
use weigh_schema::io::IoFound;
use weigh_schema::quality::{Quality, Value};
use weigh_schema::{Mechanism, metric};

pub use cgroup::make as make_group;
pub use delays::turn_on as turn_on_delays;
pub use io::open as open_io;

use super::recorder::Recorder;
use super::settings::Settings;
use crate::arguments::Collector;
use crate::io::mount::recorded::ForJob;

/// A collector of values for the whole job.
pub trait JobCollector {
    /// Values for the series, at a tick.
    fn samples(&mut self, _living: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Whether samples closer together than windows would tell nothing, or distort a mean over samples.
    fn samples_windows_only(&self) -> bool {
        false
    }

    /// The present value of a metric, for limits.
    fn value(&self, _metric: &str) -> Option<f64> {
        None
    }

    /// The longest time between two looks at a metric so far, where it is looked at now and then on this
    /// collector's own account.
    fn looks_apart(&self, _metric: &str) -> Option<Duration> {
        None
    }

    /// Why a metric that has no present value has none.
    fn why_not_yet(&self) -> &str {
        "not known yet at this moment"
    }

    /// The metrics of which it is not to be believed what the follower's readings say: it knows them, or
    /// that nobody does.
    fn takes_over(&self) -> &[&'static str] {
        &[]
    }

    /// Why it will never know its metrics, if that is so.
    fn refusal(&self) -> Option<&str> {
        None
    }

    /// When it has to be attended to, if ticks are too seldom for it.
    fn next(&self) -> Option<Instant> {
        None
    }

    /// Takes in what has come, if it is time.
    fn attend(&mut self, _recorder: &mut Recorder) {}

    /// The command is about to begin.
    fn begin(&mut self) {}

    /// Writes down what is known so far beside the series, at a tick.
    fn record(&mut self, _recorder: &mut Recorder) {}

    /// The job has ended. Whether weigh may end, too, as far as this is concerned.
    fn may_end(&mut self) -> bool {
        true
    }

    /// Whether the rows of files are its: then nobody else tells of them.
    fn tells_of_files(&self) -> bool {
        false
    }

    /// The values for the summary, and how the collector fared.
    fn finish(self: Box<Self>, findings: &mut Findings, recorder: &mut Recorder)
    -> CollectorStatus;
}

/// What collectors give for the summary.
#[derive(Default)]
pub struct Findings {
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
struct Absent {
    name: String,
    mechanism: Mechanism,
    state: CollectorState,
    reason: String,
    metrics: &'static [&'static str],
}

impl JobCollector for Absent {
    fn refusal(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn takes_over(&self) -> &[&'static str] {
        self.metrics
    }

    fn why_not_yet(&self) -> &str {
        &self.reason
    }

    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder) -> CollectorStatus {
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

/// What a collector is started with.
struct Start<'a> {
    settings: &'a Settings,
    /// The command's process, which waits to execute it.
    pid: u32,
    /// The control group that was made for it, if one was, and whether it is in there already.
    group: Option<(Result<JobCgroup, String>, bool)>,
    follower: &'a dyn Follow,
    /// Folders that weigh has made for this run, besides the recording.
    own_folders: &'a [PathBuf],
}

/// What a collector is, whether or not it is wanted and works.
struct Kind {
    collector: Collector,
    mechanism: Mechanism,
    metrics: &'static [&'static str],
    start: fn(&mut Start<'_>) -> Result<Box<dyn JobCollector>, String>,
}

const KINDS: &[Kind] =
    &[hardware::KIND, footprint::KIND, files::KIND, cgroup::KIND, delays::KIND, gpu::KIND];

/// A collector that was started.
pub struct Started {
    metrics: &'static [&'static str],
    mechanism: Mechanism,
    /// The collector.
    pub collector: Box<dyn JobCollector>,
}

impl Started {
    /// What it knows of its metrics before the job has ended.
    pub fn so_far(&self) -> impl Iterator<Item = (String, Value)> + '_ {
        self.metrics.iter().filter_map(|name| {
            let unit = metric(name)?.unit;
            let value = match self.collector.value(name) {
                Some(value) => Value {
                    value: Some(unit.number(value)),
                    unit,
                    source: self.mechanism,
                    quality: Quality::Sampled,
                    reason: Some("as last looked at before this moment".to_string()),
                },
                None => Value::unavailable(unit, self.collector.why_not_yet()),
            };
            Some(((*name).to_string(), value))
        })
    }
}

/// Starts all collectors on the command, which is created but not yet executed. `io` is who tells of reads and
/// writes, where the user has said who is to; `own_folders` are those that weigh has made.
pub fn start(
    settings: &Settings,
    waiting: &Waiting,
    group: Result<JobCgroup, String>,
    follower: &dyn Follow,
    mount: Option<ForJob>,
    io: Option<Box<dyn FollowIo>>,
    own_folders: &[PathBuf],
) -> Vec<Started> {
    let pid = waiting.pid.as_raw_nonzero().get() as u32;
    let group = Some((group, waiting.is_in_group));
    let mut start = Start { settings, pid, group, follower, own_folders };
    let written = settings.arguments.written.then(|| written::start(waiting));
    let by_file = settings.arguments.io.then(|| match mount {
        Some(mount) => io::start_at(mount),
        None => io::start(settings, waiting, follower, io),
    });
    let asked_for = written.into_iter().chain(by_file);
    let kinds = KINDS
        .iter()
        .map(|kind| {
            let absent = |state, reason| -> Box<dyn JobCollector> {
                Box::new(Absent {
                    name: kind.collector.name(),
                    mechanism: kind.mechanism,
                    state,
                    reason,
                    metrics: kind.metrics,
                })
            };
            if !settings.wants(kind.collector) {
                let reason = format!("turned off by --without {}", kind.collector.name());
                return absent(CollectorState::Disabled, reason);
            }
            (kind.start)(&mut start)
                .unwrap_or_else(|reason| absent(CollectorState::Unavailable, reason))
        })
        .zip(KINDS)
        .map(|(collector, kind)| Started {
            metrics: kind.metrics,
            mechanism: kind.mechanism,
            collector,
        });
    kinds.chain(asked_for).chain([pressure::start()]).collect()
}
