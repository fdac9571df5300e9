//! The side with the rights: follows one job, for one user, in a process of its own, as long as that
//! user's weigh is there.
//!
//! Reads requests from a stream; emits answers. Refuses processes that are not the user's own. It
//! sends no signals: what the kernel side does at a limit it does only to processes that the user may
//! signal.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use weigh_collect::follow::{
    Attachment as _, Enforcement as _, JobDetail, JobMechanism as _, JobReader as _,
    MechanismError, Members as _, MemoryBound as _, OpenCounts as _,
};
use weigh_collect::job::{Enforced, KernelJob};
use weigh_schema::event::Event;
use weigh_schema::library::Followed;
use weigh_wire::messages::{EventBatch, JobParts, JobReport, Limits, UnseenMemory};
use weigh_wire::{Answer, JobRequest, Peer, WireError, receive_request, send};

use super::user::User;
use crate::activity::Notes;
use crate::process::{self, owner_of};
use crate::{files, writes};

/// The first argument of weigh as a session; then come the user's weigh and the user.
pub const SESSION: &str = "--be-session-of-agent";

/// A client that does not complete a request, or leaves an answer unread, is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Events that are kept for the user; what comes on top waits in the kernel side's buffer, and is
/// counted as lost when that is full.
const MOST_EVENTS: usize = 1 << 15;
/// Events of one answer.
const AT_ONCE: usize = 1 << 11;
/// Living processes that come with a reading.
const MOST_LIVING: usize = 256;
/// There are not so many metrics.
const MOST_LIMITS: usize = 256;

/// Whose session this is, and of what, if these arguments say that this weigh is one. Standard input is the stream
/// to the user's weigh, and standard output a descriptor for its process.
pub fn is_session(arguments: impl IntoIterator<Item = OsString>) -> Option<(Peer, Followed)> {
    let mut arguments = arguments.into_iter().skip(1);
    arguments.next().filter(|first| first == SESSION)?;
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    let peer = Peer { pid: number()?, uid: number()?, gid: number()? };
    Some((peer, Followed::numbered(number()?.into())?))
}

/// Serves until the user's weigh has gone. Its stream is standard input; standard output is a
/// descriptor for its process.
pub fn be_session((peer, what): (Peer, Followed)) -> ExitCode {
    process::give_way_to_agent();
    let serve = || -> Result<(), WireError> {
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let process = io::stdout().as_fd().try_clone_to_owned()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let user = User { stream, process, peer, wake, notes: Notes::inherited() };
        match what {
            Followed::Job => {
                Session { user, job: None, events: VecDeque::new(), is_armed: false }.serve()
            }
            Followed::Files => files::serve(user),
            Followed::Writes => writes::serve(user),
            // The server that knows events serves them.
            Followed::Events => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
        }
    };
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        // The client has gone in the middle of something, or sent what cannot be understood.
        Err(_) => ExitCode::FAILURE,
    }
}

struct Session {
    user: User,
    job: Option<KernelJob>,
    events: VecDeque<Event>,
    is_armed: bool,
}

impl Session {
    fn serve(mut self) -> Result<(), WireError> {
        while let Some(is_asked) = self.wait()? {
            self.collect();
            if !is_asked {
                continue;
            }
            let Some((request, mut with)) = receive_request(&self.user.stream)? else { break };
            let answer = self.answer(request, with.pop()).unwrap_or_else(Answer::Refused);
            let wake = (answer == Answer::JobOpened).then(|| self.user.wake.as_fd());
            self.user.notes.note(self.is_armed);
            send(&self.user.stream, &answer, wake.as_slice())?;
        }
        Ok(())
    }

    /// Whether there is a request, or only something to take in; none when the user has gone.
    fn wait(&self) -> io::Result<Option<bool>> {
        let kernel = self.job.as_ref().filter(|_| self.events.len() < MOST_EVENTS);
        let kernel = kernel.and_then(|job| job.wake_fd());
        Ok(self.user.wait(kernel.as_slice())?.map(|ready| ready[0]))
    }

    /// Takes in what the kernel side will not leave to the next request, and wakes the user's weigh.
    fn collect(&mut self) {
        let Some(job) = self.job.as_mut().filter(|_| self.events.len() < MOST_EVENTS) else {
            return;
        };
        let before = self.events.len();
        self.events.extend(job.events());
        if self.events.len() > before {
            let _ = rustix::io::write(&self.user.wake, &1u64.to_ne_bytes());
        }
    }

    fn answer(&mut self, request: JobRequest, with: Option<OwnedFd>) -> Result<Answer, String> {
        if let JobRequest::Open(parts) = request {
            if self.job.is_some() {
                return Err("it is open already".to_string());
            }
            // Before the command is made: then the user's weigh can still do without the agent.
            process::may_ask(self.user.peer).map_err(|refusal| refusal.to_string())?;
            let owner = Some(owner_of(self.user.peer));
            let job = KernelJob::open_for(detail_of(parts), Enforced::default(), owner);
            self.job = Some(job.map_err(|error| error.to_string())?);
            return Ok(Answer::JobOpened);
        }
        let Some(job) = &mut self.job else { return Err("it is not open".to_string()) };
        let done = |result: Result<(), MechanismError>| {
            result.map(|()| Answer::Done).map_err(|error| error.to_string())
        };
        match request {
            JobRequest::Open { .. } => Err("it is open already".to_string()),
            JobRequest::Arm => {
                let Some(pidfd) = with.filter(|_| !self.is_armed) else {
                    return Err("it is armed already, or by nothing".to_string());
                };
                let pid = process::command_of(self.user.peer, pidfd.as_fd())
                    .map_err(|refusal| refusal.to_string())?;
                self.is_armed = true;
                done(job.arm(pid, pidfd.as_fd()))
            }
            JobRequest::Events => {
                let events = self.events.drain(..AT_ONCE.min(self.events.len())).collect();
                let has_more = !self.events.is_empty();
                Ok(Answer::Events(EventBatch { events, has_more }))
            }
            JobRequest::Read => {
                let reading = job.read().map_err(|error| error.to_string())?;
                let mut living = job.living();
                living.truncate(MOST_LIVING);
                Ok(Answer::Job(Box::new(JobReport { reading, living, ..glance(job) })))
            }
            JobRequest::Glance => Ok(Answer::Job(Box::new(glance(job)))),
            JobRequest::Living => Ok(Answer::Processes(job.living())),
            JobRequest::Processes => Ok(Answer::Processes(job.processes())),
            JobRequest::SetLimits(Limits { limits, on_limit }) => {
                let limits: Vec<_> = limits.iter().map(|(m, l, w)| (m.as_str(), *l, *w)).collect();
                let limits = &limits[..MOST_LIMITS.min(limits.len())];
                let taken = job.set_limits(limits, on_limit);
                taken.map(Answer::Limits).map_err(|error| error.to_string())
            }
            JobRequest::SetUnseen(UnseenMemory { bytes, departures }) => {
                done(job.set_unseen(bytes, departures))
            }
            JobRequest::Release => done(job.release()),
            JobRequest::SetEnding => done(job.set_ending()),
            JobRequest::SetKilling => done(job.set_killing()),
            JobRequest::Statuses => Ok(Answer::Statuses(job.statuses())),
            JobRequest::Notes => Ok(Answer::Notes(job.notes())),
            JobRequest::CountsOpens => job.open_counts().map(|_| Answer::Done),
            JobRequest::TakeOpens(key) => Ok(Answer::Opens(job.take_opens(&key))),
        }
    }
}

/// Nothing is put into the way of all switches of the machine for a user, and whose a running process is is not asked
/// here.
fn detail_of(JobParts { calls, network, files }: JobParts) -> JobDetail {
    JobDetail { calls, network, files, cpu_waits: false, joins: false }
}

fn glance(job: &KernelJob) -> JobReport {
    JobReport {
        reading: job.glance(),
        unsettled: job.unsettled(),
        ended_ns: job.ended_ns(),
        departures: job.departures(),
        living: Vec::new(),
    }
}
