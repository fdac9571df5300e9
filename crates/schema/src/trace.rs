//! What a recording of `weigh trace` says of itself beside its rows: all that is needed to read it back.
//!
//! It stands as JSON in the metadata of the Parquet file, under [`NOTE`]. A reader takes the keys that
//! it knows; with another number behind the slash it refuses.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::summary::Host;

/// The schema of a note.
pub const RECORDING: &str = "weigh.trace/1";
/// Where it stands in the file.
pub const NOTE: &str = "weigh.trace";

/// How the name of a page of events ends.
pub const PAGE_ENDING: &str = ".html";

/// Whether a file is a page of events.
pub fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == &PAGE_ENDING[1..])
}

/// The columns of a record's header, before those of its fields.
pub mod column {
    /// When, by the clock of the day.
    pub const TIME: &str = "time";
    /// The event's name.
    pub const EVENT: &str = "event";
    /// The CPU.
    pub const CPU: &str = "cpu";
    /// The process.
    pub const TGID: &str = "tgid";
    /// The thread.
    pub const TID: &str = "tid";
    /// What it is about.
    pub const ID: &str = "id";
    /// Which of the recording's events: several may have one name.
    pub const NUMBER: &str = "event_number";
}

/// What is known of a recording as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceNote {
    /// [`RECORDING`].
    pub schema: String,
    /// What was followed, and since when.
    pub origin: Origin,
    /// What the records' clock showed in the end.
    pub ended_ns: u64,
    /// How long events were followed.
    pub seconds: f64,
    /// The events whose rows are in the file, by their numbers.
    pub events: Vec<EventNote>,
    /// The events that were followed: the same, or those that the others are derived from.
    pub followed: Vec<FollowedNote>,
    /// Records that were taken in.
    pub taken_total: u64,
    /// Rows that could not be written any more.
    pub unwritten_total: u64,
    /// Packets of which less was kept than was wanted, for the kernel gave no more; none where there are no packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_cut_total: Option<u64>,
    /// Threads that could not be followed.
    pub lost_threads_total: u64,
    /// Names of threads, as they were when the first of their events came.
    pub threads: Vec<ThreadNote>,
}

/// What was followed, and since when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The command, as a shell would be given it; empty if there was none.
    pub command: String,
    /// Its bytes in Base64, each word ended by a NUL byte, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_base64: Option<String>,
    /// The process, if it ran already.
    pub pid: Option<u32>,
    /// Where, if that is known.
    pub host: Option<Host>,
    /// The clock of the day when the records' clock (CLOCK_BOOTTIME) showed 0.
    pub epoch_ns: i64,
    /// What the records' clock showed when it began.
    pub began_ns: u64,
}

/// An event whose rows are in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventNote {
    /// Its name.
    pub name: String,
    /// Whether its id was asked for as a field of that name.
    #[serde(default)]
    pub has_own_id: bool,
    /// Whether its id can be below 0.
    #[serde(default)]
    pub has_signed_id: bool,
    /// Its fields, in their order.
    pub fields: Vec<FieldNote>,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldNote {
    /// Its name.
    pub name: String,
    /// The column that it is in.
    pub column: String,
    /// What it is.
    pub kind: FieldKind,
    /// How many bytes it has in a record.
    pub bytes: u32,
    /// Whether it can be below 0.
    pub is_signed: bool,
    /// Its constants by number, if it is one of an enumeration's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constants: Vec<(i64, String)>,
}

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// A whole number that is never below 0.
    Unsigned,
    /// A whole number.
    Signed,
    /// True or false: a number, 1 or 0.
    Bool,
    /// An address: a number.
    Pointer,
    /// A constant: its name, or its number if it has none.
    Enum,
    /// A text; what was not UTF-8 is replaced.
    Text,
    /// Bytes.
    Bytes,
    /// Names of functions of the kernel, the innermost first.
    Stack,
    /// Names of functions of the program.
    UserStack,
}

/// An event that was followed, and what was counted of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedNote {
    /// Its name.
    pub event: String,
    /// As it was asked for.
    pub asked: String,
    /// All of its filters, as they were in the end.
    pub filter: Option<String>,
    /// The rule by which not every one was taken.
    pub sampling: Option<String>,
    /// Records that were written.
    pub sent_total: u64,
    /// Events for which there was no room.
    pub lost_total: u64,
    /// Records that were written and could not be read, for a ring was damaged.
    #[serde(default)]
    pub unread_total: u64,
    /// Events that met their own program at work.
    pub missed_total: u64,
    /// Events that the filter let through, where there is sampling after it.
    pub matched_total: Option<u64>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadNote {
    /// Its process.
    pub tgid: u32,
    /// Itself.
    pub tid: u32,
    /// Its name; empty if it had ended.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
}

impl FollowedNote {
    /// Events of which there is no record.
    pub fn gone(&self) -> u64 {
        self.lost_total + self.unread_total + self.missed_total
    }
}

impl TraceNote {
    /// Events of which there is no record.
    pub fn lost(&self) -> u64 {
        self.followed.iter().map(FollowedNote::gone).sum()
    }
}
