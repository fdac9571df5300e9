//! Where messages of OpenTelemetry come in, by HTTP on this machine.
//!
//! Reads requests; emits their bodies, to who [`OtlpIntake::attend`]s. Refuses who does not have the header that is asked for, if
//! one is, before the request's body is held; and what is too long, of another kind, or packed in an unknown way. Nothing that
//! a client does or leaves undone is waited for.

mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use request::{BodyForm, Head, Parsed};
pub use request::{HEADER, OtlpSignal};
use weigh_collect::otlp::json::{METRICS, OtlpForm, SPANS, protobuf_of_json};

/// Bytes of a request's head.
const MOST_HEAD: usize = 16 << 10;
/// Bytes that are read of one connection in a turn.
const MOST_TURN: usize = 1 << 20;
/// Connections that are looked after in a turn.
const MOST_EVENTS: usize = 65;
/// So often the other end of a connection is looked for.
const SEARCHES: u8 = 8;

const NOT_HERE: &str = "404 Not Found";
/// Exporters write it into their programs' logs.
const WHERE: &str =
    "metrics are taken at /v1/metrics and spans at /v1/traces; logs are not taken\n";

/// What woke, if it was no connection.
const SOCKET: u64 = 0;

/// What is taken.
#[derive(Clone, Debug)]
pub struct IntakeSettings {
    /// What [`HEADER`] has to be; none for anybody on the machine.
    pub token: Option<String>,
    /// Messages of these kinds are taken.
    pub signals: &'static [OtlpSignal],
    /// Whether others are accepted and left out; if not, there is no such path.
    pub accepts_others: bool,
    /// So many connections at one time: who came first goes when one more comes.
    pub connections: usize,
    /// Bytes of a body, also when it is unpacked.
    pub body_bytes: usize,
}

/// A message.
pub struct OtlpMessage<'a> {
    /// What is in it.
    pub signal: OtlpSignal,
    /// Its bytes: protobuf.
    pub body: &'a [u8],
    /// The connection by which it has come.
    pub stream: &'a TcpStream,
    /// Who is at the other end.
    pub peer: &'a mut PeerNote,
}

/// Who is at the other end of a connection, once that was found.
#[derive(Debug, Default)]
pub struct PeerNote {
    found: Option<u32>,
    searches: u8,
}

impl PeerNote {
    /// The number that was found; it is looked for a few times, for it may not be known at once.
    pub fn find(&mut self, search: impl FnOnce() -> Option<u32>) -> Option<u32> {
        if self.found.is_none() && self.searches < SEARCHES {
            self.searches += 1;
            self.found = search();
        }
        self.found
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpReply {
    /// It is taken.
    Accepted,
    /// It makes no sense, or may not come; what is counted.
    Refused(&'static str),
    /// It may come again after a second.
    Busy,
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// Whether a request has had the header.
    is_trusted: bool,
    peer: PeerNote,
}

/// Where messages come in.
pub struct OtlpIntake {
    epoll: OwnedFd,
    listener: TcpListener,
    settings: IntakeSettings,
    connections: BTreeMap<u64, Connection>,
    next_key: u64,
    refused: BTreeMap<&'static str, u64>,
}

/// Of a request: the status, and whether the connection goes on.
type Verdict = (&'static str, bool);

/// Takes a message, and says what becomes of it.
pub type TakeMessage<'a> = &'a mut dyn FnMut(OtlpMessage<'_>) -> OtlpReply;

impl OtlpIntake {
    /// Takes what comes to a socket that listens.
    pub fn new(listener: TcpListener, settings: IntakeSettings) -> io::Result<OtlpIntake> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(SOCKET), EventFlags::IN)?;
        Ok(OtlpIntake {
            epoll,
            listener,
            settings,
            connections: BTreeMap::new(),
            next_key: SOCKET,
            refused: BTreeMap::new(),
        })
    }

    /// The port.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// What requests have to have in [`HEADER`].
    pub fn token(&self) -> &str {
        self.settings.token.as_deref().unwrap_or_default()
    }

    /// Readable when there is something to attend to.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Takes in who has connected, and what has come.
    pub fn attend(&mut self, take: TakeMessage<'_>) {
        for key in self.woken() {
            match self.connections.remove(&key) {
                None => self.accept(),
                Some(connection) => self.attend_connection(key, connection, take),
            }
        }
    }

    /// What was refused since it was asked last, by the reason.
    pub fn take_refused(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.refused)
    }

    fn woken(&self) -> Vec<u64> {
        let mut room = [const { MaybeUninit::uninit() }; MOST_EVENTS];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, &mut room, Some(&now)) {
            Ok((events, _)) => events.iter().map(|event| event.data.u64()).collect(),
            Err(_) => Vec::new(),
        }
    }

    fn accept(&mut self) {
        for _ in 0..self.settings.connections {
            match self.listener.accept() {
                Ok((stream, _)) => self.take_in(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    // Without descriptors it would wake again and again.
                    let _ = epoll::delete(&self.epoll, &self.listener);
                    return self.refuse("no descriptor for a connection of OpenTelemetry");
                }
            }
        }
    }

    fn take_in(&mut self, stream: TcpStream) {
        self.next_key += 1;
        let data = EventData::new_u64(self.next_key);
        let is_ready = stream.set_nonblocking(true).is_ok() && stream.set_nodelay(true).is_ok();
        if is_ready && epoll::add(&self.epoll, &stream, data, EventFlags::IN).is_ok() {
            self.make_room();
            let (received, peer) = Default::default();
            let connection = Connection { stream, received, is_trusted: false, peer };
            self.connections.insert(self.next_key, connection);
        }
    }

    /// The oldest one goes, of those first that have shown nothing.
    fn make_room(&mut self) {
        if self.connections.len() < self.settings.connections {
            return;
        }
        let strange = self.connections.iter().find(|(_, one)| !one.is_trusted);
        let oldest = strange.or_else(|| self.connections.first_key_value());
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.connections.remove(&key);
        }
    }

    fn attend_connection(&mut self, key: u64, mut connection: Connection, take: TakeMessage<'_>) {
        let is_open = connection.receive(MOST_TURN.min(self.settings.body_bytes));
        if self.answer_all(&mut connection, take) && is_open {
            self.connections.insert(key, connection);
        }
    }

    /// All requests that are there whole. Whether the connection goes on.
    fn answer_all(&mut self, connection: &mut Connection, take: TakeMessage<'_>) -> bool {
        loop {
            let head = match request::parse(&connection.received) {
                Parsed::Partial if connection.received.len() > MOST_HEAD => {
                    return self.refuse_request(connection, "431 Request Header Fields Too Large");
                }
                Parsed::Partial => return true,
                Parsed::Refused => return self.refuse_request(connection, "400 Bad Request"),
                Parsed::Whole(head) => head,
            };
            if let Err(status) = self.check(&head) {
                return self.refuse_request(connection, status);
            }
            connection.is_trusted = true;
            let end = head.bytes + head.body_bytes.unwrap_or(0);
            if connection.received.len() < end {
                return true;
            }
            let rest = connection.received.split_off(end);
            let request = std::mem::replace(&mut connection.received, rest);
            let (status, goes_on) = self.take(&head, &request[head.bytes..], connection, take);
            let nothing = head.form.unwrap_or(BodyForm::Protobuf).nothing();
            if !connection.answer(status, goes_on, nothing) || !goes_on {
                return false;
            }
        }
    }

    fn refuse_request(&mut self, connection: &mut Connection, status: &'static str) -> bool {
        self.refuse("a request that brings no message of OpenTelemetry");
        let why = if status == NOT_HERE { WHERE } else { "" };
        let _ = connection.answer(status, false, ("text/plain", why));
        false
    }

    /// What a request has, if it is taken.
    fn signal(&self, head: &Head) -> Option<OtlpSignal> {
        head.signal.filter(|signal| self.settings.signals.contains(signal))
    }

    fn refuse(&mut self, why: &'static str) {
        *self.refused.entry(why).or_default() += 1;
    }

    /// What can be said before the body is there.
    fn check(&self, head: &Head) -> Result<(), &'static str> {
        if self.settings.token.is_some() && head.token != self.settings.token {
            return Err("401 Unauthorized");
        }
        if !head.is_post {
            return Err("405 Method Not Allowed");
        }
        if self.signal(head).is_none() && !self.settings.accepts_others {
            return Err(NOT_HERE);
        }
        match head.body_bytes {
            None => Err("411 Length Required"),
            Some(bytes) if bytes > self.settings.body_bytes => Err("413 Content Too Large"),
            Some(_) => Ok(()),
        }
    }

    fn take(
        &mut self,
        head: &Head,
        body: &[u8],
        connection: &mut Connection,
        take: TakeMessage<'_>,
    ) -> Verdict {
        let Some(signal) = self.signal(head) else { return ("200 OK", head.keeps_alive) };
        let Some(body) = head.encoding.unpack(body, self.settings.body_bytes) else {
            self.refuse("a message that is packed in an unknown way, or too long");
            return ("415 Unsupported Media Type", false);
        };
        let body = match head.form {
            Some(BodyForm::Protobuf) => body,
            Some(BodyForm::Json) => match protobuf_of_json(&body, form_of(signal)) {
                Ok(body) => body,
                Err(_) => {
                    self.refuse("a message of OpenTelemetry in JSON that makes no sense");
                    return ("400 Bad Request", head.keeps_alive);
                }
            },
            None => {
                self.refuse("a message in another form than protobuf and JSON");
                return ("415 Unsupported Media Type", false);
            }
        };
        let Connection { stream, peer, .. } = connection;
        match take(OtlpMessage { signal, body: &body, stream, peer }) {
            OtlpReply::Accepted => ("200 OK", head.keeps_alive),
            OtlpReply::Busy => ("429 Too Many Requests\r\nretry-after: 1", head.keeps_alive),
            OtlpReply::Refused(why) => {
                self.refuse(why);
                ("400 Bad Request", head.keeps_alive)
            }
        }
    }
}

fn form_of(signal: OtlpSignal) -> &'static OtlpForm {
    match signal {
        OtlpSignal::Traces => &SPANS,
        OtlpSignal::Metrics => &METRICS,
    }
}

impl Connection {
    /// What is there now, about so many bytes at most. Whether more may come.
    fn receive(&mut self, most_bytes: usize) -> bool {
        let mut part = [0; MOST_HEAD + 1];
        // Anybody on the machine can connect: of a stranger no more than a head is read, and held.
        let (turns, most) = match self.is_trusted {
            true => (most_bytes.div_ceil(part.len()), part.len()),
            false => (1, part.len().saturating_sub(self.received.len())),
        };
        for _ in 0..turns {
            match self.stream.read(&mut part[..most]) {
                Ok(0) => return false,
                Ok(length) => self.received.extend_from_slice(&part[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Whether the answer was taken at once.
    fn answer(&mut self, status: &str, goes_on: bool, (kind, body): (&str, &str)) -> bool {
        let connection = if goes_on { "keep-alive" } else { "close" };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
             connection: {connection}\r\n\r\n{body}",
            body.len()
        );
        matches!(self.stream.write(answer.as_bytes()), Ok(length) if length == answer.len())
    }
}
