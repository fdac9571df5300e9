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

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use weigh_collect::follow::{
    Attachment as _, Enforcement as _, JobMechanism as _, JobReader as _, MechanismError,
    Members as _, MemoryBound as _, OpenCounts as _,
};
use weigh_collect::job::{Enforced, KernelJob};
use weigh_schema::event::Event;

use weigh_schema::library::Followed;

use super::user::User;
use super::wire::{self, Ask, Glimpse, MOST_ASKED, Tell, VERSION};
use crate::activity::Notes;
use crate::process::{self, Peer};
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
    let serve = || -> io::Result<()> {
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
            Followed::Events => Err(io::ErrorKind::Unsupported.into()),
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
    fn serve(mut self) -> io::Result<()> {
        while let Some(is_asked) = self.wait()? {
            self.collect();
            if !is_asked {
                continue;
            }
            let Some((ask, with)) = wire::receive(&self.user.stream, MOST_ASKED)? else { break };
            let opens = matches!(ask, Ask::Open { .. });
            let told = self.answer(ask, with).unwrap_or_else(Tell::Refused);
            let wake = (opens && told == Tell::Done).then(|| self.user.wake.as_fd());
            self.user.notes.note(self.is_armed);
            wire::send(&self.user.stream, &told, wake)?;
        }
        Ok(())
    }

    /// Whether there is a request, or only something to take in; none when the user has gone.
    fn wait(&self) -> io::Result<Option<bool>> {
        let kernel = self.job.as_ref().filter(|_| self.events.len() < MOST_EVENTS);
        let kernel = kernel.and_then(|job| job.wake_fd());
        let mut fds = vec![
            PollFd::new(&self.user.process, PollFlags::IN),
            PollFd::new(&self.user.stream, PollFlags::IN),
        ];
        fds.extend(kernel.iter().map(|kernel| PollFd::new(kernel, PollFlags::IN)));
        loop {
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => break,
            }
        }
        Ok(fds[0].revents().is_empty().then(|| !fds[1].revents().is_empty()))
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

    fn answer(&mut self, ask: Ask, with: Option<OwnedFd>) -> Result<Tell, String> {
        if let Ask::Open { version, wanted } = ask {
            if version != VERSION {
                return Err("the agent is of another version of weigh".to_string());
            }
            if self.job.is_some() {
                return Err("it is open already".to_string());
            }
            // Before the command is made: then the user's weigh can still do without the agent.
            process::may_ask(self.user.peer).map_err(|refusal| refusal.to_string())?;
            let owner = Some(self.user.peer.owner());
            let job = KernelJob::open_for(wanted.into(), Enforced::default(), owner);
            self.job = Some(job.map_err(|error| error.to_string())?);
            return Ok(Tell::Done);
        }
        let Some(job) = &mut self.job else { return Err("it is not open".to_string()) };
        let done = |result: Result<(), MechanismError>| {
            result.map(|()| Tell::Done).map_err(|error| error.to_string())
        };
        match ask {
            Ask::Open { .. } => Err("it is open already".to_string()),
            Ask::Arm => {
                let Some(pidfd) = with.filter(|_| !self.is_armed) else {
                    return Err("it is armed already, or by nothing".to_string());
                };
                let pid = process::command_of(self.user.peer, pidfd.as_fd())
                    .map_err(|refusal| refusal.to_string())?;
                self.is_armed = true;
                done(job.arm(pid, pidfd.as_fd()))
            }
            Ask::Events => {
                let events = self.events.drain(..AT_ONCE.min(self.events.len())).collect();
                Ok(Tell::Events(events, !self.events.is_empty()))
            }
            Ask::Read => {
                let reading = job.read().map_err(|error| error.to_string())?;
                let mut living = job.living();
                living.truncate(MOST_LIVING);
                Ok(Tell::Job(Box::new(Glimpse { reading, ..*glimpse(job) }), living))
            }
            Ask::Glance => Ok(Tell::Job(glimpse(job), Vec::new())),
            Ask::Living => Ok(Tell::Processes(job.living())),
            Ask::Processes => Ok(Tell::Processes(job.processes())),
            Ask::SetLimits(limits, action) => {
                let limits: Vec<_> = limits.iter().map(|(m, l, w)| (m.as_str(), *l, *w)).collect();
                let limits = &limits[..MOST_LIMITS.min(limits.len())];
                let taken = job.set_limits(limits, action.into());
                taken.map(Tell::Taken).map_err(|error| error.to_string())
            }
            Ask::SetUnseen(bytes, departures) => done(job.set_unseen(bytes, departures)),
            Ask::Release => done(job.release()),
            Ask::SetEnding => done(job.set_ending()),
            Ask::SetKilling => done(job.set_killing()),
            Ask::Statuses => Ok(Tell::Statuses(job.statuses())),
            Ask::Notes => Ok(Tell::Notes(job.notes())),
            Ask::CountsOpens => job.open_counts().map(|_| Tell::Done),
            Ask::TakeOpens(key) => Ok(Tell::Times(job.take_opens(&key))),
        }
    }
}

fn glimpse(job: &KernelJob) -> Box<Glimpse> {
    Box::new(Glimpse {
        reading: job.glance(),
        unsettled: job.unsettled(),
        ended_ns: job.ended_ns(),
        departures: job.departures(),
    })
}
