//! Reads and writes as a library in the job's programs counts them: without any rights.
//!
//! Emits the same as the kernel side, and how far it can be trusted: what the kernel's own counters have
//! more of was made past the library. Refuses processes that run already.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::ExitStatus;
use std::rc::Rc;

use rustix::process::Pid;
use weigh_schema::io::{Event, FileId, Process, ReportBasis, Tally, Use};

use crate::follow::{
    Attachment, Children, CommandSetup, FileCounts, FileEvents, FileMechanism, FileState,
    JobReader as _, MechanismError, Members as _, RunningAttachment,
};
use crate::preload::{
    CheckedCounts, Level, LibraryEntry, PreloadError, PreloadedJob, SharedJob, Witnessed,
};

/// What the library counts; and the job, unless somebody else follows it.
pub struct LibraryIo {
    counted: CheckedCounts,
    job: Option<SharedJob>,
}

impl LibraryIo {
    /// Puts the library where the command's programs find it.
    pub fn open(command: &OsStr) -> Result<LibraryIo, PreloadError> {
        let job = PreloadedJob::open(Level::Files, command, Path::new("."))?;
        let counted = job.usage_counts().ok_or(PreloadError::CountsNothing)?;
        Ok(LibraryIo { counted, job: Some(Rc::new(RefCell::new(job))) })
    }

    /// Has somebody else count in programs that the library is not in.
    pub(super) fn let_others_count(&mut self, in_process: impl Fn(u32) -> bool + 'static) {
        if let Some(job) = &self.job {
            job.borrow_mut().let_others_count(in_process);
        }
    }

    /// Where programs find the library.
    pub(super) fn entry(&self) -> Result<LibraryEntry, PreloadError> {
        let job = self.job.as_ref().ok_or(PreloadError::CountsNothing)?;
        Ok(job.borrow().entry())
    }

    /// The job, unless somebody else follows it.
    pub(super) fn job(&self) -> Option<SharedJob> {
        self.job.clone()
    }

    /// How far it can be trusted, where somebody else has counted that much.
    pub(super) fn grounds_beside(&self, others: &Witnessed) -> ReportBasis {
        self.counted.grounds_beside(others)
    }

    /// Times are counted from this moment of the monotonic clock.
    pub(super) fn begin_at(&self, began_ns: u64) {
        self.counted.begin_at(began_ns);
    }

    /// Of a job that somebody else follows.
    pub fn of(counted: CheckedCounts) -> LibraryIo {
        LibraryIo { counted, job: None }
    }
}

impl FileEvents for LibraryIo {
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn elapsed_ns(&self) -> u64 {
        self.counted.elapsed_ns()
    }

    fn events(&mut self) -> Vec<Event> {
        // The job's follower reports its processes; here they come from the counts.
        self.job.iter().for_each(|job| drop(job.borrow_mut().events()));
        self.counted.events()
    }

    fn forget_names(&mut self, files: &[FileId]) {
        self.counted.forget_names(files);
    }

    fn tally(&self) -> Tally {
        self.counted.tally()
    }

    fn grounds(&self) -> ReportBasis {
        self.counted.grounds()
    }

    fn detach(&mut self) {
        if let Some(job) = &self.job {
            // A look that fails leaves the last one standing.
            let _ = job.borrow_mut().read();
        }
    }
}

impl FileState for LibraryIo {
    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), MechanismError> {
        self.counted.each_open_use(show);
        Ok(())
    }

    fn processes(&self) -> Result<Vec<Process>, MechanismError> {
        Ok(self.counted.living())
    }

    fn is_member(&self, pid: u32) -> bool {
        let is_living = |job: &SharedJob| job.borrow().living().iter().any(|p| p.pid == pid);
        self.job.as_ref().is_some_and(is_living)
    }

    fn rest(&self) -> Option<Use> {
        self.counted.rest()
    }
}

impl Attachment for LibraryIo {
    fn command_setup(&self) -> CommandSetup<'_> {
        let variables = self.job.as_ref().map(|job| job.borrow().variables());
        CommandSetup { variables: variables.unwrap_or_default(), ..CommandSetup::default() }
    }

    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        self.job.as_ref().map_or(Ok(()), |job| job.borrow_mut().arm(pid, pidfd))
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Err(PreloadError::RunsAlready.into())
    }
}

impl Children for LibraryIo {
    fn next_child(&mut self) -> io::Result<Option<(Pid, ExitStatus)>> {
        match &self.job {
            Some(job) => job.borrow_mut().next_child(),
            None => Ok(None),
        }
    }
}

impl FileMechanism for LibraryIo {
    fn attachment(&mut self) -> Option<&mut dyn Attachment> {
        Some(self)
    }

    fn children(&mut self) -> Option<&mut dyn Children> {
        Some(self)
    }
}

impl FileCounts for PreloadedJob {
    fn counted(&self) -> Option<Box<dyn FileMechanism>> {
        Some(Box::new(LibraryIo::of(self.usage_counts()?)))
    }

    fn count_beside_library(
        &mut self,
        _command: &OsStr,
    ) -> Result<Option<Box<dyn FileMechanism>>, MechanismError> {
        Ok(None)
    }
}
