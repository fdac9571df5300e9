//! The user's side: a job that the agent follows.
//!
//! Reads answers from a stream; emits what the kernel side itself would. When the agent is lost the
//! job goes on: living processes are then read from `/proc`, and all values are those reported until then.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect,
    socket_with,
};
use weigh_collect::clock::Moment;
use weigh_collect::follow::{
    Attachment, Enforcement, JobDetail, JobMechanism, JobReader, MechanismError, Members,
    MemoryBound, OpenCounts, RunningAttachment, ZombieReader, read_until_settled, signal_members,
};
use weigh_collect::notice;
use weigh_collect::survivors::Survivors;
use weigh_schema::event::{
    CollectorState, CollectorStatus, Event, FileKey, JobReading, Note, ProcessEnd,
};
use weigh_schema::library::{Followed, Reason, SOCKET, SOCKET_VARIABLE};
use weigh_schema::limit::OnLimit;
use weigh_schema::metric_name;
use weigh_schema::{Formula, METRICS, Mechanism, Quality};

use weigh_wire::library::parse_reply;
use weigh_wire::messages::{JobParts, JobReport, Limits, UnseenMemory};
use weigh_wire::{
    AgentRequest, Answer, HEAD_BYTES, JobRequest, Message, WireError, encode, receive_parts,
    send_parts,
};

/// An agent that does not answer for so long is lost.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between looks for who is alive, when nobody tells.
const LOOK: Duration = Duration::from_millis(50);
/// Rounds of events that are fetched at once: a job that makes more goes on meanwhile.
const ROUNDS: usize = 64;

/// Why the agent does not follow a job.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Nobody is there.
    #[error("no agent of weigh answers at {0}: {1}")]
    NoAgent(PathBuf, io::Error),
    /// The agent says why.
    #[error("the agent at {0} does not follow it: {1}")]
    TurnedAway(PathBuf, &'static str),
    /// What follows it says why.
    #[error("the agent does not follow it: {0}")]
    Refused(String),
    /// The agent has ended.
    #[error("the agent has gone: {0}")]
    Gone(io::Error),
    /// It takes too long: with several who ask at once the kernel may have much to check.
    #[error("the agent has not answered for {} s", PATIENCE.as_secs())]
    Silent,
    /// It says something else than it was asked.
    #[error("the agent is of another version of weigh")]
    NotUnderstood,
}

impl RemoteError {
    /// Why nothing came from the agent, or nothing could be sent to it.
    pub(crate) fn lost(error: impl Into<WireError>) -> RemoteError {
        match error.into() {
            WireError::Io(error) if error.kind() == io::ErrorKind::WouldBlock => {
                RemoteError::Silent
            }
            WireError::Io(error) => RemoteError::Gone(error),
            WireError::OtherVersion | WireError::NotUnderstood => RemoteError::NotUnderstood,
        }
    }
}

/// What follows for weigh, as errors name it.
const NAME: &str = "agent";

impl From<RemoteError> for MechanismError {
    fn from(error: RemoteError) -> MechanismError {
        MechanismError::new(NAME, error)
    }
}

/// Where the agent is to be found.
pub fn socket() -> PathBuf {
    std::env::var_os(SOCKET_VARIABLE)
        .filter(|path| !path.is_empty())
        .unwrap_or(SOCKET.into())
        .into()
}

/// Whether an agent answers there.
pub fn answers(path: &Path) -> Result<(), RemoteError> {
    connected(path).map(drop)
}

fn connected(path: &Path) -> Result<OwnedFd, RemoteError> {
    let connected = || -> io::Result<OwnedFd> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Recv,
            Some(PATIENCE),
        )?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    };
    connected().map_err(|error| RemoteError::NoAgent(path.to_owned(), error))
}

/// Asks the agent that listens there for somebody who follows a job.
pub fn session(path: &Path) -> Result<UnixStream, RemoteError> {
    session_for(path, Followed::Job)
}

/// Asks it for somebody who attaches probes for this user's own threads.
pub fn stream(path: &Path) -> Result<UnixStream, RemoteError> {
    session_for(path, Followed::Events)
}

/// The same for one who follows something of a job.
pub fn session_for(path: &Path, what: Followed) -> Result<UnixStream, RemoteError> {
    stream_for(path, &AgentRequest::Follow(what))
}

/// The stream that comes with the answer to a request.
pub(crate) fn stream_for(path: &Path, request: &AgentRequest) -> Result<UnixStream, RemoteError> {
    let socket = connected(path)?;
    // A client that was turned away finds the reason there, though nothing listens any more.
    let request = encode(request, 0).map_err(RemoteError::lost)?;
    let sent = send_parts(&socket, &request, &[], SendFlags::empty());
    let mut answer = [0; HEAD_BYTES];
    let mut receive = || receive_parts(&socket, &mut answer, RecvFlags::empty());
    let received = match receive() {
        // What was sent and not read is told first, the answer then.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => receive(),
        other => other,
    };
    let (received, mut with) = received.map_err(RemoteError::lost)?;
    if received == 0 {
        let end = io::ErrorKind::UnexpectedEof.into();
        return Err(RemoteError::Gone(sent.err().unwrap_or(end)));
    }
    match (parse_reply(&answer[..received]), with.pop()) {
        (Some(Reason::Measured), Some(stream)) => patient(stream.into()),
        (Some(reason), _) => Err(RemoteError::TurnedAway(path.to_owned(), reason.text())),
        (None, _) => Err(RemoteError::NotUnderstood),
    }
}

fn patient(stream: UnixStream) -> Result<UnixStream, RemoteError> {
    stream.set_read_timeout(Some(PATIENCE)).map_err(RemoteError::Gone)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(RemoteError::Gone)?;
    Ok(stream)
}

/// Asks a session; what it refuses is an error.
pub fn ask<M: Message>(
    stream: &UnixStream,
    request: &M,
    with: &[BorrowedFd<'_>],
) -> Result<(Answer, Option<OwnedFd>), RemoteError> {
    match weigh_wire::ask(stream, request, with).map_err(RemoteError::lost)? {
        (Answer::Refused(why), _) => Err(RemoteError::Refused(why)),
        (answer, mut with) => Ok((answer, with.pop())),
    }
}

/// A job that the agent follows.
pub struct RemoteJob {
    wake: OwnedFd,
    /// Readable when there is something that should not wait, or the agent has gone.
    either: OwnedFd,
    told: RefCell<LastReport>,
    /// Whether opens are counted, once that was asked; else why not.
    open_counts: Option<Result<(), String>>,
}

/// What was told last, and by whom.
struct LastReport {
    /// None when it is lost.
    stream: Option<UnixStream>,
    job: JobReport,
    living: Vec<ProcessEnd>,
    statuses: Vec<CollectorStatus>,
    armed: Option<(Moment, Survivors)>,
    /// When the agent was lost, and how.
    lost: Option<(u64, String)>,
    looked: Option<Instant>,
    has_limits: bool,
}

impl RemoteJob {
    /// Has the agent that listens there get ready to follow a job.
    pub fn open(path: &Path, detail: JobDetail) -> Result<RemoteJob, RemoteError> {
        let stream = session(path)?;
        let system = |error: rustix::io::Errno| RemoteError::Gone(error.into());
        let JobDetail { calls, network, files, .. } = detail;
        let parts = JobParts { calls, network, files };
        let (Answer::JobOpened, Some(wake)) = ask(&stream, &JobRequest::Open(parts), &[])? else {
            return Err(RemoteError::NotUnderstood);
        };
        let either = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        let watch = |what: BorrowedFd<'_>, events| {
            epoll::add(&either, what, epoll::EventData::new_u64(0), events).map_err(system)
        };
        watch(wake.as_fd(), epoll::EventFlags::IN)?;
        watch(stream.as_fd(), epoll::EventFlags::RDHUP)?;
        let told = LastReport {
            stream: Some(stream),
            job: JobReport::default(),
            living: Vec::new(),
            statuses: Vec::new(),
            armed: None,
            lost: None,
            looked: None,
            has_limits: false,
        };
        let job = RemoteJob { wake, either, told: RefCell::new(told), open_counts: None };
        if let Ok(Answer::Statuses(statuses)) = job.ask(&JobRequest::Statuses) {
            job.told.borrow_mut().statuses = statuses;
        }
        Ok(job)
    }

    fn ask(&self, request: &JobRequest) -> Result<Answer, RemoteError> {
        self.ask_with(request, &[])
    }

    fn ask_with(
        &self,
        request: &JobRequest,
        with: &[BorrowedFd<'_>],
    ) -> Result<Answer, RemoteError> {
        let mut told = self.told.borrow_mut();
        let Some(stream) = &told.stream else {
            return Err(RemoteError::Gone(io::ErrorKind::NotConnected.into()));
        };
        let answer = ask(stream, request, with);
        if let Err(error) = &answer
            && !matches!(error, RemoteError::Refused(_))
        {
            told.lose(error);
        }
        Ok(answer?.0)
    }

    /// What has no answer but that it was done. Nothing that a limit asks for can be had of one who
    /// is gone.
    fn tell(&self, request: &JobRequest) -> Result<(), MechanismError> {
        match self.ask(request) {
            Err(error @ RemoteError::Refused(_)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn glance_at(&self, request: &JobRequest) -> JobReport {
        let answer = self.ask(request);
        let mut told = self.told.borrow_mut();
        match answer {
            Ok(Answer::Job(mut job)) => {
                if *request == JobRequest::Read {
                    told.note(std::mem::take(&mut job.living));
                }
                told.job = *job;
            }
            _ => told.look(*request == JobRequest::Read),
        }
        told.job.clone()
    }

    fn list(&self, request: &JobRequest) -> Vec<ProcessEnd> {
        match self.ask(request) {
            Ok(Answer::Processes(processes)) => processes,
            _ => {
                let mut told = self.told.borrow_mut();
                told.look(true);
                told.living.clone()
            }
        }
    }
}

impl LastReport {
    fn lose(&mut self, why: &RemoteError) {
        self.stream = None;
        let Some((begun, remains)) = &self.armed else { return };
        remains.adopt();
        let seconds = begun.elapsed().as_secs_f64();
        let limits = match self.has_limits {
            true => "; limits on memory, processes and threads are not held any more",
            false => "",
        };
        notice!(
            "{why}. The job goes on; from {seconds:.1} s on it is only seen who is alive{limits}"
        );
        self.lost = Some((begun.elapsed_ns(), why.to_string()));
    }

    fn note(&mut self, living: Vec<ProcessEnd>) {
        if let Some((_, remains)) = &mut self.armed {
            remains.note(living.iter().map(|process| process.pid));
        }
        self.living = living;
    }

    /// Looks by itself, now or if the last time is long ago.
    fn look(&mut self, now: bool) {
        let Some((begun, remains)) = &mut self.armed else { return };
        if !now && self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        let living = remains.living();
        self.living.retain(|process| living.contains(&process.pid));
        for pid in living {
            if self.living.iter().all(|process| process.pid != pid) {
                self.living.push(ProcessEnd { pid, ..ProcessEnd::default() });
            }
        }
        let reading = &mut self.job.reading;
        reading.at_ns = begun.elapsed_ns();
        reading.population.processes = self.living.len() as u64;
        reading.population.threads = 0;
        reading.memory.rss_sum = 0;
        remains.add_to(&mut reading.counters);
        self.job.unsettled = 0;
        if self.living.is_empty() {
            let ended = self.job.ended_ns.get_or_insert(reading.at_ns);
            reading.at_ns = *ended;
        }
        self.looked = Some(Instant::now());
    }

    /// What is to be said of everything, once the agent is lost.
    fn lost_note(&self) -> Option<String> {
        let (at_ns, why) = self.lost.as_ref()?;
        let seconds = *at_ns as f64 * 1e-9;
        Some(format!("{why}: what came after the first {seconds:.1} s is missing"))
    }
}

impl JobReader for RemoteJob {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Bpf
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.either.as_fd())
    }

    fn next_look(&self) -> Option<Instant> {
        let told = self.told.borrow();
        told.stream.is_none().then(|| told.looked.map_or_else(Instant::now, |l| l + LOOK))
    }

    fn events(&mut self) -> Vec<Event> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let mut events = Vec::new();
        for _ in 0..ROUNDS {
            match self.ask(&JobRequest::Events) {
                Ok(Answer::Events(more)) => {
                    events.extend(more.events);
                    if more.has_more {
                        continue;
                    }
                }
                _ => self.told.borrow_mut().look(false),
            }
            break;
        }
        events
    }

    fn read(&mut self) -> Result<JobReading, MechanismError> {
        Ok(self.glance_at(&JobRequest::Read).reading)
    }

    fn glance(&self) -> JobReading {
        self.glance_at(&JobRequest::Glance).reading
    }

    fn statuses(&self) -> Vec<CollectorStatus> {
        if let Ok(Answer::Statuses(statuses)) = self.ask(&JobRequest::Statuses) {
            self.told.borrow_mut().statuses = statuses;
        }
        let told = self.told.borrow();
        let mut statuses = told.statuses.clone();
        for status in statuses.iter_mut().filter(|status| status.name == "processes") {
            status.reason = Some(match told.lost_note() {
                Some(lost) => format!("through the agent; {lost}"),
                None => "through the agent".to_string(),
            });
        }
        if told.lost.is_some() {
            for status in statuses.iter_mut().filter(|s| s.status == CollectorState::Active) {
                status.status = CollectorState::Degraded;
            }
        }
        statuses
    }

    fn notes(&mut self) -> Vec<Note> {
        if let Ok(Answer::Notes(notes)) = self.ask(&JobRequest::Notes) {
            return notes;
        }
        let told = self.told.borrow();
        let Some(reason) = told.lost_note() else { return Vec::new() };
        METRICS
            .iter()
            .filter(|m| {
                m.name != metric_name::wall_seconds && !matches!(m.formula, Formula::NotMeasured(_))
            })
            .map(|metric| Note::new(metric.name, Quality::Estimated, reason.clone()))
            .collect()
    }
}

impl Attachment for RemoteJob {
    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        self.ask_with(&JobRequest::Arm, &[pidfd])?;
        let mut told = self.told.borrow_mut();
        told.armed = Survivors::of(pid).map(|remains| (Moment::now(), remains));
        Ok(())
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Err(MechanismError::new(NAME, "the agent follows commands, no process that runs already"))
    }

    fn is_remote(&self) -> bool {
        true
    }
}

impl Members for RemoteJob {
    fn living(&self) -> Vec<ProcessEnd> {
        self.list(&JobRequest::Living)
    }

    fn processes(&mut self) -> Vec<ProcessEnd> {
        self.list(&JobRequest::Processes)
    }

    fn unsettled(&self) -> u64 {
        self.glance_at(&JobRequest::Glance).unsettled
    }

    fn ended_ns(&self) -> Option<u64> {
        self.glance_at(&JobRequest::Glance).ended_ns
    }

    /// With the user's own rights, not the agent's.
    fn signal(&mut self, to: Option<u32>, signals: &[i32]) -> usize {
        signal_members(|| self.living(), to, signals)
    }
}

impl ZombieReader for RemoteJob {
    fn read_zombie(&mut self) -> Result<(), MechanismError> {
        read_until_settled(self)
    }
}

impl Enforcement for RemoteJob {
    fn set_limits(
        &mut self,
        limits: &[(&str, f64, f64)],
        on_limit: OnLimit,
    ) -> Result<Vec<String>, MechanismError> {
        let limits: Vec<_> = limits.iter().map(|(m, l, w)| (m.to_string(), *l, *w)).collect();
        match self.ask(&JobRequest::SetLimits(Limits { limits, on_limit }))? {
            Answer::Limits(taken) => {
                self.told.borrow_mut().has_limits = !taken.is_empty();
                Ok(taken)
            }
            _ => Err(RemoteError::NotUnderstood.into()),
        }
    }

    fn release(&mut self) -> Result<(), MechanismError> {
        self.tell(&JobRequest::Release)
    }

    fn set_ending(&mut self) -> Result<(), MechanismError> {
        self.tell(&JobRequest::SetEnding)
    }

    fn set_killing(&mut self) -> Result<(), MechanismError> {
        self.tell(&JobRequest::SetKilling)
    }
}

impl MemoryBound for RemoteJob {
    fn departures(&self) -> u64 {
        self.glance_at(&JobRequest::Glance).departures
    }

    fn set_unseen(&mut self, bytes: u64, departures: u64) -> Result<(), MechanismError> {
        self.tell(&JobRequest::SetUnseen(UnseenMemory { bytes, departures }))
    }
}

impl OpenCounts for RemoteJob {
    fn take_opens(&mut self, key: &FileKey) -> Option<u64> {
        match self.ask(&JobRequest::TakeOpens(*key)) {
            Ok(Answer::Opens(times)) => times,
            _ => None,
        }
    }
}

impl JobMechanism for RemoteJob {
    fn enforcement(&mut self) -> Option<&mut dyn Enforcement> {
        Some(self)
    }

    fn memory_bound(&mut self) -> Option<&mut dyn MemoryBound> {
        Some(self)
    }

    fn zombie_reader(&mut self) -> Option<&mut dyn ZombieReader> {
        Some(self)
    }

    fn open_counts(&mut self) -> Result<&mut dyn OpenCounts, String> {
        if self.open_counts.is_none() {
            let answer = self.ask(&JobRequest::CountsOpens).map(drop);
            self.open_counts = Some(answer.map_err(|error| match error {
                RemoteError::Refused(why) => why,
                error => error.to_string(),
            }));
        }
        match &self.open_counts {
            Some(Err(why)) => Err(why.clone()),
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_does_not_answer_has_not_gone() {
        let (here, _there) = UnixStream::pair().expect("two ends");
        here.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket");
        let error = io::Read::read(&mut &here, &mut [0]).expect_err("nobody has written");
        assert_eq!(RemoteError::lost(error).to_string(), "the agent has not answered for 20 s");
        let gone = RemoteError::lost(io::Error::from(io::ErrorKind::BrokenPipe)).to_string();
        assert!(gone.starts_with("the agent has gone"), "{gone}");
    }
}
