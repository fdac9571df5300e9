//! What was known of a job at the moment something happened to a file that was watched for it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::named::named;
use crate::quality::Value;

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
