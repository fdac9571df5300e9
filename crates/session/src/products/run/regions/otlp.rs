//! Spans of OpenTelemetry: programs of the job export them to weigh, by HTTP on this machine.
//!
//! Listens at 127.0.0.1; reads requests to `/v1/traces`; emits spans for a [`SpanTable`]. Metrics and logs are taken, and left
//! out. Refuses who does not have the header that the job was told, before the request's body is held; and what is too long, of
//! another kind, or makes no sense. Nothing that a client does or leaves undone is waited for.

mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use weigh_account::regions::{SpanRows, SpanTable};
use weigh_collect::otlp::{each_span, peer_process};

use super::woken::woken;
use request::{HEADER, Head, Parsed};

/// So many connections at one time: who came first goes when one more comes.
const CONNECTIONS: usize = 64;
/// Bytes of a request: of its head, of its body, also when it is unpacked.
const MOST_HEAD: usize = 16 << 10;
const MOST_BODY: usize = 4 << 20;
/// Bytes that are read of one connection in a turn.
const MOST_TURN: usize = 1 << 20;

/// So often the process at the other end is looked for: a mechanism may not know it at once.
const SEARCHES: u8 = 8;

/// What woke, if it was no connection.
const SOCKET: u64 = 0;

/// The variables by which programs are told, and others by which a user has said where spans go.
const VARIABLES: [&str; 3] =
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS"];

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// Whether a request has had the header.
    is_trusted: bool,
    /// At the other end, once it was found; and how often it was looked for.
    process: Option<u32>,
    searches: u8,
}

/// Where spans come in.
pub(super) struct OtlpServer {
    epoll: OwnedFd,
    listener: TcpListener,
    token: String,
    connections: BTreeMap<u64, Connection>,
    next_key: u64,
    spans: SpanTable,
    refused: BTreeMap<&'static str, u64>,
}

/// Of a request: the status, and whether the connection goes on.
type Verdict = (&'static str, bool);

impl OtlpServer {
    pub fn new() -> io::Result<OtlpServer> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(SOCKET), EventFlags::IN)?;
        Ok(OtlpServer {
            epoll,
            listener,
            token: format!("{:032x}", u128::from_ne_bytes(random)),
            connections: BTreeMap::new(),
            next_key: SOCKET,
            spans: SpanTable::default(),
            refused: BTreeMap::new(),
        })
    }

    /// What the job's programs find it by.
    pub fn variables(&self) -> io::Result<[(OsString, OsString); 3]> {
        let port = self.listener.local_addr()?.port();
        let values = [
            format!("http://127.0.0.1:{port}"),
            "http/protobuf".to_string(),
            format!("{HEADER}={}", self.token),
        ];
        let mut values = values.into_iter();
        Ok(VARIABLES.map(|name| (name.into(), values.next().unwrap_or_default().into())))
    }

    /// Readable when there is something to attend to.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Takes in who has connected, and what has come. `members` are the processes of the job.
    pub fn attend(&mut self, members: &dyn Fn() -> Vec<u32>) {
        for key in woken(&self.epoll, CONNECTIONS + 1) {
            match self.connections.remove(&key) {
                None => self.accept(),
                Some(connection) => self.attend_connection(key, connection, members),
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..CONNECTIONS {
            match self.listener.accept() {
                Ok((stream, _)) => self.take_in(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    // Without descriptors it would wake again and again.
                    let _ = epoll::delete(&self.epoll, &self.listener);
                    return self.refuse("no descriptor for a connection with spans");
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
            let connection = Connection {
                stream,
                received: Vec::new(),
                is_trusted: false,
                process: None,
                searches: 0,
            };
            self.connections.insert(self.next_key, connection);
        }
    }

    /// The oldest one goes, of those first that have shown nothing.
    fn make_room(&mut self) {
        if self.connections.len() < CONNECTIONS {
            return;
        }
        let strange = self.connections.iter().find(|(_, one)| !one.is_trusted);
        let oldest = strange.or_else(|| self.connections.first_key_value());
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.connections.remove(&key);
        }
    }

    fn attend_connection(
        &mut self,
        key: u64,
        mut connection: Connection,
        members: &dyn Fn() -> Vec<u32>,
    ) {
        let is_open = connection.receive();
        if self.answer_all(&mut connection, members) && is_open {
            self.connections.insert(key, connection);
        }
    }

    /// All requests that are there whole. Whether the connection goes on.
    fn answer_all(&mut self, connection: &mut Connection, members: &dyn Fn() -> Vec<u32>) -> bool {
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
            let (status, goes_on) = self.take(&head, &request[head.bytes..], connection, members);
            if !connection.answer(status, goes_on) || !goes_on {
                return false;
            }
        }
    }

    fn refuse_request(&mut self, connection: &mut Connection, status: &'static str) -> bool {
        self.refuse("a request that brings no spans of OpenTelemetry");
        let _ = connection.answer(status, false);
        false
    }

    fn refuse(&mut self, why: &'static str) {
        *self.refused.entry(why).or_default() += 1;
    }

    /// What can be said before the body is there.
    fn check(&self, head: &Head) -> Result<(), &'static str> {
        if head.token.as_deref() != Some(self.token.as_str()) {
            return Err("401 Unauthorized");
        }
        if !head.is_post {
            return Err("405 Method Not Allowed");
        }
        match head.body_bytes {
            None => Err("411 Length Required"),
            Some(bytes) if bytes > MOST_BODY => Err("413 Content Too Large"),
            Some(_) => Ok(()),
        }
    }

    fn take(
        &mut self,
        head: &Head,
        body: &[u8],
        connection: &mut Connection,
        members: &dyn Fn() -> Vec<u32>,
    ) -> Verdict {
        if !head.is_traces {
            return ("200 OK", head.keeps_alive);
        }
        let Some(body) = head.encoding.unpack(body, MOST_BODY) else {
            self.refuse("spans that are packed in an unknown way, or too long");
            return ("415 Unsupported Media Type", false);
        };
        if !head.is_protobuf {
            self.refuse("spans in another form than protobuf");
            return ("415 Unsupported Media Type", false);
        }
        let (process, spans) = (connection.find_process(members), &mut self.spans);
        let taken = each_span(&body, &mut |span| spans.add(process.unwrap_or(span.process), &span));
        match taken {
            Ok(()) => ("200 OK", head.keeps_alive),
            Err(_) => {
                self.refuse("spans that make no sense");
                ("400 Bad Request", head.keeps_alive)
            }
        }
    }

    /// What came in all, and what was refused, by the reason.
    pub fn finish(self) -> (SpanRows, BTreeMap<&'static str, u64>) {
        (self.spans.finish(), self.refused)
    }
}

impl Connection {
    fn find_process(&mut self, members: &dyn Fn() -> Vec<u32>) -> Option<u32> {
        if self.process.is_none() && self.searches < SEARCHES {
            self.searches += 1;
            self.process = peer_process(&self.stream, &members());
        }
        self.process
    }

    /// What is there now. Whether more may come.
    fn receive(&mut self) -> bool {
        let mut part = [0; MOST_HEAD + 1];
        // Anybody on the machine can connect: of a stranger no more than a head is read, and held.
        let (turns, most) = match self.is_trusted {
            true => (MOST_TURN / part.len(), part.len()),
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
    fn answer(&mut self, status: &str, goes_on: bool) -> bool {
        let connection = if goes_on { "keep-alive" } else { "close" };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\
             connection: {connection}\r\n\r\n"
        );
        matches!(self.stream.write(answer.as_bytes()), Ok(length) if length == answer.len())
    }
}
