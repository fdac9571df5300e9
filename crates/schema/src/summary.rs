//! `summary.json`, version 1: the contract that other software builds on.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::allowed::Allowed;
use crate::amount::{show_amount, show_size_like};
use crate::event::CollectorStatus;
use crate::io::IoFound;
use crate::metric::metric;
use crate::named::named;
use crate::printable::in_words;
use crate::quality::{Mechanism, Quality};
use crate::region::RegionsFound;
use crate::unit::{Number, Unit};

/// The schema's name and version.
pub const SCHEMA: &str = "weigh.summary/1";

/// The totals of a job, with all that is needed to judge them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What was measured.
    pub job: Job,
    /// How it ended; absent while it runs, or if weigh was killed before it ended.
    pub exit: Option<Exit>,
    /// Every metric, by name.
    pub metrics: BTreeMap<String, Value>,
    /// The limits that were set.
    pub limits: Vec<LimitOutcome>,
    /// What was known at the moments that watched files marked, in their order; absent if there
    /// was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<Snapshot>,
    /// What was read and written, by all of its files; absent unless `--io` asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Box<IoFound>>,
    /// What programs told of their regions; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<Box<RegionsFound>>,
    /// The collectors that were used.
    pub collectors: Vec<CollectorStatus>,
    /// Where it ran.
    pub host: Host,
    /// The file systems that it used, and the room on them; none in older recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_systems: Vec<FileSystemRoom>,
    /// What its processes did with GPUs; none in older recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuUse>,
    /// What it was allowed to use.
    #[serde(default)]
    pub allowed: Allowed,
}

/// A value with all that is needed to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The number; absent exactly when the quality is `unavailable`.
    pub value: Option<Number>,
    /// The metric's unit.
    pub unit: Unit,
    /// How it was got.
    pub source: Mechanism,
    /// How far it can be trusted.
    pub quality: Quality,
    /// Why it is not exact, or what it leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Value {
    /// A number that was counted at every event.
    pub fn exact(unit: Unit, number: f64, source: Mechanism) -> Value {
        let value = Some(unit.number(number));
        Value { value, unit, source, quality: Quality::Exact, reason: None }
    }

    /// The same of a count or a number of bytes, to the last digit: a real number has no more than 53 bits.
    pub fn whole(unit: Unit, number: u64, source: Mechanism) -> Value {
        Value { value: Some(Number::Whole(number)), ..Value::exact(unit, 0.0, source) }
    }

    /// The same number with what there is to say of it.
    pub fn qualified(self, quality: Quality, reason: impl Into<String>) -> Value {
        Value { quality, reason: Some(reason.into()), ..self }
    }

    /// The same number, which is estimated for these reasons, if there are any.
    pub fn estimated_for(self, reasons: &[String]) -> Value {
        match reasons {
            [] => self,
            reasons => self.qualified(Quality::Estimated, reasons.join("; ")),
        }
    }

    /// A value that is not known, and why.
    pub fn unavailable(unit: Unit, reason: impl Into<String>) -> Value {
        Value {
            value: None,
            unit,
            source: Mechanism::None,
            quality: Quality::Unavailable,
            reason: Some(in_words(reason.into())),
        }
    }

    /// The number as a real, if there is one.
    pub fn number(&self) -> Option<f64> {
        self.value.map(Number::as_f64)
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// A name for the recording, unique on the node.
    pub id: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Its words as Base64, where one of them is no UTF-8: there `command` has U+FFFD for what is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_base64: Vec<String>,
    /// The working directory.
    pub cwd: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd_base64: Option<String>,
    /// What kind of job it is, in the user's words.
    pub category: Option<String>,
    /// The user's labels.
    pub labels: BTreeMap<String, String>,
    /// The user's name, or the UID if there is none.
    pub user: String,
    /// The node's name.
    pub node: String,
    /// When the command was executed (UTC).
    pub started: Timestamp,
    /// When the job ended (UTC); absent while it runs.
    pub ended: Option<Timestamp>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// In which way.
    pub kind: ExitKind,
    /// The exit code, if the main process exited.
    pub code: Option<i32>,
    /// The signal that ended the main process, if one did.
    pub signal: Option<i32>,
    /// Who sent it, where that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// The metric whose limit was crossed, if that ended the job.
    pub limit: Option<String>,
    /// What went wrong, if the command could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Who sent the signal that ended the main process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// What it is to the job.
    pub kind: SenderKind,
    /// The process; absent where the kernel sent it, or a process of another PID namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The kernel's name for the process, where it was still there to be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// The user that it ran for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// How that is known.
    pub source: Mechanism,
    /// How far it can be trusted.
    pub quality: Quality,
}

/// What the sender of a signal is to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderKind {
    /// The kernel: a fault, a timer, a terminal, a limit, want of memory.
    Kernel,
    /// The main process itself.
    Itself,
    /// Another process of the job.
    Job,
    /// A process that is not of the job.
    Other,
}

named! {
    /// The ways in which a job ends.
    pub enum ExitKind {
        /// The main process exited.
        Exited = "exited",
        /// A signal ended the main process.
        Signaled = "signaled",
        /// A limit ended the job.
        Limit = "limit",
        /// weigh was told to stop measuring before the job had ended.
        Interrupted = "interrupted",
        /// The command could not be executed.
        FailedToStart = "failed_to_start",
        /// weigh has left a process that ran before it, and of which it has not seen the end.
        Detached = "detached",
    }
}

/// A limit and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitOutcome {
    /// The metric.
    pub metric: String,
    /// The greatest value allowed; of a floor the least.
    pub limit: Number,
    /// The same as the user wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// What checks it: `bpf` (in the kernel, at the update itself), `ptrace` (the tracer, at the birth
    /// itself) or `interval` (weigh, now and then).
    pub enforced_by: String,
    /// Whether it was crossed.
    pub exceeded: bool,
    /// The value when it was found to be crossed, or the last one.
    pub observed: Option<Number>,
    /// By how much the value can have passed the limit before anybody acted, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overshoot: Option<String>,
    /// The same in the metric's unit, where there is such a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overshoot_at_most: Option<Number>,
    /// Seconds from the start until it was crossed.
    pub at_seconds: Option<f64>,
    /// The process that crossed it, and what it was doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offender: Option<Offender>,
}

impl LimitOutcome {
    /// The value allowed, for people: as the user wrote it.
    pub fn allowed(&self) -> String {
        self.written.clone().unwrap_or_else(|| self.show(self.limit))
    }

    /// A value of the metric, for people: a size in the unit that the user wrote.
    pub fn show(&self, value: Number) -> String {
        let unit = metric(&self.metric).map_or(Unit::Count, |metric| metric.unit);
        match &self.written {
            Some(written) if unit == Unit::Bytes => show_size_like(value.as_f64(), written),
            _ => show_amount(value.as_f64(), unit),
        }
    }
}

/// The process that crossed a limit, looked at while it was stopped at that point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Offender {
    /// Its PID in the initial PID namespace.
    pub pid: u32,
    /// The thread that made the last step.
    pub thread: u32,
    /// The thread's name.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Its arguments.
    pub command: Vec<String>,
    /// All of them in Base64, where one is no UTF-8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_base64: Vec<String>,
    /// Its largest mappings, greatest first.
    pub mappings: Vec<Mapping>,
    /// Its user-space stack, innermost frame first, as `module+offset` or `function+offset`.
    pub stack: Vec<String>,
    /// All of it in Base64, where one is no UTF-8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack_base64: Vec<String>,
    /// Where it was in the kernel, innermost frame first.
    pub kernel_stack: Vec<String>,
    /// Its open files.
    pub open_files: Vec<String>,
    /// All of them in Base64, where one is no UTF-8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_files_base64: Vec<String>,
    /// What could not be read, and why.
    pub unreadable: Vec<String>,
}

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    /// The file, or `[heap]`, `[stack]`, `[anonymous]`.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Its resident size.
    pub rss_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
}

/// Where a job ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The node's name.
    pub node: String,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs on line.
    pub cpus: u32,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// `v1`, `v2`, `hybrid` or `none`.
    pub cgroup_version: String,
    /// What the machine runs in (`kvm`, `qemu`, `docker`, …), `none` on bare metal, absent if not known.
    pub virtualisation: Option<String>,
    /// The version of weigh.
    pub weigh: String,
    /// Load, memory and uptime of the machine just before the command began, by the names of
    /// [`HOST_METRICS`](crate::HOST_METRICS); none in older recordings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at_start: BTreeMap<String, Value>,
    /// The same just after the job has ended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at_end: BTreeMap<String, Value>,
}

/// A file system, and the room on it before, during and after a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileSystemRoom {
    /// A mount point of it.
    pub mount: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_base64: Option<String>,
    /// Its type, by the kernel's name.
    pub kind: String,
    /// Its device: major * 2^20 + minor.
    pub device: u32,
    /// Why it is in the list.
    pub used_for: Vec<FileSystemPurpose>,
    /// Its size and what was free of it just before the command began, by the names of metrics of the node.
    pub at_start: BTreeMap<String, Value>,
    /// What was free at least, at one look.
    pub least: BTreeMap<String, Value>,
    /// What was free just after the job's end.
    pub at_end: BTreeMap<String, Value>,
}

/// What a job uses a file system for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSystemPurpose {
    /// The working directory is there.
    WorkingDirectory,
    /// `TMPDIR` is there.
    Temporary,
    /// A folder that is watched (`--watch`) is there.
    Watched,
    /// The recording is there.
    Recording,
    /// The job wrote files there.
    Output,
}

/// What one process of a job did with one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuUse {
    /// The process, by its PID in the initial PID namespace.
    pub pid: u32,
    /// The GPU's address on its bus, `0000:0c:00.0`, or its number in NVML where that is not known.
    pub gpu: String,
    /// NVML's UUID of it.
    pub uuid: Option<String>,
    /// Its device files that the process was seen to have open.
    pub opened: Vec<String>,
    /// `gpu_memory_peak_bytes` and `gpu_seconds` of this process on this GPU.
    pub metrics: BTreeMap<String, Value>,
}

/// The job's metrics at one moment: totals and peaks from its start until then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What the user calls it.
    pub label: String,
    /// The watched file.
    pub file: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_base64: Option<String>,
    /// What happened to it.
    pub cause: Cause,
    /// The line that matched, if it was one: the last, where it stands for several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_base64: Option<String>,
    /// How often it happened at this moment: lines that are found at the same look share one
    /// snapshot.
    pub count: u64,
    /// When the values were taken (UTC).
    pub taken: Timestamp,
    /// The same, in seconds from the start of the job.
    pub at_seconds: f64,
    /// Every metric, by name.
    pub metrics: BTreeMap<String, Value>,
}

/// A file to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    /// The file; it need not exist.
    pub path: PathBuf,
    /// Whether its lines are wanted.
    pub lines: bool,
    /// Whether those that it has at the beginning are.
    pub from_start: bool,
    /// Whether to read from its start again when it was truncated.
    pub from_start_if_truncated: bool,
}

named! {
    /// What can happen to a watched file.
    #[derive(Hash)]
    pub enum Cause {
        /// It was created, or another was put in its place.
        Created = "created",
        /// It became shorter.
        Truncated = "truncated",
        /// It got a line.
        Line = "line",
    }
}
