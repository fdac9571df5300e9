//! The client's side of what is published: the latest of each value, and of the regions of each program, for who looks at the
//! node without the agent's reports.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use weigh_account::regions::top_profile;
use weigh_collect::host;
use weigh_schema::stream::{
    PROFILES, PUSHED, ProgramProfile, RecordBody, StreamRead, StreamRecord,
};
use weigh_schema::top::{PublishedValue, TopProfile};

use super::known_profiles::KnownProfiles;
use super::published::{KNOWN_FOR, PublishedValues};
use super::remote::{StreamClient, StreamError};

/// After so long an agent that is not there is asked again.
const PAUSE: Duration = Duration::from_secs(5);
/// Bytes of records at once, and so often in a row.
const MOST_BYTES: u64 = 1 << 18;
const MOST_READS: usize = 64;

/// Reads the streams `pushed` and `profiles` of an agent, where there is one.
pub struct PublishedReader {
    socket: PathBuf,
    client: Option<StreamClient>,
    /// Of both streams.
    next: [u64; 2],
    values: PublishedValues,
    profiles: KnownProfiles,
    not_before: Instant,
}

impl PublishedReader {
    /// It connects when it is asked.
    pub fn new(socket: PathBuf) -> PublishedReader {
        PublishedReader {
            socket,
            client: None,
            next: [0; 2],
            values: PublishedValues::default(),
            profiles: KnownProfiles::default(),
            not_before: Instant::now(),
        }
    }

    /// What is known now; nothing where no agent is.
    pub fn values(&mut self) -> (Vec<PublishedValue>, Vec<TopProfile>) {
        let now = Instant::now();
        if now >= self.not_before && self.read().is_err() {
            (self.client, self.next) = (None, [0; 2]);
            self.not_before = now + PAUSE;
        }
        (self.values.known(Instant::now()), self.profiles.known(Instant::now()))
    }

    /// Leaves the agent until it is asked again; what has come since is read then.
    pub fn rest(&mut self) {
        self.client = None;
    }

    fn read(&mut self) -> Result<(), StreamError> {
        self.read_stream(0, PUSHED)?;
        self.read_stream(1, PROFILES)
    }

    fn read_stream(&mut self, number: usize, stream: &str) -> Result<(), StreamError> {
        for _ in 0..MOST_READS {
            let client = match &self.client {
                Some(client) => client,
                None => self.client.insert(StreamClient::connect(&self.socket)?),
            };
            let found = client.read(StreamRead {
                stream: stream.to_string(),
                from_sequence: self.next[number],
                at_most_bytes: MOST_BYTES,
                newest: false,
                wait: false,
                interval_ms: None,
            })?;
            self.next[number] = found.next_sequence;
            if found.records.is_empty() && found.hidden == 0 {
                return Ok(());
            }
            found.records.iter().for_each(|record| self.take(record));
        }
        Ok(())
    }

    fn take(&mut self, record: &StreamRecord) {
        let Ok(time) = Timestamp::from_nanosecond(record.time_ns.into()) else { return };
        let age = Timestamp::now().duration_since(time);
        let age = Duration::try_from(age).unwrap_or_default();
        let Some(at) = Instant::now().checked_sub(age) else { return };
        match &record.body {
            RecordBody::Sample(sample) if age < KNOWN_FOR => {
                self.values.take(record.source, sample, time, at);
            }
            RecordBody::Profile(profile) => self.take_profile(record, profile, (time, at)),
            _ => {}
        }
    }

    fn take_profile(
        &mut self,
        record: &StreamRecord,
        profile: &ProgramProfile,
        (time, at): (Timestamp, Instant),
    ) {
        let Some(uid) = record.source.uid else { return };
        let row = top_profile(profile, (uid, host::user_name(uid)), record.source.pid, time);
        self.profiles.take(row, at);
    }
}
