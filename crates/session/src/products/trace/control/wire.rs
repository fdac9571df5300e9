//! What a stream is asked and answers: a line of JSON each.

use serde::{Deserialize, Serialize};
use weigh_schema::synthesis::SynthesisReport;
use weigh_trace::sink::{BufferCounts, ProbeCounts};

use super::super::description::{Description, StreamPosition};

/// What is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// The register.
    List,
    /// Another event, or a set.
    Add {
        /// As it is written.
        event: String,
    },
    /// An event less.
    Remove {
        /// Which.
        id: usize,
    },
    /// An event is followed no more for now, or again.
    Follow {
        /// Which.
        id: usize,
        /// Whether it is.
        is_on: bool,
    },
    /// Another filter.
    Filter {
        /// Of which.
        id: usize,
        /// None: all are taken.
        filter: Option<String>,
    },
    /// Another sampling.
    Sample {
        /// Of which.
        id: usize,
        /// None: all are taken.
        rule: Option<String>,
    },
    /// Another buffer.
    AddBuffer {
        /// As it is written.
        buffer: String,
    },
    /// A buffer is changed.
    SetBuffer {
        /// Which.
        name: String,
        /// What is said of it.
        clauses: String,
    },
    /// A buffer less.
    RemoveBuffer {
        /// Which.
        name: String,
    },
    /// Another watermark.
    Wake {
        /// So much.
        bytes: u64,
    },
    /// To read along.
    Attach(AttachBy),
    /// Where the stream is in its rings, and what it has seen until there.
    Where,
    /// Which events there are.
    Describe,
    /// What several events say together, from now on, until the stream ends.
    Reports {
        /// Each so many milliseconds.
        ms: u64,
    },
}

/// How somebody wants to read along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachBy {
    /// When the reader is to be waked.
    #[serde(flatten)]
    pub wake: WakeBy,
    /// Which buffer; none: the first of those that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<String>,
}

/// When one who reads along is waked: as soon as one of these has been reached; 0: not by that. All 0: by 64 KiB, or
/// after 100 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeBy {
    /// Bytes that have come.
    #[serde(default)]
    pub bytes: u64,
    /// Records.
    #[serde(default)]
    pub count: u64,
    /// Milliseconds since something has come.
    #[serde(default)]
    pub ms: u64,
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<R = Register> {
    /// What there is.
    Register(Box<R>),
    /// It is in force.
    Done(Change),
    /// Why not.
    Refused(String),
    /// There is none of that name to read along, but these.
    NoBuffer(Vec<String>),
    /// It may read along: with this come the rings, to be read only, a descriptor that wakes, and memory where it tells
    /// how far it is.
    Attached(Box<Attachment>),
    /// Where the stream is.
    Where(StreamPosition),
    /// Which events there are.
    Description(Box<Description>),
    /// Unasked, to who wants reports: what several events say together until now.
    Report(Box<SynthesisReport>),
    /// Unasked, to who reads along: the stream has ended, or the buffer was removed, and this is where.
    Ended(StreamPosition),
}

/// What one who reads along begins with.
#[derive(Debug, Serialize, Deserialize)]
pub struct Attachment {
    /// Which buffer it is.
    #[serde(default)]
    pub buffer: String,
    /// Which events there are.
    pub description: Description,
    /// Where the reader begins, and what was seen by the stream until there.
    pub r#where: StreamPosition,
}

/// What has been changed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Change {
    /// Of which probes.
    pub ids: Vec<usize>,
    /// Of what else.
    #[serde(default)]
    pub what: Option<String>,
    /// How long that took.
    pub took_us: u64,
}

/// All that a stream does.
#[derive(Debug, Serialize, Deserialize)]
pub struct Register {
    /// Whose.
    pub pid: u32,
    /// How long it has run.
    pub seconds: f64,
    /// The file that it writes.
    pub output: Option<String>,
    /// How many rings it has.
    pub rings: usize,
    /// Bytes of each.
    pub ring_bytes: usize,
    /// It is waked when a CPU has written so much.
    pub wake_bytes: u64,
    /// Records that were taken in.
    pub taken: u64,
    /// Threads that could not be followed.
    pub lost_threads: u64,
    /// What it follows, and has followed.
    pub probes: Vec<ProbeEntry>,
    /// Where that goes, and has gone.
    pub buffers: Vec<BufferEntry>,
    /// Who reads along.
    pub clients: Vec<ReaderEntry>,
    /// Who wants reports.
    #[serde(default)]
    pub report_readers: usize,
    /// Conditions under which it changes itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleEntry>,
}

/// A condition and what it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleEntry {
    /// As it was written.
    pub rule: String,
    /// Whether the change is in force.
    pub is_on: bool,
    /// How often that has changed.
    pub switches_total: u64,
    /// Why it could not be put in force, the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A buffer.
#[derive(Debug, Serialize, Deserialize)]
pub struct BufferEntry {
    /// What to ask for it by.
    pub name: String,
    /// Who writes into the same ring.
    pub spread: String,
    /// How many rings it has.
    pub rings: usize,
    /// Bytes of each.
    pub ring_bytes: usize,
    /// The events that go in, if not all do.
    pub events: Option<Vec<String>>,
    /// Which of their records.
    pub predicate: Option<String>,
    /// When who reads is waked.
    pub delivery: String,
    /// The file that it is written to.
    pub output: Option<String>,
    /// Bytes that wait in the rings.
    pub waiting: u64,
    /// Whether it was, and is not any more.
    pub is_removed: bool,
    /// What was counted.
    #[serde(flatten)]
    pub counted: BufferCounts,
}

/// A probe.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProbeEntry {
    /// What to ask for it by; its records have it, too.
    pub id: usize,
    /// Its event.
    pub event: String,
    /// Its fields.
    pub fields: Vec<String>,
    /// Which are taken.
    pub filter: Option<String>,
    /// How many of them.
    pub sampling: Option<String>,
    /// Bytes of a record.
    pub record_bytes: u32,
    /// Whether it was, and is not any more.
    pub is_removed: bool,
    /// Whether it is not followed for now.
    #[serde(default)]
    pub is_paused: bool,
    /// What was counted.
    #[serde(flatten)]
    pub counted: ProbeCounts,
}

/// One who reads along, as the register has it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReaderEntry {
    /// Its process, as it connected.
    pub pid: u32,
    /// The buffer that it reads.
    #[serde(default)]
    pub buffer: String,
    /// When it is waked.
    pub wake: WakeBy,
    /// Bytes that it has passed since it came, and that lie between it and the stream.
    pub position: u64,
    /// See above.
    pub lag: u64,
    /// Records that it has seen.
    pub seen: u64,
    /// Records that it has not seen, because it was overtaken.
    pub lost: u64,
}
