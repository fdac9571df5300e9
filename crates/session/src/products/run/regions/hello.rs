//! A program that has connected, and the one message that it sends.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::net::RecvFlags;
use weigh_schema::profile::{HELLO, layout};
use weigh_wire::{Peer, peer_of, receive_parts};

/// Words of the message.
const WORDS: usize = {
    let (mut at, mut words) = (0, 0);
    while at < HELLO.len() {
        words += HELLO[at].1;
        at += 1;
    }
    words
};

/// A program that has connected.
pub(super) struct WaitingPeer {
    connection: OwnedFd,
    pub since: Instant,
}

/// What came of looking for a message.
pub(super) enum Received {
    /// There is none now.
    Nothing,
    /// A profile.
    Profile(OwnedFd, Peer),
    /// What is none, and why.
    Refused(&'static str),
}

impl WaitingPeer {
    pub fn new(connection: OwnedFd) -> WaitingPeer {
        WaitingPeer { connection, since: Instant::now() }
    }

    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// The message, if it is there.
    pub fn receive(&self, token: [u64; 2]) -> Received {
        // One byte more than a message has, to see that it is too long.
        let mut bytes = [0; 8 * WORDS + 1];
        let received = receive_parts(&self.connection, &mut bytes, RecvFlags::DONTWAIT);
        // Each file is closed that is not taken.
        let (length, mut files) = match received {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Received::Nothing,
            Err(_) => return Received::Refused("a connection without a message"),
        };
        match self.check(&bytes[..length], token) {
            Err(why) => Received::Refused(why),
            Ok(peer) => match files.pop().filter(|_| files.is_empty()) {
                Some(file) => Received::Profile(file, peer),
                None => Received::Refused("a message without a profile"),
            },
        }
    }

    fn check(&self, bytes: &[u8], token: [u64; 2]) -> Result<Peer, &'static str> {
        let words = bytes.chunks_exact(8).map(|b| b.try_into().map_or(0, u64::from_ne_bytes));
        let words: Vec<u64> = words.collect();
        let &[of_layout, first, second, _] = &words[..] else {
            return Err("a message that is none of libweigh's");
        };
        if bytes.len() != 8 * WORDS {
            return Err("a message that is none of libweigh's");
        }
        if [first, second] != token {
            return Err("a message without the job's number");
        }
        if of_layout != layout() {
            return Err("a profile of another version of weigh");
        }
        let peer = peer_of(&self.connection).map_err(|_| "a peer that is not known")?;
        let own = rustix::process::geteuid();
        if !own.is_root() && peer.uid != own.as_raw() {
            return Err("a process of another user");
        }
        Ok(peer)
    }
}
