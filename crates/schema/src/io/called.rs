//! One thing that was done with a file, where each is wanted.

use serde::{Deserialize, Serialize};

use super::object::FileId;
use super::transfer::Transfer;
use crate::call_row::Returned;

/// What a thing is that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Bytes were read, in this way.
    Read(Transfer),
    /// Bytes were written.
    Write(Transfer),
    /// A file was opened.
    Open,
    /// A descriptor was closed.
    Close,
    /// lseek.
    Seek,
    /// A call about it that moves no data.
    Metadata,
    /// fsync and its like.
    Sync,
    /// ftruncate.
    Truncate,
    /// mmap.
    Map,
    /// Pages came into the page cache under a call: what the cache did not have.
    Fill,
    /// A call that names a file by its path and opens nothing.
    Path,
}

impl Deed {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Deed::Read(_) => "read",
            Deed::Write(_) => "write",
            Deed::Open => "open",
            Deed::Close => "close",
            Deed::Seek => "seek",
            Deed::Metadata => "metadata",
            Deed::Sync => "sync",
            Deed::Truncate => "truncate",
            Deed::Map => "map",
            Deed::Fill => "fill",
            Deed::Path => "path",
        }
    }

    /// In which way bytes were moved.
    pub const fn transfer(self) -> Option<Transfer> {
        match self {
            Deed::Read(transfer) | Deed::Write(transfer) => Some(transfer),
            _ => None,
        }
    }
}

/// One thing that was done, as `collect` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The file; none where it is not known, or where there is none.
    pub file: Option<FileId>,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// What was done.
    pub deed: Deed,
    /// The call's number.
    pub number: u64,
    /// How many calls it counts for: none if it failed, several if it moved several messages.
    pub calls: u32,
    /// Bytes moved.
    pub bytes: u64,
    /// Where in the file.
    pub from: Option<u64>,
    /// Bytes asked for.
    pub asked: Option<u64>,
    /// The number of the error, below 0; or 0.
    pub error: i32,
    /// How long it took.
    pub time_ns: u64,
    /// When it ended, in nanoseconds since the following began.
    pub ended_ns: u64,
}

/// The same as a row of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoCall {
    /// When it began: nanoseconds since the Unix epoch, UTC.
    pub time_ns: i64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The call's name.
    pub call: String,
    /// What was done: [`Deed::name`].
    pub deed: String,
    /// The kind of transfer, of reads and writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The path by which the file was first seen, or addresses; none where no file is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The file system's device.
    pub device: u32,
    /// The inode.
    pub inode: u64,
    /// Where in the file it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_bytes: Option<u64>,
    /// How much was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_bytes: Option<u64>,
    /// How much was moved.
    pub bytes: u64,
    /// How many calls it counts for.
    pub calls_total: u64,
    /// The number of an error, below 0; or 0.
    #[serde(default)]
    pub error: Returned,
    /// How long it took.
    pub time_seconds: f64,
}

/// Calls that are in all sums and have no row, for they came too fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untold {
    /// How many.
    pub calls_total: u64,
    /// Bytes that they read, mapped memory included.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
}
