//! The processes of a job, and signals to them.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weigh_schema::event::ProcessEnd;
use weigh_schema::summary::Sender;

use super::error::MechanismError;
use super::job_reader::JobReader;

/// How long a command may take to leave its CPU after its end, before the kernel's own end of it is waited for.
const ZOMBIE_READ: Duration = Duration::from_millis(2);

/// Knows the processes of the job.
pub trait Members {
    /// The processes that are alive.
    fn living(&self) -> Vec<ProcessEnd>;

    /// The processes whose end no event has told of: living ones, and ended ones that nobody has reaped.
    fn processes(&mut self) -> Vec<ProcessEnd>;

    /// Threads whose last accounting is still to come.
    fn unsettled(&self) -> u64;

    /// When the last process ended, if none is left and that is known: nanoseconds since the start.
    fn ended_ns(&self) -> Option<u64> {
        None
    }

    /// Sends signals to every living process of the job, or to one if it is still of the job.
    /// Returns how many processes were reached.
    fn signal(&mut self, to: Option<u32>, signals: &[i32]) -> usize;

    /// The last signal that would end this process of the job, and who sent it, where that was seen.
    fn sender(&self, _pid: u32) -> Option<(i32, Sender)> {
        None
    }
}

/// Reads a command that has ended before it is waited for, because what is known of it is gone after that.
pub trait ZombieReader {
    /// The command has ended, and is about to be reaped.
    fn read_zombie(&mut self) -> Result<(), MechanismError>;
}

/// Reads an ended command that the kernel follows. What it has used is final once it has left its CPU, in a moment, and is
/// settled by a tick until it is waited for; after that only when the kernel frees it, a grace period later.
pub fn read_until_settled(job: &mut (impl JobReader + Members)) -> Result<(), MechanismError> {
    let (unsettled, until) = (job.unsettled(), Instant::now() + ZOMBIE_READ);
    loop {
        job.read()?;
        if job.unsettled() < unsettled || Instant::now() >= until {
            return Ok(());
        }
        std::thread::sleep(ZOMBIE_READ / 20);
    }
}

/// Sends signals to every process of a job, or to one, if it is still of the job after a descriptor
/// for it was opened: then its PID cannot have been given to another before. Returns how many got
/// all of them.
pub fn signal_members(
    living: impl Fn() -> Vec<ProcessEnd>,
    to: Option<u32>,
    signals: &[i32],
) -> usize {
    // The oldest first: a process that waits for others hears of it before they are gone.
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
