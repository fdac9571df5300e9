//! Waiting for weigh's children, whose ends some mechanisms have to see first.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::{Pid, WaitOptions, wait};

/// Waits for weigh's children in the session's place.
pub trait Children {
    /// Whether no other code may wait: it would take away from a tracer what that waits for.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// The next child that has ended or stopped, of whatever process group it is; none if there is no more now.
    fn next_child(&mut self) -> io::Result<Option<(Pid, ExitStatus)>>;

    /// Waits alone no longer, and stops following what it had to wait for: what is known stays known, and children are
    /// still waited for.
    fn let_go(&mut self) {}
}

/// The next child of weigh that has changed, where no mechanism waits.
pub fn next_child() -> io::Result<Option<(Pid, ExitStatus)>> {
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
