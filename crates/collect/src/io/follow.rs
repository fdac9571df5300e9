//! The kernel side as a mechanism that counts by file, and how far its numbers can be trusted.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use weigh_schema::Quality;
use weigh_schema::io::{Event, FileId, Process, ReportBasis, Tally, Trust, Use};

use super::KernelIo;
use crate::follow::{
    Attachment, FileEvents, FileMechanism, FileState, MechanismError, RunningAttachment,
};

impl FileEvents for KernelIo {
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        KernelIo::wake_fds(self).to_vec()
    }

    fn begin(&mut self) {
        KernelIo::begin(self);
    }

    fn elapsed_ns(&self) -> u64 {
        KernelIo::elapsed_ns(self)
    }

    fn events(&mut self) -> Vec<Event> {
        KernelIo::events(self)
    }

    fn forget_names(&mut self, files: &[FileId]) {
        KernelIo::forget_names(self, files);
    }

    fn tally(&self) -> Tally {
        KernelIo::tally(self)
    }

    fn grounds(&self) -> ReportBasis {
        let qualities = qualities(&self.tally());
        ReportBasis { notes: self.missing().to_vec(), qualities, ..ReportBasis::default() }
    }

    fn detach(&mut self) {
        KernelIo::detach(self);
    }
}

impl FileState for KernelIo {
    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), MechanismError> {
        Ok(KernelIo::each_open_use(self, show)?)
    }

    fn processes(&self) -> Result<Vec<Process>, MechanismError> {
        Ok(KernelIo::processes(self)?)
    }

    fn is_member(&self, pid: u32) -> bool {
        KernelIo::is_member(self, pid)
    }

    fn open_requests(&self) -> Result<Vec<Use>, MechanismError> {
        Ok(KernelIo::open_requests(self)?)
    }

    fn rest(&self) -> Option<Use> {
        KernelIo::rest(self)
    }

    fn events_so_far(&self) -> Vec<Event> {
        Vec::new()
    }
}

impl Attachment for KernelIo {
    fn arm(&mut self, _: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        Ok(KernelIo::arm(self, pidfd)?)
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Ok(self)
    }
}

impl RunningAttachment for KernelIo {
    fn join(&mut self, pid: u32) -> Result<(), MechanismError> {
        Ok(KernelIo::join(self, pid)?)
    }
}

impl FileMechanism for KernelIo {
    fn attachment(&mut self) -> Option<&mut dyn Attachment> {
        Some(self)
    }
}

/// What is written by mapped memory: its column has the same name.
pub const MAPPED_WRITTEN: &str = "mapped_written_bytes";
/// The same of what is read.
pub const MAPPED_READ: &str = "mapped_read_bytes";

/// How far the kernel side's numbers can be trusted. What comes into the page cache is told of in any case.
pub fn qualities(tally: &Tally) -> BTreeMap<String, Trust> {
    let known = [(MAPPED_WRITTEN, of_stores(tally)), (MAPPED_READ, of_holes(tally))];
    known.into_iter().filter_map(|(key, trust)| Some((key.to_string(), trust?))).collect()
}

/// Holes are no reads, and nothing tells of which pages they are.
fn of_holes(tally: &Tally) -> Option<Trust> {
    let reason = format!(
        "{} pages are of files with less storage than their size (sparse or compressed): those that are holes were \
         not read",
        tally.sparse_fills
    );
    (tally.sparse_fills > 0).then_some(Trust { quality: Quality::Estimated, reason })
}

/// Into what is mapped shared and writable there are stores that nothing tells of.
fn of_stores(tally: &Tally) -> Option<Trust> {
    let Tally { shared_maps, memory_maps, .. } = *tally;
    let in_memory = match memory_maps {
        0 => String::new(),
        maps => format!(
            "; nothing is seen of what is stored into pages that files of tmpfs have ({maps} of these)"
        ),
    };
    let times = match shared_maps {
        1 => "once".to_string(),
        maps => format!("{maps} times"),
    };
    let reason = format!(
        "files were mapped shared and writable ({times}): stores into pages that were dirty before are not \
         seen{in_memory}"
    );
    (shared_maps > 0).then_some(Trust { quality: Quality::Estimated, reason })
}
