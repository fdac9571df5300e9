//! The socket where the kernel side cannot be had: streams are served, and all else is turned away with the reason.
//!
//! Reads requests from a socket; emits streams, and refusals.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::{Timespec, epoll};
use rustix::fs::unlink;
use rustix::net::SendFlags;
use weigh_schema::library::{Followed, Reason};
use weigh_wire::datagram::Datagram;
use weigh_wire::library::reply;
use weigh_wire::{AgentRequest, Peer, peer_of, send_parts};

use crate::client::{self, Received, turn_away};
use crate::follow::refusal;
use crate::listener::{ServerError, accept, listen_at, spare};
use crate::quota::PROGRAMS;
use crate::rate_limit::RateLimit;
use crate::rounds::Rounds;
use crate::served::pass_profile;
use crate::streams::StreamDoor;

/// Serves streams alone at a socket.
pub struct PlainServer {
    listener: OwnedFd,
    path: PathBuf,
    epoll: OwnedFd,
    clients: BTreeMap<u64, (OwnedFd, Peer)>,
    last_key: u64,
    rounds: Rounds,
    pace: RateLimit,
    spare: Option<OwnedFd>,
    door: StreamDoor,
    /// Why the kernel side cannot be had.
    why: String,
}

const LISTENER: u64 = u64::MAX;
const MOST_EVENTS: usize = 256;

impl PlainServer {
    /// Makes a socket at a path and listens there. Errors: somebody serves there, or nobody can.
    pub fn new(path: &Path, door: StreamDoor, why: String) -> Result<PlainServer, ServerError> {
        let listener = listen_at(path)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let data = epoll::EventData::new_u64(LISTENER);
        let added = epoll::add(&epoll, &listener, data, epoll::EventFlags::IN);
        added.map_err(io::Error::from)?;
        Ok(PlainServer {
            listener,
            path: path.to_owned(),
            epoll,
            clients: BTreeMap::new(),
            last_key: 0,
            rounds: Rounds::default(),
            pace: RateLimit::default(),
            spare: spare(),
            door,
            why,
        })
    }

    /// Readable when there is something to handle.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Does what there is to do now, of each user one request at most. Errors: the kernel tells of no events any more.
    pub fn handle(&mut self) -> Result<(), ServerError> {
        let mut events = Vec::with_capacity(MOST_EVENTS);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut requests = Vec::new();
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept(),
                key => requests.extend(self.clients.get(&key).map(|(_, peer)| (peer.uid, key))),
            }
        }
        for key in self.rounds.choose(&requests) {
            if self.serve(key).is_err() {
                self.clients.remove(&key);
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        if let Some(connection) = accept(&self.listener, &mut self.spare) {
            self.take_in(connection);
        }
    }

    fn take_in(&mut self, connection: OwnedFd) {
        let Ok(peer) = peer_of(&connection) else { return };
        let holders = self.clients.values().map(|(_, peer)| peer.uid);
        if !PROGRAMS.has_room(peer.uid, holders) {
            return turn_away(&connection, Reason::TooMany);
        }
        self.last_key += 1;
        let data = epoll::EventData::new_u64(self.last_key);
        if epoll::add(&self.epoll, &connection, data, epoll::EventFlags::IN).is_ok() {
            self.clients.insert(self.last_key, (connection, peer));
        }
    }

    fn serve(&mut self, key: u64) -> io::Result<()> {
        let Some((connection, peer)) = self.clients.get(&key) else { return Ok(()) };
        let request = match client::receive(connection) {
            Received::Nothing => return Ok(()),
            Received::End => return Err(io::ErrorKind::NotConnected.into()),
            Received::Message(request) => request,
            Received::Profile(file) => {
                pass_profile(file, (*peer, peer.uid), Some(&self.door), &mut self.pace);
                return Ok(());
            }
        };
        match request {
            Err(reason) => answer(connection, reason, None),
            Ok(Datagram::Library(_)) => answer(connection, Reason::Kernel, None),
            Ok(Datagram::Agent(_)) if !self.pace.allows(peer.uid, Instant::now()) => {
                answer(connection, Reason::TooMany, None)
            }
            Ok(Datagram::Agent(AgentRequest::Follow(what))) => {
                let stream = refuse(what, &self.why)?;
                answer(connection, Reason::Measured, Some(stream.as_fd()))
            }
            Ok(Datagram::Agent(AgentRequest::Watch)) => match self.door.pass(*peer, peer.uid) {
                Some(stream) => answer(connection, Reason::Measured, Some(stream.as_fd())),
                None => answer(connection, Reason::TooMany, None),
            },
        }
    }
}

impl Drop for PlainServer {
    fn drop(&mut self) {
        let _ = unlink(&self.path);
    }
}

fn answer(to: &OwnedFd, reason: Reason, with: Option<BorrowedFd<'_>>) -> io::Result<()> {
    client::send(to, &reply(reason, 0, 0), with.as_slice())
}

/// A stream on which nobody follows anything, and the reason.
fn refuse(what: Followed, why: &str) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    send_parts(&ours, &refusal(what, why), &[], SendFlags::DONTWAIT)?;
    Ok(theirs.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::listener::serves_programs;
    use crate::streams::{StreamServer, StreamSettings};

    /// Serves at a path while something is asked.
    fn while_served<T>(path: &Path, ask: impl FnOnce() -> T) -> T {
        let interval = std::time::Duration::from_secs(1);
        let settings = StreamSettings { interval, why_no_jobs: None, statsd: None, otlp: None };
        let (_streams, door) = StreamServer::new(settings).unwrap();
        let mut server = PlainServer::new(path, door, "a test".to_string()).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    server.handle().unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
            let answer = ask();
            is_over.store(true, Ordering::Relaxed);
            answer
        })
    }

    #[test]
    fn an_agent_of_the_node_alone_is_no_server_of_programs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(!serves_programs(&path), "nobody is there");
        assert!(!while_served(&path, || serves_programs(&path)), "it serves the node alone");
        assert!(!serves_programs(&path), "it has gone");
    }

    /// A server that is busy, or of another version, is left what it serves.
    #[test]
    fn a_server_that_says_nothing_is_taken_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = crate::listener::listen_at(&path).unwrap();
        assert!(serves_programs(&path));
        drop(listener);
        assert!(!serves_programs(&path));
        let stream = folder.path().join("stream");
        let _listener = UnixListener::bind(&stream).unwrap();
        assert!(!serves_programs(&stream), "another kind of socket");
    }
}
