//! A command that runs in the foreground, with weigh in between: signals reach it once, the shell's
//! job control works, and how it ended is how weigh ends.
//!
//! Reads the signals sent to weigh and the changes of its child; emits the child's status.

pub mod command;

use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, waitpid};
use weigh_collect::signals::{self, Received, SignalReader};
use weigh_collect::spawn::{SignalMask, SpawnError, Waiting, With, spawn_with};
use weigh_collect::{cpu_limit, message, notice};

/// How a shell's job control stops a command.
pub const JOB_CONTROL: [i32; 3] = [20, 21, 22]; // TSTP TTIN TTOU
/// Signals end a wait: this is how long one takes at most, and says nothing to anybody.
const PAUSE: Duration = Duration::from_secs(60);

/// Waits for the command, if there is one that has not ended, and says how it ended. What was measured until then is
/// told before: a command that goes on when the time of `--for` is over may do so for days.
pub type Rest = Box<dyn FnOnce() -> anyhow::Result<Option<ExitStatus>>>;

/// What is needed before a command can be started.
pub struct Foreground {
    mask: SignalMask,
    signals: SignalReader,
}

/// A command that was started, or nothing but the wait for a signal.
pub struct Started {
    signals: SignalReader,
    child: Option<(Pid, OwnedFd)>,
    status: Option<ExitStatus>,
    interrupted: bool,
    is_short_of_cpu: bool,
}

/// Blocks the signals that weigh takes for itself, and reads them from now on: a notice that its own CPU time is nearly
/// used up is among them.
pub fn take_signals(hears_of_children: bool) -> anyhow::Result<(SignalMask, SignalReader)> {
    let taken = signals::taken(hears_of_children);
    let mask = SignalMask::block(&taken).context("cannot block signals")?;
    let signals = SignalReader::new(&taken).context("cannot read signals")?;
    cpu_limit::give_notice();
    Ok((mask, signals))
}

impl Foreground {
    /// Takes charge of the signals.
    pub fn prepare() -> anyhow::Result<Foreground> {
        let (mask, signals) = take_signals(true)?;
        Ok(Foreground { mask, signals })
    }

    /// Starts the command, with variables besides weigh's own environment; `arm` is called when it
    /// exists and has not executed anything.
    pub fn start(
        self,
        command: &[OsString],
        variables: &[(OsString, OsString)],
        arm: impl FnOnce(&Waiting) -> anyhow::Result<()>,
    ) -> anyhow::Result<Result<Started, SpawnError>> {
        self.start_with(command, &With { variables, ..With::default() }, arm)
    }

    /// The same, with all that it can be given.
    pub fn start_with(
        self,
        command: &[OsString],
        with: &With<'_>,
        arm: impl FnOnce(&Waiting) -> anyhow::Result<()>,
    ) -> anyhow::Result<Result<Started, SpawnError>> {
        let waiting = match spawn_with(command, &self.mask, with) {
            Ok(waiting) => waiting,
            Err(error) => return Ok(Err(error)),
        };
        // What was said stands before what the command writes.
        message::settle();
        arm(&waiting)?;
        let child = match waiting.go() {
            Ok(child) => Some(child),
            Err(error) => return Ok(Err(error)),
        };
        child.iter().for_each(|(pid, _)| command::has_begun(*pid));
        Ok(Ok(Started {
            signals: self.signals,
            child,
            status: None,
            interrupted: false,
            is_short_of_cpu: false,
        }))
    }

    /// Starts nothing: what is followed runs already.
    pub fn stay(self) -> Started {
        Started {
            signals: self.signals,
            child: None,
            status: None,
            interrupted: false,
            is_short_of_cpu: false,
        }
    }
}

impl Started {
    /// Waits until something has happened, one of the descriptors is ready, or it is time.
    pub fn wait(&self, until: Instant, also: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        let timeout = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(also.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("waiting for events"),
        }
    }

    /// Passes on what was sent to weigh, and takes note of how the command does. `is_of_job` says
    /// whether a process is the job's: what it sends to its own group has reached the command.
    pub fn attend(&mut self, is_of_job: &dyn Fn(u32) -> bool) -> anyhow::Result<()> {
        self.pass_signals_on(is_of_job);
        let Some(pid) = self.child.as_ref().map(|(pid, _)| *pid) else { return Ok(()) };
        while self.status.is_none() {
            let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
            match waitpid(Some(pid), options) {
                Ok(None) => break,
                Ok(Some((_, status))) => self.changed(ExitStatus::from_raw(status.as_raw())),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for the command"),
            }
        }
        Ok(())
    }

    /// Passes on what was sent to weigh, and nothing else: whoever follows the job waits for the command.
    pub fn pass_signals_on(&mut self, is_of_job: &dyn Fn(u32) -> bool) {
        while let Some(received) = self.signals.receive() {
            self.pass_on(received, is_of_job);
        }
    }

    /// A child has ended or stopped, as whoever follows the job was told.
    pub fn child_changed(&mut self, pid: Pid, status: ExitStatus) {
        if self.child.as_ref().is_some_and(|(child, _)| *child == pid) && self.status.is_none() {
            self.changed(status);
        }
    }

    fn changed(&mut self, status: ExitStatus) {
        match status.stopped_signal() {
            None => {
                command::has_ended(status);
                self.status = Some(status);
            }
            // Stopped as a shell's job is: stop too, so that the shell has its terminal back.
            Some(signal) if JOB_CONTROL.contains(&signal) => signals::stop_self(),
            Some(_) => {}
        }
    }

    fn pass_on(&mut self, received: Received, is_of_job: &dyn Fn(u32) -> bool) {
        if received.is_cpu_notice() && !self.is_short_of_cpu {
            self.is_short_of_cpu = true;
            notice!("{}; the command goes on", why_measuring_stopped());
        }
        match self.child.as_ref().filter(|_| self.status.is_none()) {
            None => self.interrupted |= received.is_ending(),
            Some((_, pidfd)) if received.is_for_command(is_of_job) => {
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
    ) -> anyhow::Result<Option<ExitStatus>> {
        while !self.is_reaped() {
            self.wait(Instant::now() + PAUSE, &[])?;
            self.attend(is_of_job)?;
        }
        Ok(self.status)
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

    /// Whether somebody asked weigh to stop when there was no command to hand that on to.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Why weigh has to stop measuring before its time, if it has to: what is left of its own CPU time is for the end.
    pub fn why_to_stop(&self) -> Option<String> {
        self.is_short_of_cpu.then(why_measuring_stopped)
    }

    /// That has been seen to: asked from now on means asked once more.
    pub fn heed(&mut self) {
        self.interrupted = false;
    }
}

/// For people: that weigh lives under a limit that was meant for the command.
pub fn why_measuring_stopped() -> String {
    let seconds = cpu_limit::limit().unwrap_or_default().as_secs();
    format!("measuring stopped: weigh's own CPU time came near its limit (ulimit -t {seconds})")
}

/// Waits for the command in any case, and ends like it if `told` is no error.
pub fn end_with(rest: Rest, told: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    let status = rest();
    told?;
    Ok(status?.map_or(ExitCode::SUCCESS, end_like))
}

/// There is nothing to follow of a process that has ended: nobody would ever say that it does.
pub fn must_run(pid: u32) -> anyhow::Result<()> {
    if weigh_collect::host::has_ended(pid) {
        anyhow::bail!(
            "--pid {pid}: process {pid} has ended: it is a zombie, which its parent has not waited for"
        );
    }
    Ok(())
}

/// How weigh ends when the command has ended so: by the same signal, or with the same code.
pub fn end_like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        signals::die_by(signal);
        return ExitCode::from(128u8.wrapping_add(signal as u8));
    }
    ExitCode::from(status.code().unwrap_or(0) as u8)
}
