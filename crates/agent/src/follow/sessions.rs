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
use weigh_schema::library::Followed;

use super::serve::SESSION;
use crate::places;
use crate::process::Peer;

/// What follows jobs.
#[derive(Default)]
pub struct Sessions {
    running: BTreeMap<u64, Session>,
    last_key: u64,
}

struct Session {
    process: Child,
    pidfd: OwnedFd,
    user: u32,
    what: Followed,
}

impl Sessions {
    /// Whether a user may have one more.
    pub fn has_room(&self, user: u32, what: Followed) -> bool {
        let alike = self.running.values().filter(|session| session.what == what);
        places::sessions(what).has_room(user, alike.map(|session| session.user))
    }

    /// Starts one. Gives its key, a descriptor that tells of its end, and the user's end of the
    /// stream.
    pub fn start(
        &mut self,
        peer: Peer,
        user: u32,
        what: Followed,
        process: BorrowedFd<'_>,
    ) -> io::Result<(u64, BorrowedFd<'_>, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = Command::new("/proc/self/exe")
            .arg(SESSION)
            .args([peer.pid, peer.uid, peer.gid, what as u32].map(|number| number.to_string()))
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
        let session = Session { process: child, pidfd, user, what };
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
