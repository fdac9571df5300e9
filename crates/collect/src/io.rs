//! Follows what a job reads and writes in the kernel, by file and process.
//!
//! Loads the programs of `bpf/io.bpf.c`, attaches them while somebody asks, and reads what they keep.
//! Emits [`Event`]s as processes are done with files, and at any time what they still hold open. Refuses
//! to start where calls cannot be followed; what else a kernel lacks is named with its reason.

mod beside_traced;
pub(crate) mod calls;
pub(crate) mod detail;
mod file_system;
mod inode_search;
pub mod last_look;
pub(crate) mod layout;
mod library;
mod qualities;
mod record_batch;
mod traced;

use std::cell::RefCell;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel as _, Skel as _};
use libbpf_rs::{Link, MapCore, MapFlags, RingBuffer, RingBufferBuilder};
use weigh_schema::io::{Event, FileId, Process, ReportBasis, Tally, Use};

use crate::core_types::{self, follow_types};
use crate::follow::{
    Attachment, FileEvents, FileMechanism, FileState, MechanismError, RunningAttachment,
};
use crate::job::{JobError, Owner, bpf};
use crate::join;
use crate::loading::Large;
use crate::offers::Offers;
use crate::table::{READING, each_entry};
use crate::{clock, libbpf_log, loading, map_sizing, membership, requirements};
use layout::skeleton;

pub use beside_traced::BesideTracedIo;
pub use calls::name;
pub use detail::{RowScope, Telling};
pub use file_system::{FileSystem, FileSystemError};
pub use library::LibraryIo;
pub use qualities::{MAPPED_READ, MAPPED_WRITTEN, qualities};
pub use record_batch::{RecordBatch, RecordKind};
pub use traced::TracedIo;

/// Run on request, not attached.
const JOIN: &str = "member__join";

/// So much of what was told is taken in at once.
const EVENTS: usize = 1024;

/// Room for so many bytes of calls that were told and not read yet: some 150 000.
const CALLS_ROOM: u32 = 16 << 20;

/// The processes that are followed.
enum Whose {
    /// A command or a process, and what they start.
    Job,
    /// The same, of a user without rights.
    Owner(Owner),
    /// Everybody, on one file system.
    Everybody { device: u32 },
}

/// A job whose reads and writes are followed by the kernel itself.
pub struct KernelIo {
    skeleton: skeleton::IoSkel<'static>,
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    arrived: Rc<RefCell<RecordBatch>>,
    missing: Vec<String>,
    began_ns: u64,
}

impl KernelIo {
    /// Loads the programs and attaches them. Nobody is followed yet.
    pub fn open(telling: Telling, apart: RowScope) -> Result<KernelIo, JobError> {
        KernelIo::open_for(telling, apart, Whose::Job)
    }

    /// Follows everybody from now on, but only what is done with files of one file system.
    pub fn open_file_system(
        telling: Telling,
        apart: RowScope,
        place: &FileSystem,
    ) -> Result<KernelIo, JobError> {
        let kernel = KernelIo::open_for(telling, apart, Whose::Everybody { device: place.device })?;
        join::all(&kernel.skeleton.progs.member__join)
            .map_err(|error| bpf("taking in all processes")(error.into()))?;
        Ok(kernel)
    }

    /// The same for a user without privileges: of processes that have gained privileges it gets
    /// sums, and of all others' files their names as far as these processes see them.
    pub fn open_as(telling: Telling, apart: RowScope, owner: Owner) -> Result<KernelIo, JobError> {
        KernelIo::open_for(telling, apart, Whose::Owner(owner))
    }

    fn open_for(telling: Telling, apart: RowScope, whose: Whose) -> Result<KernelIo, JobError> {
        requirements::check()?;
        libbpf_log::collect();
        let kernel = core_types::of_this_kernel();
        let offers = Offers::new(&kernel);
        let mut missing = Vec::new();
        let builder = skeleton::IoSkelBuilder::default();
        let (_types, mut open) =
            loading::open(builder, &skeleton::DATA, &offers).map_err(bpf("open"))?;
        let whole = offers.tracepoint_arguments("io_uring_complete") == Some(3);
        let has_requests = offers.tracepoint("io_uring_submit_req");
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy().into_owned();
            let tracepoint = section.rsplit('/').next().unwrap_or_default();
            let is_other = match name.as_str() {
                "uring__complete" => !whole,
                "uring__complete_pieces" => whole,
                "uring__submit" => !has_requests,
                "uring__submit_entry" => has_requests,
                _ => false,
            };
            let is_there = name == JOIN || offers.tracepoint(tracepoint);
            if !is_there && !is_other {
                missing.push(format!("this kernel has no tracepoint {tracepoint}"));
            }
            program.set_autoload(is_there && !is_other);
        }
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            follow_types!(
                constants,
                offers,
                [task_struct, folio, file, inode, address_space, hlist_head]
            );
            calls::fill(&mut constants.calls);
            calls::short::fill(&mut constants.short_calls, &mut constants.calls_behind);
            constants.tells_calls = telling == Telling::Each;
            constants.by_thread = apart == RowScope::Threads;
            match whose {
                Whose::Job => {}
                Whose::Owner(owner) => {
                    constants.has_owner = 1;
                    (constants.owner, constants.owner_group) = (owner.uid, owner.gid);
                }
                Whose::Everybody { device } => constants.only_device = device,
            }
        }
        if telling == Telling::Each {
            open.maps.told_calls.set_max_entries(CALLS_ROOM).map_err(bpf("ring buffer"))?;
        }
        let dirty = Large { name: "owned_pages", entries: map_sizing::fit(&open.maps.owned_pages) };
        let mut skeleton = loading::load_with(open, &offers, Some(&dirty)).map_err(bpf("load"))?;
        let links = attach(&mut skeleton)?;
        let began_ns = clock::kernel_monotonic_ns();
        let arrived = Rc::default();
        let ring = read_rings(&skeleton, &arrived)?;
        Ok(KernelIo { skeleton, links, ring, arrived, missing, began_ns })
    }

    /// What this kernel lacks.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// When the following began, by the monotonic clock; times are counted from there.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Whether the process that a descriptor stands for is followed.
    pub fn is_member_by(&self, pidfd: BorrowedFd<'_>) -> bool {
        let window = membership::entry(&self.skeleton.maps.members, pidfd);
        window.is_some_and(|window| layout::is_member(&window))
    }

    /// What was told since the last time, to be handed on.
    pub fn records(&mut self) -> RecordBatch {
        // It fails where a callback does, and these do not.
        let _ = self.ring.consume_raw_n(EVENTS);
        std::mem::take(&mut *self.arrived.borrow_mut())
    }

    /// Shows what is kept, key and value of each, to be handed on.
    pub fn each_kept(
        &self,
        what: RecordKind,
        show: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), JobError> {
        let maps = &self.skeleton.maps;
        match what {
            RecordKind::Uses => each_entry(&maps.uses, show),
            RecordKind::Devices => each_entry(&maps.devices, show),
            RecordKind::Processes => each_entry(&maps.processes, show),
            RecordKind::Requests => each_entry(&maps.requests, show),
            RecordKind::Rest => {
                let rest = maps.rest.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
                rest.map(|value| show(&layout::no_key(), &value.unwrap_or_default()))
            }
        }
        .map_err(bpf(READING))
    }
}

impl FileEvents for KernelIo {
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        let maps = &self.skeleton.maps;
        vec![maps.told_names.as_fd(), maps.told.as_fd(), maps.told_calls.as_fd()]
    }

    /// The process that was armed is about to begin: times are counted from here.
    fn begin(&mut self) {
        self.began_ns = clock::kernel_monotonic_ns();
    }

    fn elapsed_ns(&self) -> u64 {
        clock::kernel_monotonic_ns().saturating_sub(self.began_ns)
    }

    /// What was told since the last time, but no more than a batch of it: a job may be as fast as weigh.
    fn events(&mut self) -> Vec<Event> {
        self.records().events(self.began_ns).collect()
    }

    fn forget_names(&mut self, files: &[FileId]) {
        for file in files {
            // One that was never told is not there.
            let _ = self.skeleton.maps.named.delete(&layout::key_of(*file));
        }
    }

    fn tally(&self) -> Tally {
        let variables = self.skeleton.maps.bss_data.as_deref();
        variables.map(|variables| layout::tally(&variables.tally)).unwrap_or_default()
    }

    fn grounds(&self) -> ReportBasis {
        let qualities = qualities(&self.tally());
        ReportBasis { notes: self.missing().to_vec(), qualities, ..ReportBasis::default() }
    }

    fn detach(&mut self) {
        self.links.clear();
    }
}

impl FileState for KernelIo {
    /// Shows what is still kept: files that processes have open, what there was no room to tell, and what
    /// devices did with files up to now.
    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), MechanismError> {
        let mut read = |key: &[u8], value: &[u8]| {
            layout::used(key, value, self.began_ns).into_iter().for_each(&mut *show);
        };
        each_entry(&self.skeleton.maps.uses, &mut read).map_err(bpf(READING))?;
        let mut read = |key: &[u8], value: &[u8]| {
            layout::of_device(key, value, self.began_ns).into_iter().for_each(&mut *show);
        };
        Ok(each_entry(&self.skeleton.maps.devices, &mut read).map_err(bpf(READING))?)
    }

    fn processes(&self) -> Result<Vec<Process>, MechanismError> {
        let maps = &self.skeleton.maps;
        Ok(each(&maps.processes, |_, value| layout::process(value, self.began_ns))?)
    }

    fn is_member(&self, pid: u32) -> bool {
        let window = membership::entry_of(&self.skeleton.maps.members, pid);
        window.is_some_and(|window| layout::is_member(&window))
    }

    /// AIO requests whose results were never handed over by a call: as they were asked for.
    fn open_requests(&self) -> Result<Vec<Use>, MechanismError> {
        Ok(each(&self.skeleton.maps.requests, |_, value| layout::request(value))?)
    }

    fn rest(&self) -> Option<Use> {
        let slot = 0u32.to_ne_bytes();
        let value = self.skeleton.maps.rest.lookup(&slot, MapFlags::ANY).ok()??;
        layout::used(&layout::no_key(), &value, self.began_ns)
    }
}

impl Attachment for KernelIo {
    fn arm(&mut self, _: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        Ok(membership::arm(&self.skeleton.maps.members, pidfd, &layout::armed())?)
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Ok(self)
    }
}

impl RunningAttachment for KernelIo {
    fn join(&mut self, pid: u32) -> Result<(), MechanismError> {
        let program = &self.skeleton.progs.member__join;
        Ok(membership::take_in(program, pid, || self.tally().threads)?)
    }
}

impl FileMechanism for KernelIo {
    fn attachment(&mut self) -> Option<&mut dyn Attachment> {
        Some(self)
    }
}

fn attach(skeleton: &mut skeleton::IoSkel<'static>) -> Result<Vec<Link>, JobError> {
    let mut links = Vec::new();
    for program in skeleton.object_mut().progs_mut() {
        if program.autoload() && program.name() != JOIN {
            links.push(program.attach().map_err(bpf("attach"))?);
        }
    }
    Ok(links)
}

fn read_rings(
    skeleton: &skeleton::IoSkel<'static>,
    arrived: &Rc<RefCell<RecordBatch>>,
) -> Result<RingBuffer<'static>, JobError> {
    let mut builder = RingBufferBuilder::new();
    // Names come first: they are waited for by nobody. Calls come last: what they are about is named then.
    let maps = &skeleton.maps;
    for map in [&maps.told_names, &maps.told, &maps.told_calls] {
        let sink = Rc::clone(arrived);
        let take = move |data: &[u8]| {
            sink.borrow_mut().push(&[], data);
            0
        };
        builder.add(map, take).map_err(bpf("ring buffer"))?;
    }
    builder.build().map_err(bpf("ring buffer"))
}

/// What each entry of a table says.
fn each<T>(
    map: &impl MapCore,
    read: impl Fn(&[u8], &[u8]) -> Option<T>,
) -> Result<Vec<T>, JobError> {
    let mut found = Vec::new();
    each_entry(map, &mut |key, value| found.extend(read(key, value))).map_err(bpf(READING))?;
    Ok(found)
}
