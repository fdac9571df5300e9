//! Streams as they survive a restart of the agent: a line per stream, and its records behind it.
//!
//! Reads what an agent has written; a file that is cut short or altered gives the records that can be read, and numbers
//! go on behind all that were given.

use weigh_schema::stream::{AGENT_STATE, StreamCheckpoint, StreamRecord};
use weigh_wire::Payload;

use super::record::{EncodedRecord, Viewer, Visibility};
use super::server::{Stream, StreamServer};

/// Who writes it sees all.
const ALL: Viewer = Viewer { uid: 0, is_trusted: true };

impl StreamServer {
    /// All streams with their records.
    pub fn checkpoint(&mut self) -> Vec<u8> {
        self.take_profiles();
        self.write_spans(true);
        let mut bytes = Vec::new();
        for (name, stream) in &self.streams {
            let _ = checkpoint_of(name, stream).write(&mut bytes);
            bytes.push(b'\n');
            for (_, record) in stream.buffer.records() {
                record.write(ALL, &mut bytes);
                bytes.push(b'\n');
            }
        }
        bytes
    }

    /// Goes on from a checkpoint: nothing was written yet. Rows of processes are shown as it is said. How many records
    /// are there again, and how many could not be read.
    pub fn restore(&mut self, bytes: &[u8], visibility: &Visibility) -> (u64, u64) {
        let (mut restored, mut missing) = (0, 0);
        let mut lines = bytes.split(|byte| *byte == b'\n');
        while let Some(line) = lines.next() {
            let Some(checkpoint) = StreamCheckpoint::read(line) else { continue };
            let stream = self.streams.get_mut(checkpoint.stream.as_str());
            let Some(stream) = stream.filter(|_| checkpoint.schema == AGENT_STATE) else {
                continue;
            };
            stream.numbering_ns = checkpoint.numbering_ns;
            stream.refused = checkpoint.refused_total;
            stream.buffer.set_policy(checkpoint.policy);
            stream.buffer.resume(checkpoint.next_sequence, checkpoint.lost_total);
            for _ in 0..checkpoint.records {
                match lines.next().and_then(StreamRecord::read) {
                    Some(record) => {
                        let sequence = record.sequence;
                        let record = EncodedRecord::new(record, visibility);
                        let bytes = record.bytes();
                        stream.buffer.restore(sequence, record.into(), bytes);
                        restored += 1;
                    }
                    None => missing += 1,
                }
            }
        }
        (restored, missing)
    }
}

fn checkpoint_of(name: &str, stream: &Stream) -> StreamCheckpoint {
    StreamCheckpoint {
        schema: AGENT_STATE.to_string(),
        stream: name.to_string(),
        policy: stream.buffer.policy(),
        next_sequence: stream.buffer.next_sequence(),
        numbering_ns: stream.numbering_ns,
        lost_total: stream.buffer.lost(),
        refused_total: stream.refused,
        records: stream.buffer.len() as u64,
    }
}
