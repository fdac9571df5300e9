//! What counts by file what a job reads and writes, and what follows its writes to devices.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use weigh_schema::call::WrittenFound;
use weigh_schema::io::{Event, FileId, Process, ReportBasis, Tally, Use};

use super::attachment::Attachment;
use super::children::Children;
use super::error::MechanismError;

/// Reads and writes by file, as they come.
pub trait FileEvents {
    /// One of them is readable when much waits to be taken in.
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>>;

    /// The process that was armed is about to begin: times are counted from here.
    fn begin(&mut self) {}

    /// How long the following has gone on, by its own clock.
    fn elapsed_ns(&self) -> u64;

    /// What has come since the last time.
    fn events(&mut self) -> Vec<Event>;

    /// Has the names of these files reported again when they are used again.
    fn forget_names(&mut self, files: &[FileId]);

    /// How much was seen, and lost.
    fn tally(&self) -> Tally;

    /// How far what is reported can be trusted.
    fn grounds(&self) -> ReportBasis;

    /// Stops following: what is kept stays readable.
    fn detach(&mut self);
}

/// What is kept of files and processes until it is over.
pub trait FileState {
    /// Shows what is still kept: files that processes have open.
    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), MechanismError>;

    /// The processes that live.
    fn processes(&self) -> Result<Vec<Process>, MechanismError>;

    /// Whether a process is one that is followed.
    fn is_member(&self, pid: u32) -> bool;

    /// AIO requests whose results were never handed over by a call: as they were asked for.
    fn open_requests(&self) -> Result<Vec<Use>, MechanismError> {
        Ok(Vec::new())
    }

    /// What found no room by file and process, all together.
    fn rest(&self) -> Option<Use> {
        None
    }

    /// What there would be to report if it ended now, and is kept.
    fn events_so_far(&self) -> Vec<Event> {
        Vec::new()
    }
}

/// A mechanism that counts reads and writes by file, and what else it offers.
pub trait FileMechanism: FileEvents + FileState {
    /// Attaches to one job; a mechanism that sees everybody on a file system or a mount does not.
    fn attachment(&mut self) -> Option<&mut dyn Attachment>;

    /// Waits for weigh's children, or has to hear of those that were waited for.
    fn children(&mut self) -> Option<&mut dyn Children> {
        None
    }
}

/// Counts by file in the course of following a job.
pub trait FileCounts {
    /// What is counted, where the mechanism was opened to count.
    fn counted(&self) -> Option<Box<dyn FileMechanism>>;

    /// Has a library count in the command's programs, as far as that can be in them, and only in the others this
    /// mechanism: before the job begins. None if this cannot be done beside such a library.
    fn count_beside_library(
        &mut self,
        command: &OsStr,
    ) -> Result<Option<Box<dyn FileMechanism>>, MechanismError>;
}

/// Follows what a job writes to devices, page by page.
pub trait PageWrites: Attachment {
    /// Follows no longer, and tells what was found.
    fn found(&mut self) -> Result<WrittenFound, MechanismError>;
}
