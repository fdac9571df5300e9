//! What was read and written from one look to the next, for what changes over time.

use serde::{Deserialize, Serialize};

/// What one process did with one file between two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// When it was looked, nanoseconds since the Unix epoch, UTC.
    pub time_ns: i64,
    /// How long before that it was looked last.
    pub seconds: f64,
    /// How many files, each with one process, the row stands for: one; if more were used than have rows of
    /// their own, all others together, without a name.
    pub uses_total: u64,
    /// The process; 0 where the row stands for several.
    pub pid: u32,
    /// The thread, where threads are told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// The kernel's name for it.
    pub process: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_base64: Option<String>,
    /// The path by which the file was first seen, or addresses.
    pub path: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The file system's device.
    pub device: u32,
    /// The inode.
    pub inode: u64,
    /// Bytes read by calls; none where they are not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Calls that read; none where they are not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_calls_total: Option<u64>,
    /// Bytes written by calls; none where they are not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Calls that write; none where they are not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_calls_total: Option<u64>,
    /// Bytes of mapped memory that came into the page cache; none where that is not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_read_bytes: Option<u64>,
    /// Bytes of mapped memory that became dirty; none where that is not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_written_bytes: Option<u64>,
    /// Bytes that devices read for it; none where that is not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_read_bytes: Option<u64>,
    /// Bytes of it that devices wrote; none where that is not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_written_bytes: Option<u64>,
    /// Time in all calls that have ended since.
    pub call_seconds: f64,
}

/// How much of it lies in one place of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceMoment {
    /// When it was looked, nanoseconds since the Unix epoch, UTC.
    pub time_ns: i64,
    /// The process.
    pub pid: u32,
    /// The thread, where threads are told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// The path by which the file was first seen.
    pub path: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The file system's device.
    pub device: u32,
    /// The inode.
    pub inode: u64,
    /// Where the place begins in the file.
    pub from_bytes: u64,
    /// Where it ends.
    pub to_bytes: u64,
    /// Bytes read there, by calls and mapped memory.
    pub read_bytes: u64,
    /// Bytes written there.
    pub written_bytes: u64,
}
