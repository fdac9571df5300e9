//! A client of streams: its bytes in and out, and what it waits for.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::net::{RecvFlags, SendFlags, recv};
use weigh_schema::stream::{PROFILES, PageViewer, StreamRead};
use weigh_wire::{Answer, HEAD_BYTES, Peer, StreamRequest, WireError, decode, encode, send_parts};

use super::door::Visitor;
use super::record::Viewer;

/// Bytes that are sent to a client before others are served.
const AT_ONCE: usize = 1 << 18;
/// Bytes that are received of a client at once.
const RECEIVED: usize = 1 << 15;

/// A client.
pub struct Connection {
    stream: OwnedFd,
    /// Who it is.
    pub viewer: Viewer,
    /// Its process.
    pub pid: u32,
    /// The user who is behind it, to whom its place is counted.
    pub user: u32,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// The records that it waits for, and until when.
    pub waits: Option<(StreamRead, Instant)>,
    /// Whether it is the page's: it reads, and can change nothing.
    pub is_page: bool,
    /// How often it looks at the node.
    pub interval: Option<Duration>,
    /// What is heard of it.
    heard: EventFlags,
}

impl Connection {
    /// One that has come.
    pub fn new(visitor: Visitor) -> Connection {
        let Visitor { stream, peer, user } = visitor;
        Connection {
            stream,
            viewer: Viewer { uid: peer.uid, is_trusted: peer.is_trusted() },
            pid: peer.pid,
            user,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            waits: None,
            is_page: false,
            interval: None,
            heard: EventFlags::IN,
        }
    }

    /// It shows the page from now on: of what it may see, that of a user, or what everybody may.
    pub fn show_page(&mut self, viewer: PageViewer) {
        self.is_page = true;
        let is_trusted = |uid: u32| Peer { pid: 0, uid, gid: uid }.is_trusted();
        self.viewer = match viewer.uid {
            Some(uid) => Viewer { uid, is_trusted: is_trusted(uid) },
            None => Viewer::STRANGER,
        };
        // Its place is counted to the user from now on.
        self.user = viewer.uid.unwrap_or(self.user);
    }

    /// Whether it looks at the node, or waits for what programs publish.
    pub fn looks_at_programs(&self) -> bool {
        let waits = self.waits.as_ref().is_some_and(|(read, _)| read.stream == PROFILES);
        self.interval.is_some() || waits
    }

    /// Its stream.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether it has not taken all that it is to be sent.
    pub fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// What to hear of from now on, if that has changed. A client that waits has nothing to say but that it goes.
    pub fn changed_events(&mut self) -> Option<EventFlags> {
        let events = match (self.has_output(), &self.waits) {
            (true, _) => EventFlags::OUT,
            (false, Some(_)) => EventFlags::RDHUP,
            (false, None) => EventFlags::IN,
        };
        (std::mem::replace(&mut self.heard, events) != events).then_some(events)
    }

    /// The next request, if it has come whole.
    /// Errors: the client has gone, or what it says is no request.
    pub fn receive(&mut self) -> Result<Option<StreamRequest>, WireError> {
        let mut bytes = [0; RECEIVED];
        match recv(&self.stream, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(gone().into()),
            Ok((length, _)) => self.input.extend_from_slice(&bytes[..length]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let Some((request, end)) = decode(&self.input, 0)? else { return Ok(None) };
        // The next one is sent when this one is answered.
        if end < self.input.len() {
            return Err(WireError::NotUnderstood);
        }
        self.input = Vec::new();
        Ok(Some(request))
    }

    /// Answers, as far as the client takes it now. Errors: it has gone.
    pub fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        self.send(encode(answer, 0)?)
    }

    /// Sends a frame, as far as the client takes it now. Errors: it has gone.
    pub fn send(&mut self, frame: Vec<u8>) -> io::Result<()> {
        debug_assert!(frame.len() >= HEAD_BYTES && !self.has_output());
        (self.output, self.sent) = (frame, 0);
        self.flush()
    }

    /// Goes on sending. Errors: it has gone.
    pub fn flush(&mut self) -> io::Result<()> {
        let end = self.output.len().min(self.sent + AT_ONCE);
        match send_parts(&self.stream, &self.output[self.sent..end], &[], SendFlags::DONTWAIT) {
            Ok(sent) => self.sent += sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if !self.has_output() {
            (self.output, self.sent) = (Vec::new(), 0);
        }
        Ok(())
    }
}

/// For a client that has closed its stream.
pub fn gone() -> io::Error {
    io::ErrorKind::NotConnected.into()
}
