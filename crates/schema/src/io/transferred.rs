//! Bytes and calls of both directions, and how far they are known.

use serde::{Deserialize, Serialize};

use crate::quality::Quality;

/// Which directions a mechanism does not see: their numbers are not known, and are not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Reads.
    pub reads: bool,
    /// Writes.
    pub writes: bool,
}

impl Unseen {
    /// Whether anything is not seen.
    pub fn any(self) -> bool {
        self.reads || self.writes
    }
}

/// Bytes and calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ReportFields", into = "ReportFields")]
pub struct Transferred {
    /// Bytes read.
    pub read_bytes: u64,
    /// Calls that read.
    pub read_calls: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Calls that write.
    pub write_calls: u64,
    /// What is not known of them: it is absent in JSON.
    pub unseen: Unseen,
}

/// The same as it is written: what is not known is absent.
#[derive(Serialize, Deserialize)]
struct ReportFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    written_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write_calls: Option<u64>,
}

impl From<Transferred> for ReportFields {
    fn from(known: Transferred) -> ReportFields {
        let (reads, writes) = (!known.unseen.reads, !known.unseen.writes);
        ReportFields {
            read_bytes: reads.then_some(known.read_bytes),
            read_calls: reads.then_some(known.read_calls),
            written_bytes: writes.then_some(known.written_bytes),
            write_calls: writes.then_some(known.write_calls),
        }
    }
}

impl From<ReportFields> for Transferred {
    fn from(told: ReportFields) -> Transferred {
        Transferred {
            read_bytes: told.read_bytes.unwrap_or(0),
            read_calls: told.read_calls.unwrap_or(0),
            written_bytes: told.written_bytes.unwrap_or(0),
            write_calls: told.write_calls.unwrap_or(0),
            unseen: Unseen {
                reads: told.read_bytes.is_none(),
                writes: told.written_bytes.is_none(),
            },
        }
    }
}

/// How far numbers of one key can be trusted, where that is less than exact for the whole report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// How far.
    pub quality: Quality,
    /// Why.
    pub reason: String,
}
