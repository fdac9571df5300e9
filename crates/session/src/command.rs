//! A command that runs in the foreground, with weigh in between: signals reach it once, the shell's
//! job control works, and how it ended is how weigh ends.
//!
//! Reads the signals sent to weigh and the changes of its child; emits the child's status.

pub(crate) mod ending;
mod taken_signals;

use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, waitpid};
use weigh_collect::signals::{self, Received, SignalReader};
use weigh_collect::spawn::{SignalMask, SpawnError, Waiting, With, spawn_with};
use weigh_collect::{cpu_limit, host, message, notice};
use weigh_schema::summary::Sender;

use crate::error::{SessionError, SourceError};
pub use taken_signals::end_like;
use taken_signals::{JOB_CONTROL, take_signals};

/// Signals end a wait: this is how long one takes at most.
const PAUSE: Duration = Duration::from_secs(60);

/// Waits for the command, if there is one that has not ended, and tells how it ended. The report comes before:
/// a command that goes on when the time of `--for` is over may do so for days.
pub type CommandWait = Box<dyn FnOnce() -> Result<Option<ExitStatus>, SessionError>>;

/// Whether a line says that weigh's own CPU time is nearly used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuNotice {
    /// At once.
    AtOnce,
    /// The session says it itself.
    Not,
}

/// What is needed before a command can be started.
pub struct Launcher {
    mask: SignalMask,
    signals: SignalReader,
    cpu_notice: CpuNotice,
}

/// A command whose process exists and has not executed anything.
pub struct PendingCommand {
    /// The process.
    pub waiting: Waiting,
    signals: SignalReader,
    cpu_notice: CpuNotice,
}

/// A command that was started, or nothing but the wait for a signal.
pub struct Command {
    signals: SignalReader,
    child: Option<(Pid, OwnedFd)>,
    status: Option<ExitStatus>,
    ended: Option<Instant>,
    interrupted: bool,
    is_short_of_cpu: bool,
    cpu_notice: CpuNotice,
    /// The last signal that was passed on to it, and its sender.
    passed_on: Option<(i32, Sender)>,
}

impl Launcher {
    /// Takes charge of the signals.
    pub fn prepare() -> Result<Launcher, SessionError> {
        Launcher::prepare_with(true, CpuNotice::AtOnce)
    }

    /// The same, where a source may wait for children by itself.
    pub fn prepare_with(
        hears_of_children: bool,
        cpu_notice: CpuNotice,
    ) -> Result<Launcher, SessionError> {
        let (mask, signals) = take_signals(hears_of_children)?;
        Ok(Launcher { mask, signals, cpu_notice })
    }

    /// Makes the command's process.
    pub fn spawn(
        self,
        command: &[OsString],
        with: &With<'_>,
    ) -> Result<PendingCommand, SpawnError> {
        let waiting = spawn_with(command, &self.mask, with)?;
        Ok(PendingCommand { waiting, signals: self.signals, cpu_notice: self.cpu_notice })
    }

    /// Starts the command, with what it is given besides; `arm` is called when its process exists and has not executed
    /// anything.
    pub fn start<E: Into<SourceError>>(
        self,
        command: &[OsString],
        with: &With<'_>,
        arm: impl FnOnce(&Waiting) -> Result<(), E>,
    ) -> Result<Result<Command, SpawnError>, SessionError> {
        let pending = match self.spawn(command, with) {
            Ok(pending) => pending,
            Err(error @ SpawnError::Create { .. }) => {
                return Err(SessionError::Source(error.into()));
            }
            Err(error) => return Ok(Err(error)),
        };
        // What was said stands before what the command writes.
        message::settle();
        arm(&pending.waiting).map_err(|error| SessionError::Source(error.into()))?;
        Ok(pending.go())
    }

    /// Starts nothing: what is followed runs already.
    pub fn stay(self) -> Command {
        Command::new(self.signals, None, self.cpu_notice)
    }
}

impl PendingCommand {
    /// Lets it execute what it was made for.
    pub fn go(self) -> Result<Command, SpawnError> {
        let child = self.waiting.go()?;
        ending::has_begun(child.0);
        Ok(Command::new(self.signals, Some(child), self.cpu_notice))
    }
}

impl Command {
    fn new(signals: SignalReader, child: Option<(Pid, OwnedFd)>, cpu_notice: CpuNotice) -> Command {
        Command {
            signals,
            child,
            status: None,
            ended: None,
            interrupted: false,
            is_short_of_cpu: false,
            cpu_notice,
            passed_on: None,
        }
    }

    /// Waits until something has happened, one of the descriptors is ready, or it is time.
    pub(crate) fn wait(&self, until: Instant, also: &[BorrowedFd<'_>]) -> Result<(), SessionError> {
        let timeout = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(also.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(SessionError::system("waiting for events", error)),
        }
    }

    pub(crate) fn wait_for_child(&mut self) -> Result<(), SessionError> {
        let Some(pid) = self.pid() else { return Ok(()) };
        while self.status.is_none() {
            match waitpid(Some(pid), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(None) => break,
                Ok(Some((_, status))) => self.changed(ExitStatus::from_raw(status.as_raw()), false),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(SessionError::system("waiting for the command", error)),
            }
        }
        Ok(())
    }

    pub(crate) fn is_zombie(&self) -> bool {
        let Some((_, pidfd)) = &self.child else { return false };
        is_ready(pidfd.as_fd(), PollFlags::IN)
    }

    /// Passes on what was sent to weigh, and nothing else. `is_of_job` says whether a process is the job's.
    pub fn pass_signals_on(&mut self, is_of_job: &dyn Fn(u32) -> bool) {
        while let Some(received) = self.signals.receive() {
            self.pass_on(received, is_of_job);
        }
    }

    pub(crate) fn discard_signals(&mut self) {
        while self.signals.receive().is_some() {}
    }

    pub(crate) fn child_changed(&mut self, pid: Pid, status: ExitStatus, is_held: bool) {
        if self.pid() == Some(pid) && self.status.is_none() {
            self.changed(status, is_held);
        }
    }

    fn changed(&mut self, status: ExitStatus, is_held: bool) {
        match status.stopped_signal() {
            None => {
                ending::has_ended(status);
                self.status = Some(status);
                self.ended = Some(Instant::now());
            }
            // Stopped as a shell's job is: stop too, so that the shell has its terminal back.
            Some(signal) if JOB_CONTROL.contains(&signal) && !is_held => self.stop_with_it(),
            Some(_) => {}
        }
    }

    /// Not where the shell has continued both meanwhile: it would wait for weigh with nothing to wait for.
    fn stop_with_it(&self) {
        let is_still_stopped = |pid: Pid| host::is_stopped(number(pid));
        if self.pid().is_some_and(is_still_stopped) {
            signals::stop_self();
        }
    }

    fn pass_on(&mut self, received: Received, is_of_job: &dyn Fn(u32) -> bool) {
        if received.is_cpu_notice() && !self.is_short_of_cpu {
            self.is_short_of_cpu = true;
            if self.cpu_notice == CpuNotice::AtOnce {
                notice!("{}; the command goes on", why_measuring_stopped());
            }
        }
        match self.child.as_ref().filter(|_| self.status.is_none()) {
            None => self.interrupted |= received.is_ending(),
            Some((pid, pidfd)) if received.is_for_command(number(*pid), is_of_job) => {
                self.passed_on = received.origin().map(|sender| (received.signal, sender));
                let _ = received.pass_on(pidfd.as_fd());
            }
            Some(_) => {}
        }
    }

    /// Nothing is measured any more: waits for the command, if there is one that has not ended, and emits how it
    /// ended.
    pub fn see_to_its_end(
        &mut self,
        is_of_job: &dyn Fn(u32) -> bool,
    ) -> Result<Option<ExitStatus>, SessionError> {
        while !self.is_reaped() {
            self.wait(Instant::now() + PAUSE, &[])?;
            self.pass_signals_on(is_of_job);
            self.wait_for_child()?;
        }
        Ok(self.status)
    }

    /// A source that waited for children does so no longer.
    pub fn wait_for_children_again(&mut self) -> Result<(), SessionError> {
        self.signals = take_signals(true)?.1;
        Ok(())
    }

    /// Its process, if there is a command.
    pub fn pid(&self) -> Option<Pid> {
        self.child.as_ref().map(|(pid, _)| *pid)
    }

    /// Whether there is no command that is still to be waited for. The kernel side knows of a thread's
    /// end a moment before its parent does.
    pub fn is_reaped(&self) -> bool {
        self.child.is_none() || self.status.is_some()
    }

    /// How the command ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// When it was found to have ended.
    pub fn ended(&self) -> Option<Instant> {
        self.ended
    }

    /// The last signal that weigh has passed on to it, and its sender.
    pub fn passed_on(&self) -> Option<(i32, Sender)> {
        self.passed_on.clone()
    }

    /// Whether somebody asked weigh to stop when there was no command to hand that on to.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Whether weigh's own CPU time is nearly used up: what is left is for the end.
    pub fn is_short_of_cpu(&self) -> bool {
        self.is_short_of_cpu
    }

    /// Why weigh has to stop measuring before its time, if it has to.
    pub fn why_to_stop(&self) -> Option<String> {
        self.is_short_of_cpu.then(why_measuring_stopped)
    }

    /// That has been seen to: asked from now on means asked once more.
    pub fn heed(&mut self) {
        self.interrupted = false;
    }
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get() as u32
}

/// Whether one of these events, an error or a hang-up is there now.
pub(crate) fn is_ready(descriptor: BorrowedFd<'_>, events: PollFlags) -> bool {
    let mut fds = [PollFd::new(&descriptor, events)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// For people: that weigh lives under a limit that was meant for the command.
pub fn why_measuring_stopped() -> String {
    let seconds = cpu_limit::limit().unwrap_or_default().as_secs();
    format!("measuring stopped: weigh's own CPU time came near its limit (ulimit -t {seconds})")
}

/// Waits for the command in any case, and ends like it if `reported` is no error.
pub fn end_with<E: From<SessionError>>(
    wait: CommandWait,
    reported: Result<(), E>,
) -> Result<ExitCode, E> {
    let status = wait();
    reported?;
    Ok(status?.map_or(ExitCode::SUCCESS, end_like))
}

/// There is nothing to follow of a process that has ended: nobody would ever say that it does. A thread is followed with
/// all others of its process.
pub fn must_run(pid: u32) -> Result<(), SessionError> {
    let process = weigh_collect::host::process_of_thread(pid).unwrap_or(pid);
    if process != pid {
        return Err(SessionError::IsThread { pid, process });
    }
    match weigh_collect::host::has_ended(pid) {
        true => Err(SessionError::IsZombie { pid }),
        false => Ok(()),
    }
}
