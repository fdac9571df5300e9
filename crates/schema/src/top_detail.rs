//! What `weigh top --once --json --job PID` prints, and what the screen of a job or a process is drawn from.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::top::{TopJob, TopProcess};

/// The schema's name and version.
pub const TOP_JOB: &str = "weigh.top-job/1";

/// One look at a job or a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopDetail {
    /// Always [`TOP_JOB`].
    pub schema: String,
    /// The node's name.
    pub node: String,
    /// When it was taken.
    pub time: Timestamp,
    /// What rates are over: seconds since the look before; null at the first one.
    pub interval_seconds: Option<f64>,
    /// The session of `weigh run`; null where a process was asked for.
    pub job: Option<TopJob>,
    /// Its processes, the greatest users of CPU first.
    pub processes: Vec<TopProcessDetail>,
}

/// A process, and what `/proc` says of it besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopProcessDetail {
    /// As in the list of processes.
    #[serde(flatten)]
    pub process: TopProcess,
    /// Bytes read and written.
    pub io: ProcessReading<TopIo>,
    /// Its threads, by their numbers; those past [`MOST_THREADS`] are left out.
    pub thread_list: ProcessReading<Vec<TopThread>>,
    /// What it has open.
    pub open_files: ProcessReading<TopOpenFiles>,
    /// Its resource limits, as setrlimit(2) has them.
    pub limits: ProcessReading<Vec<TopLimit>>,
}

/// Of one process no more threads are listed.
pub const MOST_THREADS: usize = 4096;
/// Of one process no more open files are listed, but all are counted.
pub const MOST_FILES: usize = 256;

/// What a file of `/proc/PID` says, or why that is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessReading<T> {
    /// What it says; null where it cannot be read.
    pub value: Option<T>,
    /// Why it cannot be read, or has not been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl<T> ProcessReading<T> {
    /// What was read.
    pub fn of(value: T) -> ProcessReading<T> {
        ProcessReading { value: Some(value), reason: None }
    }

    /// Why it was not.
    pub fn unavailable(reason: impl Into<String>) -> ProcessReading<T> {
        ProcessReading { value: None, reason: Some(reason.into()) }
    }
}

/// `/proc/PID/io`: since the process was started, with children that it has waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopIo {
    /// Bytes returned by read-like calls (`rchar`).
    pub read_bytes: u64,
    /// Bytes accepted by write-like calls (`wchar`).
    pub written_bytes: u64,
    /// Bytes fetched from storage (`read_bytes`).
    pub storage_read_bytes: u64,
    /// Bytes sent to storage, now or later (`write_bytes`).
    pub storage_written_bytes: u64,
    /// Growth in a second since the look before; null where that is not known.
    pub read_bytes_per_second: Option<f64>,
    /// As above.
    pub written_bytes_per_second: Option<f64>,
    /// As above.
    pub storage_read_bytes_per_second: Option<f64>,
    /// As above.
    pub storage_written_bytes_per_second: Option<f64>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopThread {
    /// Its number.
    pub tid: u32,
    /// The kernel's name for it; bytes that are no UTF-8 are U+FFFD.
    pub name: String,
    /// The bytes of it, in base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// `R`, `S`, `D`, `Z`, `T`.
    pub state: char,
    /// CPUs that it kept busy since the look before; null where it was not there then.
    pub cpu_cores: Option<f64>,
    /// CPU time since it was started.
    pub cpu_seconds: f64,
}

/// Open files of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopOpenFiles {
    /// How many descriptors it has.
    pub count: u64,
    /// The first of them.
    pub list: Vec<TopFile>,
}

/// An open file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopFile {
    /// The descriptor.
    pub descriptor: u32,
    /// A path, or `socket:[…]`, `pipe:[…]`, `anon_inode:…`; bytes that are no UTF-8 are U+FFFD.
    pub target: String,
    /// The bytes of it, in base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_base64: Option<String>,
}

/// A resource limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopLimit {
    /// Its name: `open_files`, `cpu_seconds`, …
    pub name: String,
    /// What holds; null: unlimited.
    pub soft: Option<u64>,
    /// Up to what the process itself may raise it; null: unlimited.
    pub hard: Option<u64>,
}
