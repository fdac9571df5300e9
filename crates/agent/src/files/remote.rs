//! The user's side: a job whose reads and writes the agent has followed.
//!
//! Reads answers from a stream; emits what the kernel side itself would. When the agent is lost the job goes on: what
//! was told until then stays, of files that were open as they were looked at last, and is said to be no more than that.

use std::cell::RefCell;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weigh_collect::clock::monotonic_ns;
use weigh_collect::follow::{
    Attachment, FileEvents, FileMechanism, FileState, MechanismError, RunningAttachment,
};
use weigh_collect::io::{RecordBatch, RecordKind, RowScope, Telling, qualities};
use weigh_collect::notice;
use weigh_collect::survivors::Survivors;
use weigh_schema::Quality;
use weigh_schema::io::{Event, FileId, Process, ReportBasis, Tally, Use};
use weigh_schema::library::Followed;
use weigh_wire::messages::{FileParts, FilesOpened};
use weigh_wire::{Answer, FileRequest, receive, send};

use super::snapshot_cache::LastLook;
use crate::follow::remote::{RemoteError, ask, session_for};

/// Time between looks for who is alive, when nobody tells.
const LOOK: Duration = Duration::from_millis(50);

/// Names that are asked for again in one request: it has room for them, however great their numbers are.
const NAMES_AT_ONCE: usize = 512;

/// A job whose files the agent tells of.
pub struct RemoteIo {
    wake: OwnedFd,
    missing: Vec<String>,
    /// By the agent's clock, and by this side's.
    began_ns: u64,
    own_began_ns: u64,
    told: RefCell<State>,
}

struct State {
    /// None when it is lost.
    stream: Option<UnixStream>,
    tally: Tally,
    last: LastLook,
    remains: Option<Survivors>,
    /// When the agent was lost, and how.
    lost: Option<(u64, String)>,
    looked: Option<Instant>,
}

impl RemoteIo {
    /// Has the agent that listens there get ready to follow.
    pub fn open(path: &Path, telling: Telling, apart: RowScope) -> Result<RemoteIo, RemoteError> {
        let stream = session_for(path, Followed::Files)?;
        let (each, threads) = (telling == Telling::Each, apart == RowScope::Threads);
        let asked_ns = monotonic_ns();
        let parts = FileParts { layout: RecordBatch::layout(), each, threads };
        let opened = ask(&stream, &FileRequest::Open(parts), &[])?;
        let (Answer::FilesOpened(opened), Some(wake)) = opened else {
            return Err(RemoteError::NotUnderstood);
        };
        let FilesOpened { began_ns, elapsed_ns, missing } = opened;
        let told = RefCell::new(State {
            stream: Some(stream),
            tally: Tally::default(),
            last: LastLook::default(),
            remains: None,
            lost: None,
            looked: None,
        });
        let own_began_ns = own_clock(began_ns, elapsed_ns, asked_ns);
        Ok(RemoteIo { wake, missing, began_ns, own_began_ns, told })
    }

    /// Asks; what does not come loses the agent.
    fn ask<T>(
        &self,
        talk: impl FnOnce(&UnixStream) -> Result<T, RemoteError>,
    ) -> Result<T, RemoteError> {
        let now_ns = self.elapsed_ns();
        let mut told = self.told.borrow_mut();
        let Some(stream) = &told.stream else {
            return Err(RemoteError::Gone(std::io::ErrorKind::NotConnected.into()));
        };
        let outcome = talk(stream);
        if let Err(error) = &outcome
            && !matches!(error, RemoteError::Refused(_))
        {
            told.lose(error, now_ns);
        }
        outcome
    }

    fn done(&self, request: &FileRequest, with: &[BorrowedFd<'_>]) -> Result<(), RemoteError> {
        self.ask(|stream| match ask(stream, request, with)?.0 {
            Answer::Done => Ok(()),
            _ => Err(RemoteError::NotUnderstood),
        })
    }

    /// All that is kept of a kind.
    fn kept(&self, what: RecordKind) -> Result<Vec<RecordBatch>, RemoteError> {
        self.ask(|stream| {
            let mut pieces = Vec::new();
            send(stream, &request_for(what), &[]).map_err(RemoteError::lost)?;
            loop {
                let piece = next_records(stream)?;
                if piece.is_empty() {
                    return Ok(pieces);
                }
                pieces.push(piece);
            }
        })
    }

    /// Looks at what is open, so that this is known if the agent is lost.
    fn look(&self) {
        let began = Instant::now();
        if let (Ok(uses), Ok(processes), Ok(rest)) = (
            self.kept(RecordKind::Uses),
            self.kept(RecordKind::Processes),
            self.kept(RecordKind::Rest),
        ) {
            let mut told = self.told.borrow_mut();
            let living: Vec<u32> =
                processes.iter().flat_map(|p| p.processes(self.began_ns)).map(|p| p.pid).collect();
            if let Some(remains) = &mut told.remains {
                remains.note(living);
            }
            told.last.replace(uses, processes, rest, began);
        }
    }
}

impl State {
    fn lose(&mut self, why: &RemoteError, now_ns: u64) {
        self.stream = None;
        if let Some(remains) = &self.remains {
            remains.adopt();
        }
        notice!(
            "{why}. The job goes on; what it reads and writes from {:.1} s on is not told",
            now_ns as f64 * 1e-9
        );
        self.lost = Some((now_ns, why.to_string()));
    }

    /// Counts living processes, when nothing reports them: no end is known otherwise.
    fn count_living(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.tally.living =
            self.remains.as_mut().map_or(0, |remains| remains.living().len() as u64);
        self.looked = Some(Instant::now());
    }
}

/// When it began by this side's clock: the same, unless weigh is in a time namespace of its own. Then it is known as far
/// as an answer takes to come.
fn own_clock(began_ns: u64, elapsed_ns: u64, asked_ns: u64) -> u64 {
    let now_ns = monotonic_ns();
    match (asked_ns..=now_ns).contains(&(began_ns + elapsed_ns)) {
        true => began_ns,
        false => now_ns.saturating_sub(elapsed_ns),
    }
}

fn request_for(what: RecordKind) -> FileRequest {
    match what {
        RecordKind::Uses => FileRequest::Uses,
        RecordKind::Devices => FileRequest::Devices,
        RecordKind::Processes => FileRequest::Processes,
        RecordKind::Requests => FileRequest::Requests,
        RecordKind::Rest => FileRequest::Rest,
    }
}

/// The next piece of records.
fn next_records(stream: &UnixStream) -> Result<RecordBatch, RemoteError> {
    match receive(stream).map_err(RemoteError::lost)? {
        Some((Answer::Records(records), _)) => Ok(RecordBatch::from_bytes(records.0)),
        Some((Answer::Refused(why), _)) => Err(RemoteError::Refused(why)),
        Some(_) => Err(RemoteError::NotUnderstood),
        None => Err(RemoteError::Gone(std::io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Nobody tells any more what this process does.
fn went_on(process: Process) -> Process {
    Process { moves_unseen: true, ..process }
}

fn of_process(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()
}

impl FileEvents for RemoteIo {
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.wake.as_fd()]
    }

    fn begin(&mut self) {
        let ready_ns = self.elapsed_ns();
        self.began_ns += ready_ns;
        self.own_began_ns += ready_ns;
    }

    fn elapsed_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.own_began_ns)
    }

    fn events(&mut self) -> Vec<Event> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let told = self.ask(|stream| match ask(stream, &FileRequest::Records, &[])?.0 {
            Answer::Tally(tally) => Ok((tally, next_records(stream)?)),
            _ => Err(RemoteError::NotUnderstood),
        });
        let Ok((tally, records)) = told else {
            self.told.get_mut().count_living();
            return Vec::new();
        };
        let events: Vec<Event> = records.events(self.began_ns).collect();
        let told = self.told.get_mut();
        told.tally = tally;
        told.last.leave(&events);
        if told.last.is_due() {
            self.look();
        }
        events
    }

    fn forget_names(&mut self, files: &[FileId]) {
        for files in files.chunks(NAMES_AT_ONCE) {
            // Without the agent no name is told again, nor is a file.
            let _ = self.done(&FileRequest::ForgetNames(files.to_vec()), &[]);
        }
    }

    fn tally(&self) -> Tally {
        self.told.borrow().tally
    }

    fn grounds(&self) -> ReportBasis {
        let told = self.told.borrow();
        let qualities = qualities(&told.tally);
        let mut grounds =
            ReportBasis { notes: self.missing.clone(), qualities, ..ReportBasis::default() };
        if let Some((at_ns, why)) = &told.lost {
            grounds.quality = Quality::Estimated;
            grounds.notes.push(format!(
                "{why}: what came after the first {:.1} s is missing, of files that were open then what came after \
                 they were last looked at",
                *at_ns as f64 * 1e-9
            ));
        }
        grounds
    }

    fn detach(&mut self) {
        let _ = self.done(&FileRequest::Detach, &[]);
    }
}

impl FileState for RemoteIo {
    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), MechanismError> {
        match self.kept(RecordKind::Uses) {
            Ok(pieces) => {
                pieces.iter().flat_map(|p| p.uses(self.began_ns)).for_each(&mut *show);
            }
            Err(_) => self.told.borrow().last.uses(self.began_ns).for_each(&mut *show),
        }
        let of_devices = self.kept(RecordKind::Devices).unwrap_or_default();
        of_devices.iter().flat_map(|p| p.of_devices(self.began_ns)).for_each(show);
        Ok(())
    }

    fn processes(&self) -> Result<Vec<Process>, MechanismError> {
        Ok(match self.kept(RecordKind::Processes) {
            Ok(pieces) => pieces.iter().flat_map(|p| p.processes(self.began_ns)).collect(),
            Err(_) => self.told.borrow().last.processes(self.began_ns).map(went_on).collect(),
        })
    }

    fn is_member(&self, pid: u32) -> bool {
        let Some(pidfd) = of_process(pid) else { return false };
        let told = self.ask(|stream| ask(stream, &FileRequest::IsMember, &[pidfd.as_fd()]));
        match told {
            Ok((told, _)) => told == Answer::Is(true),
            Err(_) => {
                let mut told = self.told.borrow_mut();
                told.remains.as_mut().is_some_and(|remains| remains.living().contains(&pid))
            }
        }
    }

    fn open_requests(&self) -> Result<Vec<Use>, MechanismError> {
        let pieces = self.kept(RecordKind::Requests).unwrap_or_default();
        Ok(pieces.iter().flat_map(RecordBatch::requests).collect())
    }

    fn rest(&self) -> Option<Use> {
        match self.kept(RecordKind::Rest) {
            Ok(pieces) => pieces.iter().flat_map(|p| p.uses(self.began_ns)).next(),
            Err(_) => self.told.borrow().last.rest(self.began_ns),
        }
    }
}

impl Attachment for RemoteIo {
    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        self.done(&FileRequest::Arm, &[pidfd])?;
        self.told.borrow_mut().remains = Survivors::of(pid);
        Ok(())
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Ok(self)
    }

    fn is_remote(&self) -> bool {
        true
    }
}

impl RunningAttachment for RemoteIo {
    fn join(&mut self, pid: u32) -> Result<(), MechanismError> {
        let pidfd = of_process(pid).ok_or(weigh_collect::job::JobError::NoProcess(pid))?;
        self.done(&FileRequest::Join, &[pidfd.as_fd()])?;
        self.told.borrow_mut().remains = Survivors::of(pid);
        Ok(())
    }
}

impl FileMechanism for RemoteIo {
    fn attachment(&mut self) -> Option<&mut dyn Attachment> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_names_than_fit_are_asked_for_at_once() {
        let file = FileId { device: u32::MAX, generation: u32::MAX, inode: u64::MAX };
        let request = FileRequest::ForgetNames(vec![file; NAMES_AT_ONCE]);
        assert!(weigh_wire::encode(&request, 0).is_ok());
    }

    #[test]
    fn the_clock_is_the_agent_s_unless_it_can_not_be() {
        let asked = monotonic_ns();
        let began = asked - 1_000_000;
        assert_eq!(own_clock(began, 1_000_000, asked), began);
        // The agent's clock is an hour ahead.
        let hour = 3_600_000_000_000;
        let found = own_clock(began + hour, 1_000_000, asked);
        assert!((began..=monotonic_ns() - 1_000_000).contains(&found), "{found} {began}");
    }
}
