//! The command once it has begun: from then on its status is weigh's, whatever becomes of what was measured.
//!
//! Reads what those say who start it and wait for it; emits the status with which weigh ends in spite of an error.

use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use weigh_collect::{cpu_limit, last_resort, signals};

use super::taken_signals::{JOB_CONTROL, end_like, take_signals};

/// What is known of it.
#[derive(Clone, Copy)]
struct Command {
    pid: Pid,
    status: Option<ExitStatus>,
}

/// There is one in a process at most.
static COMMAND: Mutex<(Option<Command>, Requirement)> = Mutex::new((None, Requirement::Status));

/// What weigh ends with when the command has begun and something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requirement {
    /// The command's status.
    Status,
    /// 125, as the user asked for.
    Recording,
}

fn command() -> MutexGuard<'static, (Option<Command>, Requirement)> {
    COMMAND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The user wants 125 where something could not be written.
pub fn require_recording(is_required: bool) {
    command().1 = if is_required { Requirement::Recording } else { Requirement::Status };
}

/// Whether the user wants that.
pub fn is_recording_required() -> bool {
    command().1 == Requirement::Recording
}

/// It executes what it was to.
pub fn has_begun(pid: Pid) {
    command().0 = Some(Command { pid, status: None });
}

/// It has ended.
pub fn has_ended(status: ExitStatus) {
    if let Some(command) = &mut command().0 {
        command.status = Some(status);
        last_resort::has_ended(status);
        cpu_limit::end_in_time(status);
    }
}

/// How weigh ends in spite of an error, which was told: as the command, which is waited for. None if it has not begun,
/// or a recording is required.
pub fn status_in_spite_of_error() -> Option<ExitCode> {
    let (begun, requirement) = *command();
    let Command { pid, status } = begun?;
    let status = status.or_else(|| wait_for(pid))?;
    (requirement == Requirement::Status).then(|| end_like(status))
}

/// Nothing is measured any more: signals are passed on, and job control works, until the command has ended.
fn wait_for(pid: Pid) -> Option<ExitStatus> {
    let (_mask, mut signals) = take_signals(true).ok()?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    loop {
        let mut ready = [PollFd::new(&signals, PollFlags::IN), PollFd::new(&pidfd, PollFlags::IN)];
        let _ = poll(&mut ready, None);
        while let Some(received) = signals.receive() {
            // Who is of the job is not known any more.
            if received.is_for_command(super::number(pid), |_| false) {
                let _ = received.pass_on(pidfd.as_fd());
            }
        }
        match waitpid(Some(pid), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
            Ok(Some((_, status))) => {
                let status = ExitStatus::from_raw(status.as_raw());
                match status.stopped_signal() {
                    None => return Some(status),
                    Some(signal) if JOB_CONTROL.contains(&signal) => signals::stop_self(),
                    Some(_) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one test here that has a command: there is one in a process.
    #[test]
    fn its_status_is_weighs_in_spite_of_an_error() {
        assert!(status_in_spite_of_error().is_none(), "no command has begun");
        let begin = |script| {
            let child = std::process::Command::new("sh").args(["-c", script]).spawn();
            has_begun(Pid::from_child(&child.expect("sh")));
        };
        begin("sleep 0.2; exit 7");
        let code = status_in_spite_of_error().expect("it is waited for");
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(7)));
        begin("exit 7");
        has_ended(ExitStatus::from_raw(5 << 8));
        let code = status_in_spite_of_error().expect("it is known");
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(5)));
        require_recording(true);
        assert!(status_in_spite_of_error().is_none(), "125 was asked for");
    }
}
