//! The user's side: a job of which the agent follows what it writes to devices.
//!
//! Reads answers from a stream; emits what the kernel side itself would. If the agent is lost nothing is known.

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use weigh_collect::follow::{Attachment, MechanismError, PageWrites, RunningAttachment};
use weigh_schema::call::WrittenFound;
use weigh_schema::library::Followed;

use super::wire::{Ask, Tell};
use crate::follow::remote::{PATIENCE, RemoteError, session_for};
use crate::follow::wire::{self, MOST_ASKED, VERSION};

/// A job of which the agent tells what it has written.
pub struct RemoteWrites(UnixStream);

impl RemoteWrites {
    /// Has the agent that listens there get ready to follow.
    pub fn open(path: &Path) -> Result<RemoteWrites, RemoteError> {
        let stream = session_for(path, Followed::Writes)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(RemoteError::Gone)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(RemoteError::Gone)?;
        let remote = RemoteWrites(stream);
        remote.done(&Ask::Open { version: VERSION }, None)?;
        Ok(remote)
    }

    fn ask(&self, ask: &Ask, with: Option<BorrowedFd<'_>>) -> Result<Tell, RemoteError> {
        match wire::converse(&self.0, ask, with, MOST_ASKED).map_err(RemoteError::lost)? {
            (Tell::Refused(why), _) => Err(RemoteError::Refused(why)),
            (told, _) => Ok(told),
        }
    }

    fn done(&self, ask: &Ask, with: Option<BorrowedFd<'_>>) -> Result<(), RemoteError> {
        match self.ask(ask, with)? {
            Tell::Done => Ok(()),
            _ => Err(RemoteError::NotUnderstood),
        }
    }
}

impl Attachment for RemoteWrites {
    fn arm(&mut self, _pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        Ok(self.done(&Ask::Arm, Some(pidfd))?)
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
        match self.ask(&Ask::Found, None)? {
            Tell::Found(found) => Ok(found),
            _ => Err(RemoteError::NotUnderstood.into()),
        }
    }
}
