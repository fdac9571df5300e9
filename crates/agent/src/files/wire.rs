//! What is asked and told of files: as in `follow::wire`, and behind some answers the bytes that they announce.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};
use weigh_collect::io::{RecordBatch, RecordKind};
use weigh_schema::io::{FileId, Tally};

use crate::follow::wire;

/// No answer announces more.
const MOST_BYTES: usize = 1 << 24;

/// What a user's weigh asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// To get ready; the first request, and the only one of its kind.
    Open {
        /// [`RecordBatch::layout`].
        layout: u64,
        /// Whether each call is wanted.
        each: bool,
        /// Whether threads are told apart.
        threads: bool,
    },
    /// To follow the command that a descriptor stands for, which comes with it; once.
    Arm,
    /// To follow the process that a descriptor stands for, which runs already; once.
    Join,
    /// Whether the process that a descriptor stands for is one of the job.
    IsMember,
    /// What was told since the last time.
    Records,
    /// What is kept of files that are open.
    Uses,
    /// What devices did with files.
    Devices,
    /// The processes that live.
    Processes,
    /// AIO requests that no call has handed over.
    Requests,
    /// What found no room.
    Rest,
    /// To tell the names of these files again.
    ForgetNames(Vec<FileId>),
    /// To follow no longer.
    Detach,
}

impl Ask {
    /// Asks for what is kept.
    pub fn kept(what: RecordKind) -> Ask {
        match what {
            RecordKind::Uses => Ask::Uses,
            RecordKind::Devices => Ask::Devices,
            RecordKind::Processes => Ask::Processes,
            RecordKind::Requests => Ask::Requests,
            RecordKind::Rest => Ask::Rest,
        }
    }
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Tell {
    /// It is ready.
    Opened {
        /// When the following began, by the agent's monotonic clock.
        began_ns: u64,
        /// How long ago that is.
        elapsed_ns: u64,
        /// What this kernel lacks.
        missing: Vec<String>,
    },
    /// It was done.
    Done,
    /// It was not, or cannot be.
    Refused(String),
    /// Yes or no.
    Is(bool),
    /// So many bytes of records come next; how much was seen until then.
    Records(Tally, usize),
    /// So many bytes of what is kept come next; after none there are no more.
    Kept(usize),
}

/// Sends what was announced.
pub fn send_bytes(mut stream: &UnixStream, told: &RecordBatch) -> io::Result<()> {
    stream.write_all(told.bytes())
}

/// What was announced.
pub fn receive_bytes(mut stream: &UnixStream, length: usize) -> io::Result<RecordBatch> {
    if length > MOST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(RecordBatch::from_bytes(bytes))
}

/// Names that are asked for again in one request: it has room for them, however great their numbers are.
pub const NAMES_AT_ONCE: usize = 512;

pub use wire::{MOST_ASKED, converse, receive, send};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_announced_comes_whole_and_not_without_end() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut told = RecordBatch::default();
        told.push(b"key", b"value");
        send(&ours, &Tell::Kept(told.bytes().len()), None).unwrap();
        send_bytes(&ours, &told).unwrap();
        send(&ours, &Tell::Kept(0), None).unwrap();
        let next = || receive::<Tell>(&theirs, MOST_ASKED).unwrap().unwrap().0;
        let Tell::Kept(length) = next() else { panic!("something else") };
        assert_eq!(receive_bytes(&theirs, length).unwrap(), told);
        assert_eq!(next(), Tell::Kept(0));
        assert!(receive_bytes(&theirs, MOST_BYTES + 1).is_err());
        drop(ours);
        assert!(receive_bytes(&theirs, 1).is_err());
    }

    #[test]
    fn no_more_names_than_fit_are_asked_for_at_once() {
        let file = FileId { device: u32::MAX, generation: u32::MAX, inode: u64::MAX };
        let ask = Ask::ForgetNames(vec![file; super::NAMES_AT_ONCE]);
        assert!(serde_json::to_vec(&ask).unwrap().len() < MOST_ASKED);
    }
}
