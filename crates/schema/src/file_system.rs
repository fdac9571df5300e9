//! The file systems that a job uses, and how much room there was on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quality::Value;

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
