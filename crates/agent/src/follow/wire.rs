//! What a user's weigh asks and what it is told: JSON, each behind its length in four bytes.
//!
//! A request comes from somebody who may be hostile: one that is too long or is not understood ends
//! the conversation.

use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weigh_collect::follow::JobDetail;
use weigh_schema::event::{CollectorStatus, Event, FileKey, JobReading, Note, ProcessEnd};
use weigh_schema::limit::OnLimit;

/// Rises whenever what is sent changes.
pub const VERSION: u32 = 1;

/// No request is longer.
pub const MOST_ASKED: usize = 1 << 16;
/// No answer is longer: all processes that the kernel side keeps fit.
pub const MOST_TOLD: usize = 1 << 27;

/// What of the optional parts is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    calls: bool,
    network: bool,
    files: bool,
}

impl From<JobDetail> for Detail {
    fn from(detail: JobDetail) -> Detail {
        Detail { calls: detail.calls, network: detail.network, files: detail.files }
    }
}

impl From<Detail> for JobDetail {
    fn from(detail: Detail) -> JobDetail {
        let Detail { calls, network, files } = detail;
        // Nothing is put into the way of all switches of the machine for a user, and whose a running process is is not
        // asked here.
        JobDetail { calls, network, files, cpu_waits: false, joins: false }
    }
}

/// What is done to a process that crosses a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitAction {
    /// Nothing.
    Not,
    /// It is stopped.
    Stop,
    /// It is stopped; a process that goes on growing is killed.
    Kill,
}

impl From<OnLimit> for LimitAction {
    fn from(on_limit: OnLimit) -> LimitAction {
        match on_limit {
            OnLimit::Warn => LimitAction::Not,
            OnLimit::Stop => LimitAction::Stop,
            OnLimit::Kill => LimitAction::Kill,
        }
    }
}

impl From<LimitAction> for OnLimit {
    fn from(action: LimitAction) -> OnLimit {
        match action {
            LimitAction::Not => OnLimit::Warn,
            LimitAction::Stop => OnLimit::Stop,
            LimitAction::Kill => OnLimit::Kill,
        }
    }
}

/// What a user's weigh asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// To get ready; the first request, and the only one of its kind.
    Open {
        /// [`VERSION`].
        version: u32,
        /// What is wanted.
        wanted: Detail,
    },
    /// To follow the process that a descriptor stands for, which comes with it; once.
    Arm,
    /// What has happened.
    Events,
    /// The job, brought up to date.
    Read,
    /// The job as last known.
    Glance,
    /// The processes that are alive.
    Living,
    /// The processes that are kept.
    Processes,
    /// Limits: metric, limit, mark.
    SetLimits(Vec<(String, f64, f64)>, LimitAction),
    /// What a look at the pages has found, after so many departures.
    SetUnseen(u64, u64),
    /// To stop nobody any more.
    Release,
    /// To kill a process that goes on growing.
    SetEnding,
    /// To kill a process that forks.
    SetKilling,
    /// How the collectors fare.
    Statuses,
    /// What is to be said about values.
    Notes,
    /// Whether opens are counted.
    CountsOpens,
    /// How often a file was opened.
    TakeOpens(FileKey),
}

/// The job at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Glimpse {
    pub reading: JobReading,
    pub unsettled: u64,
    pub ended_ns: Option<u64>,
    pub departures: u64,
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Tell {
    /// It was done.
    Done,
    /// It was not, or cannot be.
    Refused(String),
    /// The job, and with a fresh reading some of the living.
    Job(Box<Glimpse>, Vec<ProcessEnd>),
    /// What has happened, and whether there is more.
    Events(Vec<Event>, bool),
    /// Processes.
    Processes(Vec<ProcessEnd>),
    /// The limits that are looked after.
    Taken(Vec<String>),
    /// How the collectors fare.
    Statuses(Vec<CollectorStatus>),
    /// What is to be said about values.
    Notes(Vec<Note>),
    /// How often a file was opened.
    Times(Option<u64>),
}

/// Sends something, and a descriptor with it.
pub fn send(
    stream: &UnixStream,
    what: &impl Serialize,
    with: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, what)?;
    let length = u32::try_from(frame.len() - 4).map_err(|_| io::ErrorKind::FileTooLarge)?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    let descriptors: Vec<BorrowedFd<'_>> = with.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let parts = [io::IoSlice::new(&frame)];
    let sent = loop {
        match sendmsg(stream, &parts, &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut stream = stream;
    stream.write_all(&frame[sent..])
}

/// The next thing that was sent, and the descriptor that came with it; none if there will be no more.
pub fn receive<T: DeserializeOwned>(
    stream: &UnixStream,
    most: usize,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut head = [0; 4];
    let Some(with) = receive_head(stream, &mut head)? else { return Ok(None) };
    let length = u32::from_le_bytes(head) as usize;
    if length > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    let mut stream = stream;
    stream.read_exact(&mut body)?;
    Ok(Some((serde_json::from_slice(&body)?, with)))
}

/// Asks, and has the answer. A client that is not served any more finds there why, if there is a reason.
pub fn converse<T: DeserializeOwned>(
    stream: &UnixStream,
    ask: &impl Serialize,
    with: Option<BorrowedFd<'_>>,
    most: usize,
) -> io::Result<(T, Option<OwnedFd>)> {
    let sent = send(stream, ask, with);
    let is_closed = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
    };
    match sent {
        Err(error) if !is_closed(&error) => Err(error),
        Err(error) => receive(stream, most).ok().flatten().ok_or(error),
        Ok(()) => receive(stream, most)?.ok_or(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn receive_head(stream: &UnixStream, head: &mut [u8; 4]) -> io::Result<Option<Option<OwnedFd>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [io::IoSliceMut::new(head)];
        match recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    let with = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    if received == 0 {
        return Ok(None);
    }
    let mut stream = stream;
    stream.read_exact(&mut head[received..])?;
    Ok(Some(with))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    fn asked(bytes: &[u8]) -> io::Result<Option<(Ask, Option<OwnedFd>)>> {
        let (mut ours, theirs) = UnixStream::pair()?;
        ours.write_all(bytes)?;
        drop(ours);
        receive(&theirs, MOST_ASKED)
    }

    #[test]
    fn a_request_is_taken_whole_or_not_at_all() {
        let wish = Ask::SetLimits(vec![("memory_peak_bytes".into(), 1e8, 8e7)], LimitAction::Kill);
        let body = serde_json::to_vec(&wish).unwrap();
        let whole = [&(body.len() as u32).to_le_bytes()[..], &body].concat();
        assert_eq!(asked(&whole).unwrap().unwrap().0, wish);
        assert!(asked(&[]).unwrap().is_none());
        for length in 1..whole.len() {
            assert!(asked(&whole[..length]).is_err(), "{length}");
        }
        assert!(asked(&u32::MAX.to_le_bytes()).is_err());
    }

    #[test]
    fn nothing_that_is_sent_makes_it_fail() {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let wishes = [
            Ask::Open { version: VERSION, wanted: follow_all() },
            Ask::SetLimits(vec![("processes_peak".into(), 1.0, 0.8)], LimitAction::Stop),
            Ask::TakeOpens(FileKey { process: 1, inode: 2, device: 3 }),
        ];
        for round in 0..20_000 {
            let mut body = serde_json::to_vec(&wishes[round % wishes.len()]).unwrap();
            for _ in 0..=random() % 4 {
                let at = random() as usize % body.len();
                body[at] = random() as u8;
            }
            let mut whole = [&(body.len() as u32).to_le_bytes()[..], &body].concat();
            if round % 7 == 0 {
                whole[random() as usize % 4] = random() as u8;
            }
            // What is taken is what it says.
            if let Ok(Some((wish, _))) = asked(&whole) {
                let again = serde_json::to_vec(&wish).unwrap();
                let same: Ask = serde_json::from_slice(&again).unwrap_or(Ask::Events);
                let is_nan = |wish: &Ask| format!("{wish:?}").contains("inf");
                assert!(same == wish || is_nan(&wish), "{wish:?}");
            }
        }
    }

    fn follow_all() -> Detail {
        Detail { calls: true, network: true, files: true }
    }

    #[test]
    fn who_is_not_listened_to_any_more_finds_why() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let why = Tell::Refused("there was need of the place".to_string());
        send(&ours, &why, None).unwrap();
        drop(ours);
        let answer = converse::<Tell>(&theirs, &Ask::Read, None, MOST_TOLD);
        assert_eq!(answer.unwrap().0, why);
        let error = converse::<Tell>(&theirs, &Ask::Read, None, MOST_TOLD).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_descriptor_comes_with_it() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send(&ours, &Ask::Arm, Some(ours.as_fd())).unwrap();
        send(&ours, &Ask::Read, None).unwrap();
        let (first, with) = receive::<Ask>(&theirs, MOST_ASKED).unwrap().unwrap();
        assert_eq!((first, with.is_some()), (Ask::Arm, true));
        let (second, with) = receive::<Ask>(&theirs, MOST_ASKED).unwrap().unwrap();
        assert_eq!((second, with.is_some()), (Ask::Read, false));
    }
}
