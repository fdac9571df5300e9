//! A mount as one who tells of reads and writes, like the kernel side and the library in the programs.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weigh_collect::follow::{Attachment, FileEvents, FileMechanism, FileState, MechanismError};
use weigh_mount::Mounted;
use weigh_schema::io::{Event, FileId, Process, ReportBasis, Tally, Use};

use super::provenance;

/// It tells of everybody who uses the mount, whomever it is told to follow.
pub struct MountIo {
    /// The mount.
    pub mounted: Arc<Mounted>,
    /// Whether each call is told.
    pub each_call: bool,
}

impl FileEvents for MountIo {
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn elapsed_ns(&self) -> u64 {
        self.mounted.elapsed_ns()
    }

    fn events(&mut self) -> Vec<Event> {
        self.mounted.events()
    }

    fn forget_names(&mut self, files: &[FileId]) {
        self.mounted.forget_names(files);
    }

    fn tally(&self) -> Tally {
        Tally { untold: self.mounted.untold(), ..Tally::default() }
    }

    fn grounds(&self) -> ReportBasis {
        let sight = self.mounted.sight();
        let grounds = provenance::grounds(sight);
        let refused = self.mounted.refused();
        let calls = provenance::calls_without_rows(sight).filter(|_| self.each_call);
        let notes = refused.iter().map(provenance::refused).chain(calls.map(str::to_string));
        ReportBasis { notes: notes.collect(), ..grounds }
    }

    fn detach(&mut self) {
        self.mounted.stop_counting();
    }
}

impl FileState for MountIo {
    fn each_open_use(&self, _: &mut dyn FnMut(Use)) -> Result<(), MechanismError> {
        Ok(())
    }

    fn processes(&self) -> Result<Vec<Process>, MechanismError> {
        Ok(Vec::new())
    }

    fn is_member(&self, _: u32) -> bool {
        false
    }

    fn events_so_far(&self) -> Vec<Event> {
        self.mounted.so_far()
    }
}

impl FileMechanism for MountIo {
    fn attachment(&mut self) -> Option<&mut dyn Attachment> {
        None
    }
}
