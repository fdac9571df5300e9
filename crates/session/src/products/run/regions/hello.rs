//! A program that has connected, and the one message that it sends.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Pid;
use weigh_schema::profile::{HELLO, layout};

/// Words of the message.
const WORDS: usize = {
    let (mut at, mut words) = (0, 0);
    while at < HELLO.len() {
        words += HELLO[at].1;
        at += 1;
    }
    words
};

/// Who sends a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its PID as weigh sees it; 0 if weigh does not.
    pub pid: u32,
}

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
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut part = [IoSliceMut::new(&mut bytes)];
        let length = match recvmsg(&self.connection, &mut part, &mut control, flags) {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
            Err(_) => return Received::Refused("a connection without a message"),
        };
        // Each is closed that is not taken.
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                files.extend(received);
            }
        }
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
        let who = socket_peercred(&self.connection).map_err(|_| "a peer that is not known")?;
        let own = rustix::process::geteuid();
        if !own.is_root() && who.uid != own {
            return Err("a process of another user");
        }
        Ok(Peer { pid: u32::try_from(Pid::as_raw(Some(who.pid))).unwrap_or(0) })
    }
}
