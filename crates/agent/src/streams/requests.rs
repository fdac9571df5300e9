//! What clients ask of the streams.

use std::io;
use std::time::{Duration, Instant};

use weigh_schema::stream::{
    CollectorSwitch, MOST_PUSHED, PUSHED, PolicyChange, PushedEvent, PushedSample, RecordClient,
    RecordSource, SHORTEST_INTERVAL_MS, StreamRead, StreamRecords,
};
use weigh_schema::top::TopCollector;
use weigh_wire::{Answer, HEAD_BYTES, Head, Message as _, StreamRequest, VERSION};

use super::connection::gone;
use super::server::{CollectorStatuses, NodeControl, StreamServer};
use crate::quota::READERS;

/// Bytes of records in one answer at most, unless a single record is larger.
const MOST_BYTES: u64 = 1 << 18;
/// An event counts as so many values: its text takes as much room.
const EVENT_COST: u32 = 8;
/// A client that waits for a record is answered after so long in any case.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The node is read no less often.
const LONGEST_INTERVAL_MS: u64 = 3_600_000;

impl StreamServer {
    /// Answers a request, or has the client wait. Errors: the client has gone.
    pub(super) fn answer(
        &mut self,
        key: u64,
        request: StreamRequest,
        collectors: CollectorStatuses<'_>,
    ) -> io::Result<()> {
        let is_page = self.connections.get(&key).is_some_and(|one| one.is_page);
        if is_page && !is_of_page(&request) {
            return self.reply(key, Err("a page only reads".to_string()));
        }
        let answer = match request {
            StreamRequest::Read(read) => return self.read(key, read),
            StreamRequest::Status => {
                self.status(key, collectors()).map(|status| Answer::Status(status.into()))
            }
            StreamRequest::SetPolicy(change) => self.set_policy(key, &change),
            StreamRequest::SetInterval(interval_ms) => self.set_interval(key, interval_ms),
            StreamRequest::SetCollector(switch) => self.set_collector(key, switch, &collectors()),
            StreamRequest::Push(samples) => self.push(key, samples),
            StreamRequest::PageUrl => self.page_url(key).map(Answer::PageUrl),
            StreamRequest::Login(token) => self.login(key, &token),
            StreamRequest::PushEvent(event) => self.push_event(key, event),
        };
        self.reply(key, answer)
    }

    fn reply(&mut self, key: u64, answer: Result<Answer, String>) -> io::Result<()> {
        let connection = self.connections.get_mut(&key).ok_or_else(gone)?;
        connection.answer(&answer.unwrap_or_else(Answer::Refused))
    }

    fn read(&mut self, key: u64, read: StreamRead) -> io::Result<()> {
        let Some(stream) = self.streams.get(read.stream.as_str()) else {
            return self.reply(key, Err(self.no_stream()));
        };
        let is_to_wait = read.wait && !stream.buffer.has_news(read.from_sequence);
        let connection = self.connections.get_mut(&key).ok_or_else(gone)?;
        connection.interval = read.interval_ms.map(interval);
        if is_to_wait {
            connection.waits = Some((read, Instant::now() + LONGEST_WAIT));
            return Ok(());
        }
        self.give(key, &read)
    }

    /// Gives a client what is there.
    pub(super) fn give(&mut self, key: u64, read: &StreamRead) -> io::Result<()> {
        let stream = self.streams.get_mut(read.stream.as_str()).ok_or_else(gone)?;
        let at_most = usize::try_from(read.at_most_bytes.min(MOST_BYTES)).unwrap_or_default();
        let batch = stream.buffer.read(key, read.from_sequence, at_most, read.newest);
        stream.last_read = Some(Instant::now());
        let connection = self.connections.get_mut(&key).ok_or_else(gone)?;
        let viewer = connection.viewer;
        let all = batch.records.len();
        let records: Vec<_> =
            batch.records.iter().filter(|(_, record)| record.is_visible(viewer)).collect();
        let hidden = all - records.len();
        let first = records.first().map_or(batch.next, |(sequence, _)| *sequence);
        let mut frame = vec![0; HEAD_BYTES];
        let numbers = format!(
            "{{\"first_sequence\":{first},\"next_sequence\":{},\"lost\":{},\"hidden\":{hidden},\"numbering_ns\":{},\"records\":[",
            batch.next, batch.lost, stream.numbering_ns
        );
        frame.extend_from_slice(numbers.as_bytes());
        for (at, (_, record)) in records.into_iter().enumerate() {
            if at > 0 {
                frame.push(b',');
            }
            record.write(viewer, &mut frame);
        }
        frame.extend_from_slice(b"]}");
        let kind = Answer::Stream(Box::<StreamRecords>::default()).kind();
        let length = (frame.len() - HEAD_BYTES) as u64;
        let head = Head { version: VERSION, kind, length, descriptors: 0 };
        frame[..HEAD_BYTES].copy_from_slice(&head.bytes());
        connection.send(frame)
    }

    fn no_stream(&self) -> String {
        let names: Vec<&str> = self.streams.keys().copied().collect();
        format!("there is no such stream: expected {}", names.join(", "))
    }

    /// The page's address for who has connected. Errors: there is no page.
    fn page_url(&self, key: u64) -> Result<String, String> {
        let connection = self.connections.get(&key).ok_or_else(|| gone().to_string())?;
        let page = self.page.as_ref().ok_or("this agent has no page: weigh agent --http")?;
        // One who has made a user namespace has many users.
        if connection.viewer.uid != connection.user {
            return Err("a user of a user namespace has no page".to_string());
        }
        page.url(connection.user)
    }

    /// Shows the client what the holder of a token may see. Errors: that user has too many clients.
    fn login(&mut self, key: u64, token: &str) -> Result<Answer, String> {
        let Some(viewer) = self.page.as_ref().and_then(|page| page.viewer(token)) else {
            return Ok(Answer::Is(false));
        };
        let others = self.connections.iter().filter(|(other, _)| **other != key);
        let others = others.map(|(_, connection)| connection.user);
        if viewer.uid.is_some_and(|uid| !READERS.has_room(uid, others)) {
            return Err("the user has as many clients of streams as the agent allows".to_string());
        }
        let connection = self.connections.get_mut(&key).ok_or_else(|| gone().to_string())?;
        connection.show_page(viewer);
        Ok(Answer::Viewer(viewer))
    }

    /// Errors: the client is neither root's nor the agent's own user's.
    fn check_trusted(&self, key: u64) -> Result<(), String> {
        match self.connections.get(&key) {
            Some(connection) if connection.viewer.is_trusted => Ok(()),
            _ => {
                Err("only root and the agent's own user may change what the agent does".to_string())
            }
        }
    }

    fn set_policy(&mut self, key: u64, change: &PolicyChange) -> Result<Answer, String> {
        self.check_trusted(key)?;
        let no_stream = self.no_stream();
        let stream = self.streams.get_mut(change.stream.as_str()).ok_or(no_stream)?;
        stream.buffer.set_policy(change.policy);
        Ok(Answer::Done)
    }

    fn set_interval(&mut self, key: u64, interval_ms: u64) -> Result<Answer, String> {
        self.check_trusted(key)?;
        if !(SHORTEST_INTERVAL_MS..=LONGEST_INTERVAL_MS).contains(&interval_ms) {
            return Err("the interval is between 0.1 s and an hour".to_string());
        }
        self.settings.interval = Duration::from_millis(interval_ms);
        self.controls.push(NodeControl::Interval(self.settings.interval));
        Ok(Answer::Done)
    }

    fn set_collector(
        &mut self,
        key: u64,
        switch: CollectorSwitch,
        collectors: &[TopCollector],
    ) -> Result<Answer, String> {
        self.check_trusted(key)?;
        if collectors.iter().all(|collector| collector.name != switch.collector) {
            let names: Vec<&str> = collectors.iter().map(|one| one.name.as_str()).collect();
            return Err(format!("there is no such collector: expected {}", names.join(", ")));
        }
        self.controls.push(NodeControl::Collector(switch));
        Ok(Answer::Done)
    }

    /// All of the values are taken, or none.
    fn push(&mut self, key: u64, samples: Vec<PushedSample>) -> Result<Answer, String> {
        if samples.len() > MOST_PUSHED {
            return Err(format!("at most {MOST_PUSHED} values are taken at once"));
        }
        samples.iter().try_for_each(PushedSample::check)?;
        let source = self.count_published(key, samples.len() as u32)?;
        self.write_samples(source, samples);
        Ok(Answer::Done)
    }

    fn push_event(&mut self, key: u64, event: PushedEvent) -> Result<Answer, String> {
        event.check()?;
        let source = self.count_published(key, EVENT_COST)?;
        self.write_published_event(source, event);
        Ok(Answer::Done)
    }

    /// Counts so many values against the bounds of a client and its user. Errors: they have published enough for now.
    fn count_published(&mut self, key: u64, count: u32) -> Result<RecordSource, String> {
        let connection = self.connections.get(&key).ok_or_else(|| gone().to_string())?;
        let (uid, pid, user) = (connection.viewer.uid, connection.pid, u64::from(connection.user));
        let now = Instant::now();
        if !self.of_users.has(user, count, now) || !self.of_clients.has(key, count, now) {
            if let Some(stream) = self.streams.get_mut(PUSHED) {
                stream.refused += u64::from(count);
            }
            return Err("this user, or this client of it, has published as many values as the agent takes now".to_string());
        }
        self.of_users.take(user, count, now);
        self.of_clients.take(key, count, now);
        Ok(RecordSource { uid: Some(uid), pid: Some(pid), client: RecordClient::Socket })
    }
}

/// What a page may ask.
fn is_of_page(request: &StreamRequest) -> bool {
    matches!(request, StreamRequest::Read(_) | StreamRequest::Status | StreamRequest::Login(_))
}

fn interval(interval_ms: u64) -> Duration {
    Duration::from_millis(interval_ms.clamp(SHORTEST_INTERVAL_MS, LONGEST_INTERVAL_MS))
}
