//! The processes that follow jobs and events for users: how many, and whose.
//!
//! Each is weigh again, with the agent's rights: it keeps nothing of another user's, and its end takes
//! everything of its job out of the kernel.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use weigh_schema::library::STREAMS_OF_A_USER;

use super::serve::{SESSION, STREAM};
use crate::process::Peer;

/// Each costs every process of the machine a little, at each fork, exec and page fault, and some 30 MiB.
const OF_ALL: usize = 32;
const OF_A_USER: usize = 8;

/// What one is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It follows a job.
    Job,
    /// It attaches probes.
    Events,
}

impl Task {
    fn word(self) -> &'static str {
        match self {
            Task::Job => SESSION,
            Task::Events => STREAM,
        }
    }
}

/// What follows jobs.
#[derive(Default)]
pub struct Sessions {
    running: BTreeMap<u64, Session>,
    last_key: u64,
}

struct Session {
    process: Child,
    pidfd: OwnedFd,
    uid: u32,
    task: Task,
}

impl Sessions {
    /// Whether a user may have one more.
    pub fn has_room(&self, uid: u32, task: Task) -> bool {
        let of_user = || self.running.values().filter(|session| session.uid == uid);
        let is_full = task == Task::Events
            && of_user().filter(|session| session.task == task).count() >= STREAMS_OF_A_USER;
        self.running.len() < OF_ALL && of_user().count() < OF_A_USER && !is_full
    }

    /// Starts one. Gives its key, a descriptor that tells of its end, and the user's end of the
    /// stream.
    pub fn start(
        &mut self,
        peer: Peer,
        process: BorrowedFd<'_>,
        task: Task,
    ) -> io::Result<(u64, BorrowedFd<'_>, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = Command::new("/proc/self/exe")
            .arg(task.word())
            .args([peer.pid.to_string(), peer.uid.to_string()])
            .stdin(Stdio::from(OwnedFd::from(ours)))
            .stdout(Stdio::from(process.try_clone_to_owned()?))
            .spawn()?;
        let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::NotFound)?;
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error.into());
            }
        };
        self.last_key += 1;
        let key = self.last_key;
        let session = Session { process: child, pidfd, uid: peer.uid, task };
        let session = self.running.entry(key).or_insert(session);
        Ok((key, session.pidfd.as_fd(), theirs.into()))
    }

    /// One has ended, or is to.
    pub fn end(&mut self, key: u64) {
        self.running.remove(&key);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
