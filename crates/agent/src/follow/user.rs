//! Who a session is for.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use weigh_wire::Peer;

use crate::activity::Notes;

/// The user that a session is for.
pub struct User {
    /// Where requests come in.
    pub stream: UnixStream,
    /// The user's weigh.
    pub process: OwnedFd,
    /// The same, by its numbers.
    pub peer: Peer,
    /// Wakes the user's weigh.
    pub wake: OwnedFd,
    /// Where it is noted what is done for the user.
    pub notes: Notes,
}

impl User {
    /// Waits for a request, or until one of these is readable: whether there is a request, and which of them are. None
    /// when the user has gone.
    pub fn wait(&self, others: &[BorrowedFd<'_>]) -> io::Result<Option<Vec<bool>>> {
        let own = [self.process.as_fd(), self.stream.as_fd()];
        let fds = own.iter().chain(others);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        retry_on_intr(|| poll(&mut fds, None))?;
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        Ok(if ready.next() == Some(true) { None } else { Some(ready.collect()) })
    }
}
