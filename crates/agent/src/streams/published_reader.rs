//! The client's side of what is published: the latest of each value, for who looks at the node without the agent's reports.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weigh_schema::stream::{PUSHED, RecordBody, StreamRead, StreamRecord};
use weigh_schema::top::PublishedValue;

use super::published::{KNOWN_FOR, PublishedValues};
use super::remote::{StreamClient, StreamError};

/// After so long an agent that is not there is asked again.
const PAUSE: Duration = Duration::from_secs(5);
/// Bytes of records at once, and so often in a row.
const MOST_BYTES: u64 = 1 << 18;
const MOST_READS: usize = 64;

/// Reads the stream `pushed` of an agent, where there is one.
pub struct PublishedReader {
    socket: PathBuf,
    client: Option<StreamClient>,
    next_sequence: u64,
    values: PublishedValues,
    not_before: Instant,
}

impl PublishedReader {
    /// It connects when it is asked.
    pub fn new(socket: PathBuf) -> PublishedReader {
        PublishedReader {
            socket,
            client: None,
            next_sequence: 0,
            values: PublishedValues::default(),
            not_before: Instant::now(),
        }
    }

    /// What is known now; nothing where no agent is.
    pub fn values(&mut self) -> Vec<PublishedValue> {
        let now = Instant::now();
        if now >= self.not_before && self.read().is_err() {
            (self.client, self.next_sequence) = (None, 0);
            self.not_before = now + PAUSE;
        }
        self.values.known(Instant::now())
    }

    /// Leaves the agent until it is asked again; what has come since is read then.
    pub fn rest(&mut self) {
        self.client = None;
    }

    fn read(&mut self) -> Result<(), StreamError> {
        for _ in 0..MOST_READS {
            let client = match &self.client {
                Some(client) => client,
                None => self.client.insert(StreamClient::connect(&self.socket)?),
            };
            let found = client.read(StreamRead {
                stream: PUSHED.to_string(),
                from_sequence: self.next_sequence,
                at_most_bytes: MOST_BYTES,
                newest: false,
                wait: false,
                interval_ms: None,
            })?;
            self.next_sequence = found.next_sequence;
            if found.records.is_empty() {
                return Ok(());
            }
            found.records.iter().for_each(|record| self.take(record));
        }
        Ok(())
    }

    fn take(&mut self, record: &StreamRecord) {
        let RecordBody::Sample(sample) = &record.body else { return };
        let Ok(time) = Timestamp::from_nanosecond(record.time_ns.into()) else { return };
        let age = Timestamp::now().duration_since(time);
        let age = Duration::try_from(age).unwrap_or_default();
        if let Some(at) = Instant::now().checked_sub(age).filter(|_| age < KNOWN_FOR) {
            self.values.take(record.source, sample, time, at);
        }
    }
}
