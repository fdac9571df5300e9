//! A mount as one who tells of reads and writes, like the kernel side and the library in the programs.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weigh_collect::follow::FollowError;
use weigh_collect::io::FollowIo;
use weigh_mount::Mounted;
use weigh_schema::io::{Event, FileId, Grounds, Process, Tally, Use};

use super::provenance;

/// It tells of everybody who uses the mount, whomever it is told to follow.
pub struct MountIo {
    /// The mount.
    pub mounted: Arc<Mounted>,
    /// Whether each call is told.
    pub each_call: bool,
}

impl FollowIo for MountIo {
    fn arm(&mut self, _: u32, _: BorrowedFd<'_>) -> Result<(), FollowError> {
        Ok(())
    }

    fn join(&mut self, _: u32) -> Result<(), FollowError> {
        Ok(())
    }

    fn is_member(&self, _: u32) -> bool {
        false
    }

    fn events(&mut self) -> Vec<Event> {
        self.mounted.events()
    }

    fn events_so_far(&self) -> Vec<Event> {
        self.mounted.so_far()
    }

    fn each_open_use(&self, _: &mut dyn FnMut(Use)) -> Result<(), FollowError> {
        Ok(())
    }

    fn processes(&self) -> Result<Vec<Process>, FollowError> {
        Ok(Vec::new())
    }

    fn rest(&self) -> Option<Use> {
        None
    }

    fn forget_names(&mut self, files: &[FileId]) {
        self.mounted.forget_names(files);
    }

    fn elapsed_ns(&self) -> u64 {
        self.mounted.elapsed_ns()
    }

    fn tally(&self) -> Tally {
        Tally { untold: self.mounted.untold(), ..Tally::default() }
    }

    fn grounds(&self) -> Grounds {
        let sight = self.mounted.sight();
        let grounds = provenance::grounds(sight);
        let refused = self.mounted.refused();
        let calls = provenance::calls_without_rows(sight).filter(|_| self.each_call);
        let notes = refused.iter().map(provenance::refused).chain(calls.map(str::to_string));
        Grounds { notes: notes.collect(), ..grounds }
    }

    fn detach(&mut self) {
        self.mounted.stop_counting();
    }
}
