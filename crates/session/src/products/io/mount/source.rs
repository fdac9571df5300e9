//! Who tells of a mount: weigh that serves it, or BPF where the kernel passes reads and writes through.
//!
//! Reads the mount's accounts, or all calls on its files by BPF; emits one `FileMechanism`. Refuses a mechanism that was
//! asked for by name and does not work.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, getrlimit};
use weigh_collect::follow::{Attachment, FileEvents, FileMechanism, FileState, MechanismError};
use weigh_collect::io::{FileSystem, KernelIo, RowScope, Telling};
use weigh_mount::{Detail, Mounted, Sight, call_name};
use weigh_schema::io::{Event, FileId, Process, ReportBasis, Tally, Use};

use super::fuse::MountIo;
use super::provenance;
use super::settings::MountMechanism;

/// So long after the last call a page may become dirty: a process gives its memory back after its end was told.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// BPF programs and maps take up to 200 descriptors while they are loaded. Where no more than this may be open, files of
/// the mount need them.
const LEAST_DESCRIPTORS: u64 = 1024;

fn has_room_for_programs() -> bool {
    getrlimit(Resource::Nofile).current.is_none_or(|most| most >= LEAST_DESCRIPTORS)
}

/// What tells of a mount.
pub struct MountSource {
    /// Its updates.
    pub io: Box<dyn FileMechanism>,
    /// What its calls are called.
    pub call_name: fn(u64) -> String,
}

impl MountSource {
    /// The best that was asked for and works here. The command, counted from its beginning, has not begun.
    pub fn open(
        mounted: &Arc<Mounted>,
        at: &Path,
        detail: Detail,
        mechanism: MountMechanism,
    ) -> anyhow::Result<MountSource> {
        let own = || {
            let io = MountIo { mounted: Arc::clone(mounted), each_call: detail.each_call };
            MountSource { io: Box::new(io), call_name }
        };
        mounted.widen();
        if mechanism == MountMechanism::Fuse {
            return Ok(own());
        }
        // The mount has answered then, and so has been told what the kernel can.
        let system = FileSystem::of(at)?;
        let is_passing = mounted.sight() == Sight::Passing;
        if mechanism == MountMechanism::Auto && !(is_passing && has_room_for_programs()) {
            return Ok(own());
        }
        match by_kernel(mounted, &system, detail) {
            Ok(kernel) => {
                mounted.widen();
                Ok(kernel)
            }
            // The table's first line says what is not seen for it.
            Err(_) if mechanism == MountMechanism::Auto => Ok(own()),
            Err(error) => Err(error),
        }
    }
}

fn by_kernel(
    mounted: &Arc<Mounted>,
    system: &FileSystem,
    detail: Detail,
) -> anyhow::Result<MountSource> {
    let telling = if detail.each_call { Telling::Each } else { Telling::Sums };
    let apart = if detail.by_thread { RowScope::Threads } else { RowScope::Processes };
    let kernel = KernelIo::open_file_system(telling, apart, system)
        .context("--mechanism bpf does not work here")?;
    let io = KernelAtMount { kernel, mounted: Arc::clone(mounted) };
    Ok(MountSource { io: Box::new(io), call_name: weigh_collect::io::name })
}

/// The kernel's tracepoints, for files of the mount alone, used by any process.
struct KernelAtMount {
    kernel: KernelIo,
    mounted: Arc<Mounted>,
}

impl FileEvents for KernelAtMount {
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.kernel.wake_fds()
    }

    fn begin(&mut self) {
        self.kernel.begin();
    }

    fn elapsed_ns(&self) -> u64 {
        self.kernel.elapsed_ns()
    }

    fn events(&mut self) -> Vec<Event> {
        self.kernel.events()
    }

    fn forget_names(&mut self, files: &[FileId]) {
        self.kernel.forget_names(files);
    }

    fn tally(&self) -> Tally {
        Tally { living: 0, ..self.kernel.tally() }
    }

    fn grounds(&self) -> ReportBasis {
        let mut grounds = self.kernel.grounds();
        grounds.notes.extend(self.mounted.refused().iter().map(provenance::refused));
        grounds
    }

    fn detach(&mut self) {
        std::thread::sleep(LAST_LOOK);
        self.kernel.detach();
        self.mounted.stop_counting();
    }
}

impl FileState for KernelAtMount {
    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), MechanismError> {
        self.kernel.each_open_use(show)
    }

    fn processes(&self) -> Result<Vec<Process>, MechanismError> {
        self.kernel.processes()
    }

    /// All of the machine are followed, and none is the job's for it.
    fn is_member(&self, _: u32) -> bool {
        false
    }

    fn open_requests(&self) -> Result<Vec<Use>, MechanismError> {
        self.kernel.open_requests()
    }

    fn rest(&self) -> Option<Use> {
        self.kernel.rest()
    }
}

impl FileMechanism for KernelAtMount {
    fn attachment(&mut self) -> Option<&mut dyn Attachment> {
        None
    }
}
