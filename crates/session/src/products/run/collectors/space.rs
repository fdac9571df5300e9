//! The room on the file systems that the job uses: whether there is enough to go on.
//!
//! Emits free bytes and inodes at the start, the least seen and at the end, of the file systems of the working directory,
//! of `TMPDIR`, of watched folders, of the recording, and of files that rows say the job wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weigh_collect::free_space::{INFO, LookRate, Room, SpaceHistory, SpaceWatch, SystemId};
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::node_metric::*;
use weigh_schema::summary::{FileSystemPurpose, FileSystemRoom};
use weigh_schema::{Mechanism, Metric, Quality, Unit, Value, byte_text, metric_name};

use super::collector::{
    ActiveCollector, CollectorSource, Findings, LiveValues, MissingCollector, Sampler,
};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::RunSettings;

const BYTES: &str = metric_name::disk_free_least_bytes;
const INODES: &str = metric_name::disk_free_inodes_least;
const ALL: &[&str] = &[BYTES, INODES];

/// How long the command waits for the first look, and the end for the last. On an idle machine one takes microseconds.
const LONGEST_WAIT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(50));

/// It needs no option to turn it off: a look takes a microsecond or two.
pub(super) fn start(settings: &RunSettings) -> ActiveCollector {
    let is_limited = settings.limits.iter().any(|limit| ALL.contains(&limit.metric.name));
    let rate = if is_limited { LookRate::Limited } else { LookRate::Relaxed };
    let collector: Box<dyn CollectorSource> = match SpaceWatch::start(rate) {
        Ok(watch) => Box::new(Space::new(watch, &places(settings))),
        Err(reason) => Box::new(MissingCollector {
            name: INFO.name.to_string(),
            mechanism: Mechanism::Stat,
            state: CollectorState::Unavailable,
            reason,
            metrics: ALL,
        }),
    };
    ActiveCollector { metrics: ALL, mechanism: Mechanism::Stat, collector }
}

/// The folders that the job is known to use before it runs. Of a process that runs already it is not asked what its
/// environment was.
fn places(settings: &RunSettings) -> Vec<(PathBuf, FileSystemPurpose)> {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    let working = match settings.pid {
        Some(pid) => std::fs::read_link(format!("/proc/{pid}/cwd")).ok(),
        None => std::env::current_dir().ok(),
    };
    let temporary = std::env::var_os("TMPDIR").filter(|_| settings.pid.is_none());
    let temporary = temporary.map(PathBuf::from).filter(|path| path.is_absolute());
    let watched = settings.footprint.iter();
    [
        (working, FileSystemPurpose::WorkingDirectory),
        (temporary, FileSystemPurpose::Temporary),
        (absolute(&settings.directory), FileSystemPurpose::Recording),
    ]
    .into_iter()
    .chain(watched.map(|folder| (absolute(folder), FileSystemPurpose::Watched)))
    .filter_map(|(path, purpose)| Some((path?, purpose)))
    .collect()
}

struct Space {
    watch: SpaceWatch,
    used_for: BTreeMap<SystemId, BTreeSet<FileSystemPurpose>>,
    begun: Instant,
}

impl Space {
    fn new(watch: SpaceWatch, places: &[(PathBuf, FileSystemPurpose)]) -> Space {
        let mut space = Space { watch, used_for: BTreeMap::new(), begun: Instant::now() };
        for (path, purpose) in places {
            if let Some(system) = space.watch.system_of(path) {
                space.uses(system, *purpose);
            }
        }
        space
    }

    fn uses(&mut self, system: SystemId, purpose: FileSystemPurpose) {
        self.used_for.entry(system).or_default().insert(purpose);
        self.watch.watch(system);
    }

    /// Rows of files have said on which devices the job writes.
    fn take_outputs(&mut self, recorder: &Recorder<'_>) {
        for device in recorder.written_devices() {
            let system = self.watch.system_of_device((device >> 20, device & 0xf_ffff));
            if let Some(system) = system {
                self.uses(system, FileSystemPurpose::Output);
            }
        }
    }

    fn systems(&self) -> Vec<SystemId> {
        self.used_for.keys().copied().collect()
    }

    fn value(&self, least: Option<(u64, SystemId)>, unit: Unit) -> Value {
        let Some((number, system)) = least else {
            return Value::unavailable(unit, self.why_unknown());
        };
        let of = self.watch.history(system).map(|history| {
            let place = history.point.display().to_string();
            format!("on {place} ({}), {}", history.kind, looks(&history))
        });
        let exact = Value::whole(unit, number, Mechanism::Stat);
        Value { quality: Quality::Sampled, reason: of, ..exact }
    }

    fn why_unknown(&self) -> String {
        let trouble = |system: &SystemId| self.watch.history(*system)?.trouble;
        let found = self.used_for.keys().find_map(trouble);
        found.unwrap_or_else(|| "no file system of the job says how much".to_string())
    }

    /// `asked` is when the last look was asked for.
    fn room(&self, system: SystemId, asked: Instant) -> Option<FileSystemRoom> {
        let history = self.watch.history(system)?;
        let mount = byte_text::keep(history.point.as_os_str().as_bytes());
        let (major, minor) = history.device;
        let purposes = self.used_for.get(&system).into_iter().flatten().copied();
        Some(FileSystemRoom {
            mount: byte_text::shown(&mount),
            mount_base64: byte_text::base64(&mount),
            kind: history.kind.clone(),
            device: major << 20 | minor,
            used_for: purposes.collect(),
            at_start: self.at_start(&history),
            least: least(&history),
            at_end: at_end(&history, asked),
        })
    }

    fn at_start(&self, history: &SpaceHistory) -> BTreeMap<String, Value> {
        let Some((room, after)) = history.first else { return nothing(history) };
        let lead = self.watch.age().saturating_sub(self.begun.elapsed());
        let late = after.checked_sub(lead).filter(|late| !late.is_zero());
        let reason =
            late.map(|late| format!("first looked at {:.1} s after the start", late.as_secs_f64()));
        values(&room, reason.as_deref())
    }
}

/// How its least values were found.
fn looks(history: &SpaceHistory) -> String {
    let apart = (history.apart.as_secs_f64() * 1e3).ceil();
    format!("least of {} looks, up to {apart:.0} ms apart", history.looks)
}

fn value(metric: &Metric, number: Option<u64>, reason: Option<&str>) -> (String, Value) {
    const UNLIMITED: &str = "the file system makes inodes as they are needed";
    let value = match number {
        None => Value::unavailable(metric.unit, UNLIMITED),
        Some(number) => {
            let exact = Value::whole(metric.unit, number, Mechanism::Stat);
            match reason {
                None => exact,
                Some(reason) => exact.qualified(Quality::Sampled, reason),
            }
        }
    };
    (metric.name.to_string(), value)
}

fn values(room: &Room, reason: Option<&str>) -> BTreeMap<String, Value> {
    let inodes = room.inodes.unzip();
    BTreeMap::from([
        value(&node_filesystem_total_bytes, Some(room.total_bytes), reason),
        value(&node_filesystem_available_bytes, Some(room.free_bytes), reason),
        value(&node_filesystem_inodes, inodes.0, reason),
        value(&node_filesystem_inodes_available, inodes.1, reason),
    ])
}

fn least(history: &SpaceHistory) -> BTreeMap<String, Value> {
    let Some(bytes) = history.least_bytes else { return nothing(history) };
    let reason = looks(history);
    BTreeMap::from([
        value(&node_filesystem_available_bytes, Some(bytes), Some(&reason)),
        value(&node_filesystem_inodes_available, history.least_inodes, Some(&reason)),
    ])
}

fn at_end(history: &SpaceHistory, asked: Instant) -> BTreeMap<String, Value> {
    let Some((room, ago)) = history.last else { return nothing(history) };
    let early = ago.checked_sub(asked.elapsed()).filter(|early| !early.is_zero());
    let reason = early.map(|early| {
        let why = history.trouble.as_deref().unwrap_or("the machine was busy");
        format!("as of {:.1} s before the end: {why}", early.as_secs_f64())
    });
    values(&room, reason.as_deref())
}

/// Of one that has never answered.
fn nothing(history: &SpaceHistory) -> BTreeMap<String, Value> {
    let why = history.trouble.as_deref().unwrap_or("the job ended before the first look");
    let unknown = |metric: &Metric| {
        (metric.name.to_string(), Value::unavailable(metric.unit, why.to_string()))
    };
    BTreeMap::from([
        unknown(&node_filesystem_available_bytes),
        unknown(&node_filesystem_inodes_available),
    ])
}

impl CollectorSource for Space {
    fn begin(&mut self) {
        self.watch.wait_for_first(LONGEST_WAIT.0);
        self.begun = Instant::now();
    }

    fn sampler(&mut self) -> Option<&mut dyn Sampler> {
        Some(self)
    }

    fn live_values(&self) -> Option<&dyn LiveValues> {
        Some(self)
    }

    fn record(&mut self, recorder: &mut Recorder<'_>) {
        self.take_outputs(recorder);
    }

    fn finish(
        mut self: Box<Self>,
        findings: &mut Findings,
        recorder: &mut Recorder<'_>,
    ) -> CollectorStatus {
        self.take_outputs(recorder);
        let asked = Instant::now();
        self.watch.look_now(LONGEST_WAIT.1);
        let systems = self.systems();
        let [bytes, inodes] = self.watch.least(&systems);
        for (name, least, unit) in [(BYTES, bytes, Unit::Bytes), (INODES, inodes, Unit::Count)] {
            findings.given.insert(name.to_string(), self.value(least, unit));
        }
        findings.file_systems =
            systems.iter().filter_map(|system| self.room(*system, asked)).collect();
        let silent = systems.iter().filter_map(|system| {
            let history = self.watch.history(*system)?;
            Some(format!("{}: {}", history.point.display(), history.trouble?))
        });
        let silent: Vec<String> = silent.collect();
        let status = CollectorStatus::of_reasons(INFO.name, Mechanism::Stat, &silent);
        match bytes {
            None if !silent.is_empty() => {
                CollectorStatus { status: CollectorState::Unavailable, ..status }
            }
            _ => status,
        }
    }
}

impl Sampler for Space {
    fn samples(&mut self, _: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)> {
        let free = self.watch.free_bytes(&self.systems());
        free.map(|free| ("disk_free_bytes", free as f64)).into_iter().collect()
    }

    fn is_of_windows(&self) -> bool {
        false
    }
}

impl LiveValues for Space {
    fn value(&self, name: &str) -> Option<f64> {
        let [bytes, inodes] = self.watch.least(&self.systems());
        let least = match name {
            BYTES => bytes,
            INODES => inodes,
            _ => None,
        };
        least.map(|(number, _)| number as f64)
    }

    fn looks_apart(&self, name: &str) -> Option<Duration> {
        ALL.contains(&name).then(|| self.watch.apart(&self.systems()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> SpaceHistory {
        let room = |free_bytes| Room { total_bytes: 1009, free_bytes, inodes: None };
        SpaceHistory {
            point: "/data".into(),
            kind: "btrfs".to_string(),
            device: (0, 33),
            first: Some((room(701), Duration::from_millis(1))),
            least_bytes: Some(307),
            least_inodes: None,
            last: Some((room(503), Duration::ZERO)),
            looks: 3,
            apart: Duration::from_millis(41),
            trouble: None,
        }
    }

    #[test]
    fn each_moment_has_its_values_and_says_what_it_rests_on() {
        let history = history();
        let least = least(&history);
        let bytes = &least["node_filesystem_available_bytes"];
        assert_eq!((bytes.number(), bytes.quality), (Some(307.0), Quality::Sampled));
        assert_eq!(bytes.reason.as_deref(), Some("least of 3 looks, up to 41 ms apart"));
        let inodes = &least["node_filesystem_inodes_available"];
        assert_eq!((inodes.value, inodes.quality), (None, Quality::Unavailable));
        let end = at_end(&history, Instant::now());
        let bytes = &end["node_filesystem_available_bytes"];
        assert_eq!((bytes.number(), bytes.quality), (Some(503.0), Quality::Exact));
        let silent = SpaceHistory {
            last: history.last.map(|(room, _)| (room, Duration::from_secs(7))),
            trouble: Some("it has not answered for 7.0 s".to_string()),
            ..history
        };
        let end = at_end(&silent, Instant::now());
        let reason = end["node_filesystem_available_bytes"].reason.as_deref();
        let wanted = "as of 7.0 s before the end: it has not answered for 7.0 s";
        assert_eq!(reason, Some(wanted));
        let never = SpaceHistory { last: None, ..silent };
        let end = at_end(&never, Instant::now());
        assert_eq!(end["node_filesystem_available_bytes"].value, None);
    }
}
