//! The user's side: a job of which the agent follows what it writes to devices.
//!
//! Reads answers from a stream; emits what the kernel side itself would. If the agent is lost nothing is known.

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use weigh_collect::follow::{Attachment, MechanismError, PageWrites, RunningAttachment};
use weigh_schema::call::WrittenFound;
use weigh_schema::library::Followed;
use weigh_wire::{Answer, WriteRequest};

use crate::follow::remote::{RemoteError, ask, session_for};

/// A job of which the agent tells what it has written.
pub struct RemoteWrites(UnixStream);

impl RemoteWrites {
    /// Has the agent that listens there get ready to follow.
    pub fn open(path: &Path) -> Result<RemoteWrites, RemoteError> {
        let remote = RemoteWrites(session_for(path, Followed::Writes)?);
        remote.done(&WriteRequest::Open, &[])?;
        Ok(remote)
    }

    fn done(&self, request: &WriteRequest, with: &[BorrowedFd<'_>]) -> Result<(), RemoteError> {
        match ask(&self.0, request, with)?.0 {
            Answer::Done => Ok(()),
            _ => Err(RemoteError::NotUnderstood),
        }
    }
}

impl Attachment for RemoteWrites {
    fn arm(&mut self, _pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        Ok(self.done(&WriteRequest::Arm, &[pidfd])?)
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Err(MechanismError::new("agent", "it follows the writes of commands alone"))
    }

    fn is_remote(&self) -> bool {
        true
    }
}

impl PageWrites for RemoteWrites {
    fn found(&mut self) -> Result<WrittenFound, MechanismError> {
        match ask(&self.0, &WriteRequest::Found, &[])?.0 {
            Answer::Found(found) => Ok(found),
            _ => Err(RemoteError::NotUnderstood.into()),
        }
    }
}
