//! The rows of a recording's tables. Column names and types of the Parquet files are derived from
//! these and from [`METRICS`](crate::METRICS).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::availability::CollectorInfo;
use crate::metric::{METRICS, Metric};
use crate::unit::Number;

/// The part of a summary's collectors that tells what the recording itself has lost.
pub const RECORDING: CollectorInfo = CollectorInfo::new(
    "recording",
    "what was recorded, on disk",
    Some("space and permission to write"),
);

/// The file names inside a recording directory.
pub mod files {
    /// The summary.
    pub const SUMMARY: &str = "summary.json";
    /// Samples over time.
    pub const SERIES: &str = "series.parquet";
    /// The same in slots of time, where there are very many.
    pub const SERIES_OVERVIEW: &str = "series_overview.parquet";
    /// One row for each process.
    pub const PROCESSES: &str = "processes.parquet";
    /// One row for each file and process.
    pub const FILES: &str = "files.parquet";
    /// What was read and written over time, where `--io` follows it.
    pub const IO_SERIES: &str = "io_series.parquet";
    /// Where in the files.
    pub const IO_PLACES: &str = "io_places.parquet";
    /// Every call that was about a file, where `--io-calls` asks for it.
    pub const IO_CALLS: &str = "io_calls.parquet";
    /// What system calls cost in each part of the kernel, where `--calls` follows them: as `weigh calls --json` writes it.
    pub const CALLS: &str = "calls.json";
    /// One row for each region, place in the call tree and thread, where programs told of regions.
    pub const REGIONS: &str = "regions.parquet";
    /// One row for each phase that has ended.
    pub const PHASES: &str = "phases.parquet";
    /// The page for people.
    pub const REPORT: &str = "report.html";
    /// What has been recorded so far, while the job runs.
    pub const JOURNAL: &str = "journal.jsonl";
}

/// One value of one metric at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleRow {
    /// Nanoseconds since the Unix epoch, UTC.
    pub time_ns: i64,
    /// What the value is about: `job`, or `process:PID`.
    pub scope: String,
    /// A series name declared in [`METRICS`](crate::METRICS), or `region:` and the name of a program's own counter or gauge.
    pub metric: String,
    /// The value, in the metric's unit.
    pub value: f64,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Its PID in the initial PID namespace.
    pub pid: u32,
    /// The PID of the process that started it.
    pub parent: u32,
    /// The kernel's name for it.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// The arguments of its last exec, or of its parent's if it never called exec, joined for a shell.
    pub command: String,
    /// Their bytes in Base64, each argument ended by a NUL byte, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_base64: Option<String>,
    /// The user it belonged to.
    pub uid: u32,
    /// Start, nanoseconds since the Unix epoch, UTC.
    pub started_ns: i64,
    /// End, nanoseconds since the Unix epoch, UTC; absent if it was alive at the end of the recording.
    pub ended_ns: Option<i64>,
    /// Its exit code, if it exited.
    pub exit_code: Option<u32>,
    /// The signal that ended it, if one did.
    pub exit_signal: Option<u32>,
    /// Its own metrics by name; a metric that is not known has no entry.
    pub metrics: BTreeMap<String, Number>,
}

impl ProcessRow {
    /// The metrics that each process has, in column order.
    pub fn metric_columns() -> impl Iterator<Item = &'static Metric> {
        METRICS.iter().filter(|m| m.is_per_process())
    }
}
