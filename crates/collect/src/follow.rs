//! What all mechanisms that follow a job have in common: a process tree, readings, events.
//!
//! Emits [`JobReading`]s and [`Event`]s. A mechanism that does not know a value says so by a
//! [`Note`]; it never leaves a counter at 0 without one.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, wait};
use weigh_schema::Mechanism;
use weigh_schema::event::{CollectorStatus, Event, FileKey, JobReading, Note, ProcessEnd};
use weigh_schema::summary::Sender;

use crate::call_filter::CallFilter;
use crate::io::FollowIo;
use crate::job::JobError;
use crate::poll::PollError;
use crate::preload::PreloadError;
use crate::ptrace::TraceError;

/// What the kernel's own sums of I/O leave out, wherever nothing else counts it.
pub(crate) const NOT_IN_IO: &str = "without what the kernel does not count as reading and writing: send and recv on \
     sockets, io_uring, splice, tee, vmsplice and AIO";

/// What of the optional parts is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Calls and files too (level 3); else the rest is left out whatever it says.
    pub calls: bool,
    /// Sockets: bytes, connections, retransmissions.
    pub network: bool,
    /// Opened files, where function probes work.
    pub files: bool,
    /// Who had a CPU while threads waited for it: each switch between threads of the machine pays for that.
    pub cpu_waits: bool,
    /// That a process which runs already can join the job.
    pub joins: bool,
}

/// How long threads of a job waited for a CPU, by who had that CPU meanwhile, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuWaits {
    /// Threads of the job.
    pub own_ns: u64,
    /// Other threads.
    pub others_ns: u64,
    /// Nobody: a quota was used up, or the CPU was on its way to the thread.
    pub nobody_ns: u64,
    /// Who had it was missed.
    pub unknown_ns: u64,
}

/// What the kernel side does to a process that crosses a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    Not,
    /// It is stopped, and so is whoever grows on.
    Stop,
    /// It is stopped; whoever grows on is killed.
    Kill,
}

/// Why a job can not be followed, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// By the kernel.
    #[error(transparent)]
    Kernel(#[from] JobError),
    /// By looking at `/proc`.
    #[error(transparent)]
    Poll(#[from] PollError),
    /// By ptrace(2).
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// By a library in its programs.
    #[error(transparent)]
    Preload(#[from] PreloadError),
    /// By another process, which does it for weigh.
    #[error(transparent)]
    Elsewhere(Box<dyn std::error::Error + Send + Sync>),
}

/// One who follows a job.
pub trait Follow {
    /// What most values come from.
    fn mechanism(&self) -> Mechanism;

    /// Gets ready to follow a process that waits to execute the command.
    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), FollowError>;

    /// Follows a process that runs already from now on, all of its threads, and what it starts.
    fn join(&mut self, _pid: u32) -> Result<(), FollowError> {
        Err(FollowError::Elsewhere("only BPF follows a process that runs already".into()))
    }

    /// Becomes readable when there is something that should not wait.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When the job has to be looked at again on the follower's own account.
    fn next_look(&self) -> Option<Instant> {
        None
    }

    /// Variables that the command's environment has to hold besides weigh's own.
    fn variables(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// Folders that were made for the command's programs: they are weigh's, not the job's.
    fn own_folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// A filter of system calls that the command has to put into force before its exec.
    fn filter(&self) -> Option<&CallFilter> {
        None
    }

    /// Whether it waits for weigh's children by itself: then nobody else is to be woken by them.
    fn waits_for_children(&self) -> bool {
        false
    }

    /// Whether the command has to be looked at once more before it is waited for, because what is
    /// known of it is gone after that.
    fn is_last_look_due(&self) -> bool {
        false
    }

    /// That look.
    fn last_look(&mut self) -> Result<(), FollowError> {
        self.read().map(drop)
    }

    /// The next child of weigh that has ended or stopped, of whatever process group it is; none if
    /// there is no more now. Whoever waits for children by himself takes away from a tracer what it
    /// waits for.
    fn next_child(&mut self) -> io::Result<Option<(Pid, ExitStatus)>> {
        any_child()
    }

    /// What has happened since the last call, in order.
    fn events(&mut self) -> Vec<Event>;

    /// Brings everything up to date and reads the job.
    fn read(&mut self) -> Result<JobReading, FollowError>;

    /// Whether `read` does its work in another process, so that this one's CPU time does not tell what it costs.
    fn reads_elsewhere(&self) -> bool {
        false
    }

    /// The job as last known, without bringing anything up to date.
    fn glance(&self) -> JobReading;

    /// Threads whose last accounting is still to come.
    fn unsettled(&self) -> u64 {
        0
    }

    /// When the last process ended, if none is left and that is known: nanoseconds since the start.
    fn ended_ns(&self) -> Option<u64> {
        None
    }

    /// The processes that are alive.
    fn living(&self) -> Vec<ProcessEnd>;

    /// The processes whose end was not told of by an event: living ones, and ended ones that
    /// nobody has reaped.
    fn processes(&mut self) -> Vec<ProcessEnd>;

    /// Sends signals to every living process of the job, or to one if it is still of the job.
    /// Returns how many processes were reached.
    fn signal(&mut self, to: Option<u32>, signals: &[i32]) -> usize;

    /// Sets limits and warning marks: (metric, limit, mark). Returns those that the follower
    /// looks after by itself; the others are left to whoever reads the job.
    fn set_limits(
        &mut self,
        _limits: &[(&str, f64, f64)],
        _hold: Hold,
    ) -> Result<Vec<String>, FollowError> {
        Ok(Vec::new())
    }

    /// Address spaces that were given up so far.
    fn departures(&self) -> u64 {
        0
    }

    /// A look at the pages, begun after so many departures, has found so much memory beyond the
    /// lower bound. It is added to it where a limit is checked, until the next departure.
    fn set_unseen(&mut self, _bytes: u64, _departures: u64) -> Result<(), FollowError> {
        Ok(())
    }

    /// From now on nobody is stopped any more.
    fn release(&mut self) -> Result<(), FollowError> {
        Ok(())
    }

    /// From now on whoever grows past a limit is killed, not stopped.
    fn set_ending(&mut self) -> Result<(), FollowError> {
        Ok(())
    }

    /// From now on whoever forks is killed.
    fn set_killing(&mut self) -> Result<(), FollowError> {
        Ok(())
    }

    /// Follows the job no longer, and stops nobody: what is known stays known, and children are still waited for.
    fn let_go(&mut self) {
        let _ = self.release();
    }

    /// How the collectors on this side fare.
    fn statuses(&self) -> Vec<CollectorStatus>;

    /// What is to be said about values that follow from the readings.
    fn notes(&mut self) -> Vec<Note>;

    /// What is counted by file, where that is done by who follows the job.
    fn counted_io(&self) -> Option<Box<dyn FollowIo>> {
        None
    }

    /// Has a library count by file in the command's programs, as far as that can be in them, and only in the others who
    /// follows the job: before the job begins. None if this can not be done beside such a library.
    fn count_beside_library(
        &mut self,
        _command: &OsStr,
    ) -> Result<Option<Box<dyn FollowIo>>, FollowError> {
        Ok(None)
    }

    /// The last signal that would end this process of the job, and who sent it, where that was seen.
    fn sender(&self, _pid: u32) -> Option<(i32, Sender)> {
        None
    }

    /// Who had the CPUs that threads waited for; else why that is not known.
    fn cpu_waits(&self) -> Result<CpuWaits, String> {
        Err("it needs root and BPF".to_string())
    }

    /// Whether every open of a file is counted; else why not.
    fn counts_opens(&self) -> Result<(), String>;

    /// How often a process has opened a file so far; after this it is forgotten.
    fn take_opens(&mut self, _key: &FileKey) -> Option<u64> {
        None
    }

    /// Stops following.
    fn close(self: Box<Self>) {}
}

/// How long a command may take to leave its CPU after its end, before the kernel's own end of it is waited for.
const LAST_LOOK: Duration = Duration::from_millis(2);

/// The last look of those that the kernel follows. What the command has used is final once it has left its CPU, in a
/// moment, and is settled by a tick until it is waited for; after that only when the kernel frees it, a grace period later.
pub fn look_until_settled(job: &mut dyn Follow) -> Result<(), FollowError> {
    let (unsettled, until) = (job.unsettled(), Instant::now() + LAST_LOOK);
    loop {
        job.read()?;
        if job.unsettled() < unsettled || Instant::now() >= until {
            return Ok(());
        }
        std::thread::sleep(LAST_LOOK / 20);
    }
}

/// Sends signals to every process of a job, or to one, if it is still of the job after a descriptor
/// for it was opened: then its PID can not have been given to another before. Returns how many got
/// all of them.
pub fn signal_members(
    living: impl Fn() -> Vec<ProcessEnd>,
    to: Option<u32>,
    signals: &[i32],
) -> usize {
    // The oldest first: who waits for others hears of it before they are gone.
    let mut before = living();
    before.retain(|process| to.is_none_or(|pid| process.pid == pid));
    before.sort_by_key(|process| process.started_ns);
    let opened: Vec<_> = before
        .into_iter()
        .filter_map(|process| {
            let pid = Pid::from_raw(process.pid as i32)?;
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            Some(((process.pid, process.started_ns), pidfd))
        })
        .collect();
    let still: HashSet<_> =
        living().into_iter().map(|process| (process.pid, process.started_ns)).collect();
    let reached = opened.iter().filter(|(process, _)| still.contains(process));
    reached
        .filter(|(_, pidfd)| {
            let reached = |s: &&i32| crate::signals::send(pidfd.as_fd(), **s).is_ok();
            signals.iter().filter(reached).count() == signals.len()
        })
        .count()
}

/// With more processes than that a job is to be stopped.
pub(crate) fn most_processes(limits: &[(&str, f64, f64)], hold: Hold) -> Option<u64> {
    let limit = limits.iter().find(|(metric, ..)| *metric == "processes_peak");
    limit.filter(|_| hold != Hold::Not).map(|(_, most, _)| *most as u64)
}

/// The next child that has changed.
pub(crate) fn any_child() -> io::Result<Option<(Pid, ExitStatus)>> {
    loop {
        match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(changed) => {
                return Ok(changed.map(|(pid, s)| (pid, ExitStatus::from_raw(s.as_raw()))));
            }
            Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
