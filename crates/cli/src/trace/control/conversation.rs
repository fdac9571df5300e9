//! A conversation with a stream, from the other side: a line of JSON asks, one answers, with descriptors or without.

use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::server::send;
use super::{Answer, Where};

/// For an answer: a program that is checked by the kernel may take a while.
const PATIENCE: Duration = Duration::from_secs(60);
/// No answer is longer.
const MOST_BYTES: usize = 1 << 24;
/// Descriptors that come with one.
const MOST_WITH: usize = 4;

/// Somebody who is asked.
#[derive(Debug)]
pub struct Conversation(UnixStream);

impl Conversation {
    /// Begins one.
    pub fn new(stream: UnixStream) -> io::Result<Conversation> {
        Conversation::patient(stream, PATIENCE)
    }

    /// The same, with another patience.
    pub fn patient(stream: UnixStream, patience: Duration) -> io::Result<Conversation> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Conversation(stream))
    }

    /// Says something, and gives descriptors with it.
    pub fn say(&self, what: &impl Serialize, with: &[OwnedFd]) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        let sent = send(&self.0, &line, with)?;
        (&self.0).write_all(&line[sent..])
    }

    /// Asks, and has the answer.
    pub fn ask<R: DeserializeOwned>(
        &self,
        what: &impl Serialize,
        with: &[OwnedFd],
    ) -> io::Result<(R, Vec<OwnedFd>)> {
        self.say(what, with)?;
        let (answer, with) = self.line()?;
        Ok((serde_json::from_slice(&answer)?, with))
    }

    /// The next line.
    pub fn line(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let (mut line, mut with) = (Vec::new(), Vec::new());
        while line.len() < MOST_BYTES {
            let mut part = [0; 16 * 1024];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_WITH))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [io::IoSliceMut::new(&mut part)];
            let heard = match recvmsg(&self.0, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?.bytes,
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    with.extend(descriptors);
                }
            }
            if heard == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            line.extend(&part[..heard]);
            if line.ends_with(b"\n") {
                return Ok((line, with));
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Whether the other side has something to say unasked, or has gone.
    pub fn is_over(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.0, PollFlags::IN | PollFlags::RDHUP)];
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Where it has ended, if it says so.
    pub fn ended(&self) -> Option<Where> {
        let (line, _) = self.line().ok()?;
        match serde_json::from_slice::<Answer<serde_json::Value>>(&line).ok()? {
            Answer::Ended(at) => Some(at),
            _ => None,
        }
    }
}

impl AsFd for Conversation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
