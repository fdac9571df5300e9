//! A conversation with a stream, from the other side: a line of JSON asks, one answers, with descriptors or without.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weigh_wire::{receive_parts, send_parts};

use super::super::description::StreamPosition;
use super::wire::Answer;

/// For an answer: a program that is checked by the kernel may take a while.
const PATIENCE: Duration = Duration::from_secs(60);
/// No answer is longer.
const MOST_BYTES: usize = 1 << 24;
/// Descriptors that come with one.
const MOST_WITH: usize = 4;

/// Somebody who is asked.
#[derive(Debug)]
pub struct Conversation {
    stream: UnixStream,
    /// What was heard together with a line, and is behind it: that the stream has ended it says unasked.
    rest: RefCell<Vec<u8>>,
}

impl Conversation {
    /// Begins one.
    pub fn new(stream: UnixStream) -> io::Result<Conversation> {
        Conversation::patient(stream, PATIENCE)
    }

    /// The same, with another patience.
    pub fn patient(stream: UnixStream, patience: Duration) -> io::Result<Conversation> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Conversation { stream, rest: RefCell::default() })
    }

    /// Says something, and gives descriptors with it.
    pub fn say(&self, what: &impl Serialize, with: &[OwnedFd]) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        let sent = send(&self.stream, &line, with)?;
        (&self.stream).write_all(&line[sent..])
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
        let (mut line, mut with) = (self.rest.take(), Vec::new());
        let mut looked = 0;
        while line.len() < MOST_BYTES {
            if let Some(end) = line[looked..].iter().position(|byte| *byte == b'\n') {
                self.rest.replace(line.split_off(looked + end + 1));
                return Ok((line, with));
            }
            looked = line.len();
            let mut part = [0; 16 * 1024];
            let (heard, more) = receive_parts(&self.stream, &mut part, RecvFlags::empty())?;
            with.extend(more);
            // Else a line without an end would be given any number of them, which are kept until it ends.
            if with.len() > MOST_WITH {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if heard == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            line.extend(&part[..heard]);
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Whether the other side has something to say unasked, or has gone.
    pub fn is_over(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN | PollFlags::RDHUP)];
        !self.rest.borrow().is_empty() || poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Where it has ended, if it says so: perhaps behind the answer to what it was asked last.
    pub fn ended(&self) -> Option<StreamPosition> {
        (0..2).find_map(|_| {
            let (line, _) = self.line().ok()?;
            match serde_json::from_slice::<Answer<serde_json::Value>>(&line).ok()? {
                Answer::Ended(at) => Some(at),
                _ => None,
            }
        })
    }
}

impl AsFd for Conversation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Sends as much as can be without waiting, and descriptors with the first byte of it.
pub fn send(stream: &UnixStream, bytes: &[u8], with: &[OwnedFd]) -> io::Result<usize> {
    let with: Vec<BorrowedFd<'_>> = with.iter().map(|fd| fd.as_fd()).collect();
    send_parts(stream, bytes, &with, SendFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Conversation {
        let (own, other) = UnixStream::pair().expect("a pair");
        (&other).write_all(text.as_bytes()).expect("room");
        Conversation::new(own).expect("a conversation")
    }

    #[test]
    fn a_line_has_no_more_descriptors_than_any_needs() {
        let (own, other) = UnixStream::pair().expect("a pair");
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("there"));
        for _ in 0..3 {
            assert_eq!(send(&other, b"{", &[file(), file()]).expect("room"), 1);
        }
        (&other).write_all(b"}\n").expect("room");
        let talk = Conversation::new(own).expect("a conversation");
        assert_eq!(talk.line().expect_err("too many").kind(), io::ErrorKind::InvalidData);
    }

    const ENDED: &str = "{\"ended\":{\"positions\":[7],\"seen\":[3],\"lost\":[2]}}\n";

    #[test]
    fn an_end_that_is_heard_with_an_answer_is_not_forgotten() {
        let answer = "{\"refused\":\"no\"}\n";
        let talk = told(&format!("{answer}{ENDED}"));
        let (line, _) = talk.line().expect("an answer");
        assert_eq!(line, answer.as_bytes());
        assert!(talk.is_over());
        assert_eq!(talk.ended().expect("an end").positions, [7]);
        // One that did not get to hear the answer first.
        let talk = told(&format!("{answer}{ENDED}"));
        assert_eq!(talk.ended().expect("an end").positions, [7]);
        assert!(talk.ended().is_none());
    }
}
