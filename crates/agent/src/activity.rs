//! Whether a session is of use to anybody: a few bytes that it shares with the server.
//!
//! The session notes each request, and that it follows something. The server reads that when another user finds no
//! place: a session that follows nothing and has asked nothing for long gives up its own.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::time::{ClockId, clock_gettime};

/// A session that has asked nothing for so long, and follows nothing, is idle.
pub const IDLE: Duration = Duration::from_secs(10);

/// What stands there of one who follows something.
const FOLLOWS: u64 = 0;

/// The argument of a session that names its descriptor.
const ARGUMENT: usize = 6;

/// The server's side.
pub struct Activity(File);

impl Activity {
    /// Of a session that begins now. It inherits the descriptor until [`Activity::keep`].
    pub fn new() -> io::Result<Activity> {
        let file = File::from(memfd_create("weigh_activity", MemfdFlags::empty())?);
        note(&file, now_ns())?;
        Ok(Activity(file))
    }

    /// What the session finds it by.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// No other session inherits it.
    pub fn keep(&self) -> io::Result<()> {
        Ok(fcntl_setfd(&self.0, FdFlags::CLOEXEC)?)
    }

    /// As if the last request had come then.
    #[cfg(test)]
    pub fn idle_from(&self, at_ns: u64) {
        note(&self.0, at_ns).unwrap();
    }

    /// Since when it is idle, if it is, on the clock of the machine.
    pub fn idle_since(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 0).ok()?;
        let since = u64::from_ne_bytes(bytes);
        let passed = Duration::from_nanos(now_ns().saturating_sub(since));
        (since != FOLLOWS && passed >= IDLE).then_some(since)
    }
}

/// The session's side.
pub struct Notes(Option<File>);

impl Notes {
    /// Where this session is to note what it does.
    pub fn inherited() -> Notes {
        let open = || {
            let number: i32 = std::env::args().nth(ARGUMENT)?.parse().ok()?;
            let path = format!("/proc/self/fd/{number}");
            let file = File::options().write(true).open(path).ok()?;
            Some(file)
        };
        Notes(open())
    }

    /// A request has come, and it follows something or not.
    pub fn note(&self, follows: bool) {
        let value = if follows { FOLLOWS } else { now_ns() };
        // Without it the session is taken for idle at most.
        let _ = self.0.as_ref().map(|file| note(file, value));
    }
}

fn note(file: &File, value: u64) -> io::Result<()> {
    file.write_all_at(&value.to_ne_bytes(), 0)
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec.unsigned_abs() * 1_000_000_000) + now.tv_nsec.unsigned_abs()
}
