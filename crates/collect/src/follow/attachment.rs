//! How a mechanism gets hold of what it follows: a command before its exec, or a process that runs already.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use super::error::MechanismError;
use crate::call_filter::CallFilter;

/// Whether a mechanism attaches to processes that run already; else why not, as an error goes on after its name.
pub type RunningOffer = Result<(), &'static str>;

/// What a command has to be started with.
#[derive(Default)]
pub struct CommandSetup<'a> {
    /// Variables that its environment has to hold besides weigh's own.
    pub variables: Vec<(OsString, OsString)>,
    /// Folders that were made for its programs: they are weigh's, not the job's.
    pub own_folders: Vec<PathBuf>,
    /// A filter of system calls that it has to put into force before its exec.
    pub filter: Option<&'a CallFilter>,
}

/// Attaches to what is measured.
pub trait Attachment {
    /// What the command has to be started with.
    fn command_setup(&self) -> CommandSetup<'_> {
        CommandSetup::default()
    }

    /// Attaches to a process that waits to execute the command.
    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError>;

    /// Attaches to processes that run already; else why not.
    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError>;

    /// Whether another process does the work, so that this one's CPU time does not tell what it costs.
    fn is_remote(&self) -> bool {
        false
    }
}

/// Attaches to a process that runs already.
pub trait RunningAttachment {
    /// Follows from now on all of its threads, and what it starts.
    fn join(&mut self, pid: u32) -> Result<(), MechanismError>;
}
