//! What was counted of a stream, for people and for files.

use serde::{Deserialize, Serialize};
use weigh_schema::synthesis::SynthesisReport;
use weigh_schema::trace::{FollowedNote, Origin, RECORDING, TraceNote};

/// What the buffer is called that no `--into` names.
pub const MAIN: &str = "main";

/// What was counted of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCounts {
    /// Its event.
    #[serde(skip)]
    pub event: String,
    /// Records that were written.
    pub sent: u64,
    /// Records for which the ring had no room.
    pub lost: u64,
    /// Records that were written and could not be read, for a ring was damaged: while the stream runs, at least so many.
    #[serde(default)]
    pub unread: u64,
    /// Events that met their own program at work.
    pub missed: u64,
    /// Events that the filter let through, where there is sampling after it.
    pub matched: Option<u64>,
}

impl ProbeCounts {
    /// Events of which there is no record.
    pub fn gone(&self) -> u64 {
        self.lost + self.unread + self.missed
    }

    /// What a recording says of it.
    pub fn note(
        self,
        asked: String,
        filter: Option<String>,
        sampling: Option<String>,
    ) -> FollowedNote {
        let ProbeCounts { event, sent, lost, unread, missed, matched } = self;
        FollowedNote {
            event,
            asked,
            filter,
            sampling,
            sent_total: sent,
            lost_total: lost,
            unread_total: unread,
            missed_total: missed,
            matched_total: matched,
        }
    }
}

/// What was counted of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferCounts {
    /// What it is called.
    #[serde(skip)]
    pub name: String,
    /// Records that were taken in.
    pub taken: u64,
    /// Events that its predicate did not let in.
    pub passed_over: u64,
    /// Events for which it had no room, and records of it that could not be read.
    pub lost: u64,
    /// Records that came when its file could not be written any more.
    #[serde(default)]
    pub unkept: u64,
    /// Why it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What was counted of all.
#[derive(Default)]
pub struct Totals {
    /// Who was followed, and since when.
    pub origin: Origin,
    /// Of each event.
    pub followed: Vec<FollowedNote>,
    /// Of each buffer.
    pub buffers: Vec<BufferCounts>,
    /// Records that were taken in.
    pub taken: u64,
    /// Of so many, where a reader's own filter passed over the others.
    pub seen: Option<u64>,
    /// Threads that could not be followed.
    pub lost_threads: u64,
    /// What the records' clock showed in the end.
    pub ended_ns: u64,
    /// How long it was.
    pub seconds: f64,
    /// What several events said together, if that was asked for.
    pub synthesis: Option<SynthesisReport>,
}

impl Totals {
    /// Events of which there is no record.
    pub fn lost(&self) -> u64 {
        self.followed.iter().map(FollowedNote::gone).sum()
    }

    /// Records that were written and could not be read.
    pub fn unread(&self) -> u64 {
        self.followed.iter().map(|followed| followed.unread_total).sum()
    }

    /// What a recording says of itself, but for its rows.
    pub fn note(&self) -> TraceNote {
        TraceNote {
            schema: RECORDING.to_string(),
            origin: self.origin.clone(),
            ended_ns: self.ended_ns,
            seconds: self.seconds,
            followed: self.followed.clone(),
            taken_total: self.taken,
            lost_threads_total: self.lost_threads,
            ..TraceNote::default()
        }
    }
}
