//! What all who tell of a job's reads and writes have in common.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::process::ExitStatus;

use rustix::process::Pid;
use weigh_schema::Quality;
use weigh_schema::io::{Event, FileId, Grounds, Process, Tally, Trust, Use};

use super::KernelIo;
use crate::call_filter::CallFilter;
use crate::follow::FollowError;

/// One who tells of them.
pub trait FollowIo {
    /// This process, which waits for its exec, is followed from then on.
    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), FollowError>;

    /// The process that was armed is about to begin: times are counted from here.
    fn begin(&mut self) {}

    /// A process that runs is followed from now on.
    fn join(&mut self, pid: u32) -> Result<(), FollowError>;

    /// Variables that the command's environment has to hold.
    fn variables(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// A filter of system calls that the command has to put into force before its exec.
    fn filter(&self) -> Option<&CallFilter> {
        None
    }

    /// Whether it waits for weigh's children by itself: then nobody else may.
    fn waits_for_children(&self) -> bool {
        false
    }

    /// Of one that does: the next child of weigh that has ended or stopped.
    fn next_child(&mut self) -> std::io::Result<Option<(Pid, ExitStatus)>> {
        Ok(None)
    }

    /// Whether a process is one that is followed.
    fn is_member(&self, pid: u32) -> bool;

    /// One of them is readable when much waits to be taken in.
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// The command has been waited for: other processes that became weigh's children may be, too.
    fn reap(&mut self) {}

    /// What was told since the last time.
    fn events(&mut self) -> Vec<Event>;

    /// What there would be to tell if it ended now, and is kept.
    fn events_so_far(&self) -> Vec<Event> {
        Vec::new()
    }

    /// Shows what is still kept: files that processes have open.
    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), FollowError>;

    /// The processes that live.
    fn processes(&self) -> Result<Vec<Process>, FollowError>;

    /// AIO requests whose results were never handed over by a call: as they were asked for.
    fn open_requests(&self) -> Result<Vec<Use>, FollowError> {
        Ok(Vec::new())
    }

    /// What found no room by file and process, all together.
    fn rest(&self) -> Option<Use>;

    /// Has the names of these files told again when they are used again.
    fn forget_names(&mut self, files: &[FileId]);

    /// How long the following has gone on, by its own clock.
    fn elapsed_ns(&self) -> u64 {
        0
    }

    /// How much was seen, and lost.
    fn tally(&self) -> Tally;

    /// How far what is told can be trusted.
    fn grounds(&self) -> Grounds;

    /// Stops following: what is kept stays readable.
    fn detach(&mut self);
}

impl FollowIo for KernelIo {
    fn arm(&mut self, _: u32, pidfd: BorrowedFd<'_>) -> Result<(), FollowError> {
        Ok(KernelIo::arm(self, pidfd)?)
    }

    fn begin(&mut self) {
        KernelIo::begin(self);
    }

    fn join(&mut self, pid: u32) -> Result<(), FollowError> {
        Ok(KernelIo::join(self, pid)?)
    }

    fn is_member(&self, pid: u32) -> bool {
        KernelIo::is_member(self, pid)
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        KernelIo::wake_fds(self).to_vec()
    }

    fn events(&mut self) -> Vec<Event> {
        KernelIo::events(self)
    }

    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), FollowError> {
        Ok(KernelIo::each_open_use(self, show)?)
    }

    fn processes(&self) -> Result<Vec<Process>, FollowError> {
        Ok(KernelIo::processes(self)?)
    }

    fn open_requests(&self) -> Result<Vec<Use>, FollowError> {
        Ok(KernelIo::open_requests(self)?)
    }

    fn rest(&self) -> Option<Use> {
        KernelIo::rest(self)
    }

    fn forget_names(&mut self, files: &[FileId]) {
        KernelIo::forget_names(self, files);
    }

    fn elapsed_ns(&self) -> u64 {
        KernelIo::elapsed_ns(self)
    }

    fn tally(&self) -> Tally {
        KernelIo::tally(self)
    }

    fn grounds(&self) -> Grounds {
        let qualities = qualities(&self.tally());
        Grounds { notes: self.missing().to_vec(), qualities, ..Grounds::default() }
    }

    fn detach(&mut self) {
        KernelIo::detach(self);
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
