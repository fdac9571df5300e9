//! The streams and their clients.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use rustix::event::{Timespec, epoll};
use rustix::net::SendFlags;
use weigh_account::stream::StreamBuffer;
use weigh_schema::printable::printable;
use weigh_schema::rule::RuleEvent;
use weigh_schema::stream::{
    CollectorSwitch, EVENTS, NODE, PROFILES, PUSHED, PageViewer, PushedEvent, PushedSample,
    RecordBody, RecordClient, RecordSource, ServedUser, StreamPolicy, StreamRecord,
};
use weigh_schema::top::{PublishedValue, TopCollector, TopReport};
use weigh_wire::{Answer, WireError, encode, send_parts};

use super::connection::{Connection, gone};
use super::door::{DoorKeeper, StreamDoor, Visitor, door};
use super::known_profiles::KnownProfiles;
use super::otlp::{OtlpInput, OtlpValues};
use super::page::PageAccess;
use super::published::PublishedValues;
use super::record::{EncodedRecord, Visibility};
use super::statsd::StatsdInput;
use crate::profiles::ProfileNotes;
use crate::quota::READERS;
use crate::rate_limit::RateLimit;
use crate::rounds::Rounds;

/// Bytes of the records of each stream at most.
const NODE_BYTES: usize = 4 << 20;
const PUSHED_BYTES: usize = 2 << 20;
const EVENTS_BYTES: usize = 1 << 20;
const PROFILES_BYTES: usize = 4 << 20;
/// Records of the node that are kept for readers that stop.
const NODE_RECORDS: u32 = 60;
const PUSHED_RECORDS: u32 = 10_000;
const EVENTS_RECORDS: u32 = 1000;
const PROFILES_RECORDS: u32 = 1000;
/// Values that a user, and one client of it, may publish: so many at once, and then so many a second.
const OF_A_USER: (u32, u32) = (2000, 200);
const OF_A_CLIENT: (u32, u32) = (1000, 100);
/// Records of the node are made for so long after its last reader has gone.
const SHORTEST_REST: Duration = Duration::from_secs(60);

const DOOR: u64 = u64::MAX;
const STATSD: u64 = u64::MAX - 1;
const OTLP: u64 = u64::MAX - 2;
/// More events do not wait at once: each client has one.
const MOST_EVENTS: usize = 128;

/// What is said of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// How often the node is read.
    pub interval: Duration,
    /// Why no programs with libweigh are served and no jobs are followed, if that is so.
    pub why_no_jobs: Option<String>,
    /// Where datagrams of StatsD are taken: an address of this machine alone.
    pub statsd: Option<SocketAddr>,
    /// Where metrics of OpenTelemetry are taken: an address of this machine alone.
    pub otlp: Option<SocketAddr>,
}

/// What a client wants of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeControl {
    /// To read it so often, while no reader wants it more often.
    Interval(Duration),
    /// To read a collector, or not.
    Collector(CollectorSwitch),
}

/// How the collectors of the node fare, for a client that asks.
pub type CollectorStatuses<'a> = &'a dyn Fn() -> Vec<TopCollector>;

/// A stream.
pub(super) struct Stream {
    pub buffer: StreamBuffer<Arc<EncodedRecord>>,
    pub last_read: Option<Instant>,
    pub refused: u64,
    pub numbering_ns: u64,
}

impl Stream {
    fn new(policy: StreamPolicy, most_bytes: usize) -> Stream {
        Stream {
            buffer: StreamBuffer::new(policy, most_bytes),
            last_read: None,
            refused: 0,
            numbering_ns: now_ns(),
        }
    }
}

/// Serves streams.
pub struct StreamServer {
    epoll: OwnedFd,
    pub(super) keeper: DoorKeeper,
    pub(super) streams: BTreeMap<&'static str, Stream>,
    pub(super) connections: BTreeMap<u64, Connection>,
    last_key: u64,
    rounds: Rounds,
    pub(super) of_users: RateLimit,
    pub(super) of_clients: RateLimit,
    pub(super) settings: StreamSettings,
    pub(super) controls: Vec<NodeControl>,
    statsd: Option<StatsdInput>,
    pub(super) otlp: Option<OtlpInput>,
    published: PublishedValues,
    pub(super) profile_notes: Option<ProfileNotes>,
    pub(super) known_profiles: KnownProfiles,
    pub(super) page: Option<PageAccess>,
}

impl StreamServer {
    /// Streams without records, and the door to them. Errors: no descriptors are left; the address of StatsD or OTLP is taken,
    /// or not this machine's own alone.
    pub fn new(settings: StreamSettings) -> io::Result<(StreamServer, StreamDoor)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (door, keeper) = door()?;
        let data = epoll::EventData::new_u64(DOOR);
        epoll::add(&epoll, keeper.descriptor(), data, epoll::EventFlags::IN)?;
        let statsd = settings.statsd.map(StatsdInput::new).transpose()?;
        if let Some(statsd) = &statsd {
            let data = epoll::EventData::new_u64(STATSD);
            epoll::add(&epoll, statsd.descriptor(), data, epoll::EventFlags::IN)?;
        }
        let otlp = settings.otlp.map(OtlpInput::new).transpose()?;
        if let Some(otlp) = &otlp {
            let data = epoll::EventData::new_u64(OTLP);
            epoll::add(&epoll, otlp.descriptor(), data, epoll::EventFlags::IN)?;
        }
        let streams = [
            (NODE, Stream::new(StreamPolicy::FillRead(NODE_RECORDS), NODE_BYTES)),
            (PUSHED, Stream::new(StreamPolicy::FillRead(PUSHED_RECORDS), PUSHED_BYTES)),
            (EVENTS, Stream::new(StreamPolicy::FillRead(EVENTS_RECORDS), EVENTS_BYTES)),
            (PROFILES, Stream::new(StreamPolicy::FillRead(PROFILES_RECORDS), PROFILES_BYTES)),
        ];
        let server = StreamServer {
            epoll,
            keeper,
            streams: streams.into(),
            connections: BTreeMap::new(),
            last_key: 0,
            rounds: Rounds::default(),
            of_users: RateLimit::new(OF_A_USER.0, OF_A_USER.1),
            of_clients: RateLimit::new(OF_A_CLIENT.0, OF_A_CLIENT.1),
            settings,
            controls: Vec::new(),
            statsd,
            otlp,
            published: PublishedValues::default(),
            profile_notes: None,
            known_profiles: KnownProfiles::default(),
            page: None,
        };
        Ok((server, door))
    }

    /// The page of the node is served, or will be.
    pub fn set_page(&mut self, page: PageAccess) {
        self.page = Some(page);
    }

    /// When a client is answered in any case, or values are written.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let of_statsd = self.statsd.as_ref().and_then(StatsdInput::deadline);
        let of_spans = self.otlp.as_ref().and_then(|otlp| otlp.spans.deadline());
        self.waiting().map(|(_, until)| until).chain(of_statsd).chain(of_spans).min()
    }

    fn waiting(&self) -> impl Iterator<Item = (u64, Instant)> {
        let until = |connection: &Connection| connection.waits.as_ref().map(|(_, until)| *until);
        self.connections.iter().filter_map(move |(key, one)| Some((*key, until(one)?)))
    }

    /// Waits for clients, or until it is time, and does what there is to do then, of each user one request at most.
    /// `collectors` tells how those of the node fare. Errors: the kernel tells of no events any more.
    pub fn handle(&mut self, until: Instant, collectors: CollectorStatuses<'_>) -> io::Result<()> {
        let mut room = [const { MaybeUninit::uninit() }; MOST_EVENTS];
        let pause = pause(self.deadline().map_or(until, |own| own.min(until)));
        let events = match epoll::wait(&self.epoll, &mut room, Some(&pause)) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => &mut [],
            Err(error) => return Err(error.into()),
        };
        let mut requests = Vec::new();
        for event in events {
            match event.data.u64() {
                DOOR => self.take_in_visitors(),
                STATSD => {
                    let statsd = self.statsd.as_mut();
                    statsd.into_iter().for_each(|statsd| statsd.receive(Instant::now()));
                }
                OTLP => self.take_otlp(),
                key => requests.extend(self.connections.get(&key).map(|one| (one.user, key))),
            }
        }
        for key in self.rounds.choose(&requests) {
            self.serve(key, collectors);
        }
        self.write_statsd();
        self.write_spans(false);
        self.note_watched();
        self.answer_late();
        Ok(())
    }

    fn take_in_visitors(&mut self) {
        self.keeper.visitors().into_iter().for_each(|visitor| self.take_in(visitor));
        self.take_profiles();
    }

    fn take_in(&mut self, visitor: Visitor) {
        let holders = self.connections.values().map(|connection| connection.user);
        if !READERS.has_room(visitor.user, holders) {
            let why =
                "the agent has as many clients of streams as it allows a user, or all of them";
            return turn_away(&visitor.stream.as_fd(), why);
        }
        self.last_key += 1;
        let data = epoll::EventData::new_u64(self.last_key);
        let is_page = self.page.as_ref().is_some_and(|page| page.is_server(visitor.peer.pid));
        let mut connection = Connection::new(visitor);
        if is_page {
            // It may be of the agent's own user, and has nothing of that.
            connection.show_page(PageViewer { uid: None });
        }
        let events = epoll::EventFlags::IN;
        if epoll::add(&self.epoll, connection.descriptor(), data, events).is_ok() {
            self.connections.insert(self.last_key, connection);
        }
    }

    fn serve(&mut self, key: u64, collectors: CollectorStatuses<'_>) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let served = if connection.has_output() {
            connection.flush()
        } else if connection.waits.is_some() {
            Err(gone())
        } else {
            match connection.receive() {
                Ok(Some(request)) => self.answer(key, request, collectors),
                Ok(None) => Ok(()),
                Err(WireError::Io(error)) => Err(error),
                Err(error) => {
                    turn_away(&connection.descriptor(), &error.to_string());
                    Err(gone())
                }
            }
        };
        self.settle(key, served);
    }

    /// Something was done for a client: it is heard from then on, or is gone.
    fn settle(&mut self, key: u64, served: io::Result<()>) {
        let heard = served.and_then(|()| {
            let Some(connection) = self.connections.get_mut(&key) else { return Ok(()) };
            let Some(events) = connection.changed_events() else { return Ok(()) };
            let data = epoll::EventData::new_u64(key);
            Ok(epoll::modify(&self.epoll, connection.descriptor(), data, events)?)
        });
        if heard.is_err() {
            self.connections.remove(&key);
            self.streams.values_mut().for_each(|stream| stream.buffer.forget_reader(key));
        }
    }

    /// Those who have waited long enough are told that nothing has come.
    fn answer_late(&mut self) {
        let now = Instant::now();
        let late: Vec<u64> =
            self.waiting().filter(|(_, until)| *until <= now).map(|(key, _)| key).collect();
        late.into_iter().for_each(|key| self.end_wait(key));
    }

    fn end_wait(&mut self, key: u64) {
        let waits = self.connections.get_mut(&key).and_then(|connection| connection.waits.take());
        let Some((read, _)) = waits else { return };
        let served = self.give(key, &read);
        self.settle(key, served);
    }

    /// A record has come: those who wait for it have it.
    pub(super) fn answer_waiting(&mut self, stream: &str) {
        let waits = |connection: &Connection| {
            connection.waits.as_ref().is_some_and(|(read, _)| read.stream == stream)
        };
        let waiting = self.connections.iter().filter(|(_, one)| waits(one));
        let waiting: Vec<u64> = waiting.map(|(key, _)| *key).collect();
        waiting.into_iter().for_each(|key| self.end_wait(key));
    }

    /// Whether anybody would find a record of the node. If not, [`StreamServer::skip_node`].
    pub fn wants_node(&self) -> bool {
        let waits = |connection: &Connection| {
            connection.waits.as_ref().is_some_and(|(read, _)| read.stream == NODE)
        };
        self.streams.get(NODE).is_some_and(|stream| self.is_active(NODE, stream))
            || self.connections.values().any(waits)
    }

    pub(super) fn is_active(&self, name: &str, stream: &Stream) -> bool {
        let kept = stream.buffer.outage_seconds(now_ns()).unwrap_or_default();
        let kept = Duration::try_from_secs_f64(kept).unwrap_or(Duration::MAX).max(SHORTEST_REST);
        name != NODE
            || stream.buffer.readers() > 0
            || stream.last_read.is_some_and(|last| last.elapsed() < kept)
    }

    /// Adds a record of the node.
    pub fn write_node(&mut self, report: TopReport, visibility: &Visibility) {
        self.write_own(NODE, RecordBody::Node(Box::new(report)), visibility);
    }

    /// Adds what a rule has said; everybody may read it.
    pub fn write_event(&mut self, event: RuleEvent) {
        self.write_own(EVENTS, RecordBody::Event(Box::new(event)), &Visibility::Everybody);
    }

    /// Adds a record of the agent's own.
    fn write_own(&mut self, name: &str, body: RecordBody, visibility: &Visibility) {
        let time_ns = now_ns();
        let Some(stream) = self.streams.get_mut(name) else { return };
        let sequence = stream.buffer.next_sequence();
        let (uid, pid) = (rustix::process::geteuid().as_raw(), std::process::id());
        let source = RecordSource { uid: Some(uid), pid: Some(pid), client: RecordClient::Agent };
        let record =
            EncodedRecord::new(StreamRecord { sequence, time_ns, source, body }, visibility);
        let bytes = record.bytes();
        stream.buffer.write(record.into(), bytes, time_ns);
        self.answer_waiting(name);
    }

    /// The node was read, and nobody would find the record.
    pub fn skip_node(&mut self) {
        if let Some(stream) = self.streams.get_mut(NODE) {
            stream.buffer.skip();
        }
    }

    /// What clients want of the node, since it was asked last.
    pub fn take_controls(&mut self) -> Vec<NodeControl> {
        std::mem::take(&mut self.controls)
    }

    /// How often the node is to be read now: as the settings say, or more often while a reader looks so often.
    pub fn interval(&self) -> Duration {
        let of_readers = self.connections.values().filter_map(|connection| connection.interval);
        of_readers.chain([self.settings.interval]).min().unwrap_or(self.settings.interval)
    }

    /// Adds values that a client has published; they are checked.
    pub(super) fn write_samples(&mut self, source: RecordSource, samples: Vec<PushedSample>) {
        for sample in samples {
            self.published.take(source, &sample, Timestamp::now(), Instant::now());
            self.write_pushed(source, RecordBody::Sample(sample));
        }
        self.answer_waiting(PUSHED);
    }

    /// Adds an event that a client has published; it is checked. Nothing in its text steers a terminal from here on.
    pub(super) fn write_published_event(&mut self, source: RecordSource, mut event: PushedEvent) {
        event.text = printable(&event.text).into_owned();
        self.write_pushed(source, RecordBody::PublishedEvent(Box::new(event)));
        self.answer_waiting(PUSHED);
    }

    fn write_pushed(&mut self, source: RecordSource, body: RecordBody) {
        let time_ns = now_ns();
        let Some(stream) = self.streams.get_mut(PUSHED) else { return };
        let sequence = stream.buffer.next_sequence();
        let record = StreamRecord { sequence, time_ns, source, body };
        let record = EncodedRecord::new(record, &Visibility::Everybody);
        let bytes = record.bytes();
        stream.buffer.write(record.into(), bytes, time_ns);
    }

    /// The latest value of each metric that clients have published lately.
    pub fn published(&mut self) -> Vec<PublishedValue> {
        self.published.known(Instant::now())
    }

    fn write_statsd(&mut self) {
        let taken = self.statsd.as_mut().and_then(|statsd| statsd.take_samples(Instant::now()));
        let Some((samples, refused)) = taken else { return };
        if let Some(stream) = self.streams.get_mut(PUSHED) {
            stream.refused += refused;
        }
        let source = RecordSource { uid: None, pid: None, client: RecordClient::Statsd };
        self.write_samples(source, samples);
    }

    fn take_otlp(&mut self) {
        let Some(otlp) = &mut self.otlp else { return };
        let taken = otlp.receive(&mut self.of_users, Instant::now());
        let refused = otlp.take_refused();
        if let Some(stream) = self.streams.get_mut(PUSHED) {
            stream.refused += refused;
        }
        for OtlpValues { user, samples } in taken {
            let source = RecordSource { uid: Some(user), pid: None, client: RecordClient::Otlp };
            self.write_samples(source, samples);
        }
    }

    pub(super) fn served_at_socket(&self) -> Vec<ServedUser> {
        self.keeper.served()
    }
}

fn pause(until: Instant) -> Timespec {
    let pause = until.saturating_duration_since(Instant::now());
    Timespec {
        tv_sec: pause.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: pause.subsec_nanos().into(),
    }
}

/// Nanoseconds since 1970.
pub(super) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// The client finds the reason as its answer.
fn turn_away(stream: &BorrowedFd<'_>, why: &str) {
    let refused = encode(&Answer::Refused(why.to_string()), 0).unwrap_or_default();
    // It may have gone.
    let _ = send_parts(stream, &refused, &[], SendFlags::DONTWAIT);
}
