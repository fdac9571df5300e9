//! Reads and writes as a library in the job's programs counts them: without any rights.
//!
//! Emits the same as the kernel side, and how far it can be trusted: what the kernel's own counters have
//! more of was made past the library. Refuses processes that run already.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;

use weigh_schema::io::{Event, FileId, Grounds, Process, Tally, Use};

use super::FollowIo;
use crate::follow::{Follow, FollowError};
use crate::preload::{Counted, Level, LibraryEntry, PreloadError, PreloadedJob, Witnessed};

/// What the library counts; and the job, unless somebody else follows it.
pub struct LibraryIo {
    counted: Counted,
    job: Option<SharedJob>,
}

/// The job, for who tells of its files and who follows it for more.
pub(crate) type SharedJob = Rc<RefCell<PreloadedJob>>;

impl LibraryIo {
    /// Puts the library where the command's programs find it.
    pub fn open(command: &OsStr) -> Result<LibraryIo, PreloadError> {
        let job = PreloadedJob::open(Level::Files, command, Path::new("."))?;
        let counted = job.counted().ok_or(PreloadError::CountsNothing)?;
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
    pub(super) fn grounds_beside(&self, others: &Witnessed) -> Grounds {
        self.counted.grounds_beside(others)
    }

    /// Times are counted from this moment of the monotonic clock.
    pub(super) fn begin_at(&self, began_ns: u64) {
        self.counted.begin_at(began_ns);
    }

    /// Of a job that somebody else follows.
    pub fn of(counted: Counted) -> LibraryIo {
        LibraryIo { counted, job: None }
    }
}

impl FollowIo for LibraryIo {
    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), FollowError> {
        self.job.as_ref().map_or(Ok(()), |job| job.borrow_mut().arm(pid, pidfd))
    }

    fn join(&mut self, _: u32) -> Result<(), FollowError> {
        Err(PreloadError::RunsAlready.into())
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        self.job.as_ref().map(|job| job.borrow().variables()).unwrap_or_default()
    }

    fn is_member(&self, pid: u32) -> bool {
        let is_living = |job: &SharedJob| job.borrow().living().iter().any(|p| p.pid == pid);
        self.job.as_ref().is_some_and(is_living)
    }

    fn reap(&mut self) {
        if let Some(job) = &self.job {
            while let Ok(Some(_)) = job.borrow_mut().next_child() {}
        }
    }

    fn events(&mut self) -> Vec<Event> {
        // The job's follower reports its processes; here they come from the counts.
        self.job.iter().for_each(|job| drop(job.borrow_mut().events()));
        self.counted.events()
    }

    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), FollowError> {
        self.counted.each_open_use(show);
        Ok(())
    }

    fn processes(&self) -> Result<Vec<Process>, FollowError> {
        Ok(self.counted.living())
    }

    fn rest(&self) -> Option<Use> {
        self.counted.rest()
    }

    fn forget_names(&mut self, files: &[FileId]) {
        self.counted.forget_names(files);
    }

    fn tally(&self) -> Tally {
        self.counted.tally()
    }

    fn grounds(&self) -> Grounds {
        self.counted.grounds()
    }

    fn detach(&mut self) {
        if let Some(job) = &self.job {
            // A look that fails leaves the last one standing.
            let _ = job.borrow_mut().read();
        }
    }
}
