//! Who opened which file, from fanotify.
//!
//! Reads FAN_OPEN events of every mounted file system that supports them (directories included)
//! and emits process, path and how often. The events carry file handles (FAN_REPORT_DFID_NAME),
//! not descriptors: neither the queue nor the marks hold a file or a mount, so a job can unmount
//! what it has mounted. Only while a batch is being resolved is a mount's root open, briefly.
//!
//! What it does not see or get right:
//! * repeated opens of one file by one process that are in the queue together are merged by the
//!   kernel into one event, and that is not counted anywhere;
//! * file systems mounted later, until [`OpenEvents::mark_new_mounts`] is called, and those of
//!   other mount namespaces;
//! * pipes, sockets and other files without a mount; files of file systems that offer no handles;
//! * a path is the one the file has when the queue is drained, in weigh's mount namespace.
//!
//! An overflow of the queue is counted as lost (one per overflow: the kernel does not say how many
//! events it was). Needs CAP_SYS_ADMIN, and CAP_DAC_READ_SEARCH to resolve names.

mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::thread::{CapabilitySet, capabilities};
use weigh_schema::availability::CollectorInfo;
use weigh_schema::byte_text;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::io::FileUse;
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};
use weigh_schema::{Mechanism, Quality};

use crate::procfs;
use resolve::Resolver;
use weigh_parse::fanotify::{Record, number, parse_records};

/// Why opens cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum FanotifyError {
    /// The kernel gives no fanotify group.
    #[error("fanotify_init: {explanation}")]
    Init {
        /// What the error means.
        explanation: &'static str,
        /// The error itself.
        source: io::Error,
    },
    /// No file system could be marked.
    #[error("no file system supports open events: {0}")]
    NothingMarked(String),
    /// The list of mounts could not be read.
    #[error(transparent)]
    Mounts(#[from] procfs::ProcError),
    /// The queue could not be read.
    #[error("reading fanotify events: {0}")]
    Read(io::Error),
}

/// One or more opens of a file by a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Open {
    /// The process (thread group), in weigh's PID namespace.
    pub pid: u32,
    /// The file; `None` if it is gone or its name cannot be had.
    pub path: Option<PathBuf>,
}

/// What it is for, and what it takes.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "fanotify",
    "opened files, where functions cannot be probed",
    Some("CAP_SYS_ADMIN, and CAP_DAC_READ_SEARCH to name the files"),
)
.asks(SourceTraits {
    mode: SourceMode::Notification,
    rights: "CAP_SYS_ADMIN",
    scope: "machine",
    intrusiveness: Intrusiveness::Low,
    cost: "about 1 µs at each open of the machine",
});

/// Whether this process may follow opens by it.
pub fn is_allowed() -> bool {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    held.contains(CapabilitySet::SYS_ADMIN)
}

/// A group of marks and the queue of their events.
pub struct OpenEvents {
    queue: File,
    resolver: Resolver,
    marked: usize,
    skipped: BTreeMap<PathBuf, String>,
    overflows: u64,
    buffer: Vec<u8>,
}

const READ_BYTES: usize = 256 * 1024;

const _: () = assert!(
    number::METADATA_VERSION == libc::FANOTIFY_METADATA_VERSION
        && number::OPEN == libc::FAN_OPEN
        && number::Q_OVERFLOW == libc::FAN_Q_OVERFLOW
        && number::INFO_DFID_NAME == libc::FAN_EVENT_INFO_TYPE_DFID_NAME
        && number::INFO_DFID == libc::FAN_EVENT_INFO_TYPE_DFID
);

impl OpenEvents {
    /// Marks the file system of every mount point in weigh's mount namespace.
    pub fn start() -> Result<OpenEvents, FanotifyError> {
        let mut events = OpenEvents {
            queue: init()?,
            resolver: Resolver::default(),
            marked: 0,
            skipped: BTreeMap::new(),
            overflows: 0,
            buffer: vec![0; READ_BYTES],
        };
        events.mark_new_mounts()?;
        if events.marked == 0 {
            return Err(FanotifyError::NothingMarked(events.skipped_text()));
        }
        Ok(events)
    }

    /// Marks what has been mounted since the last call. Everything is marked again: a new file
    /// system may have the device number of one that is gone.
    pub fn mark_new_mounts(&mut self) -> Result<(), FanotifyError> {
        let mounts = procfs::parse_mountinfo(&procfs::read("/proc/self/mountinfo")?);
        self.resolver = Resolver::default();
        self.skipped.clear();
        let mut met = BTreeSet::new();
        self.marked = 0;
        for mount in mounts {
            if !met.insert(mount.device) {
                continue;
            }
            match self.mark(&mount.point) {
                Ok(()) => {
                    self.marked += 1;
                    self.resolver.add(&mount.point);
                }
                Err(error) => {
                    self.skipped.insert(mount.point, format!("{} ({error})", mount.kind));
                }
            }
        }
        Ok(())
    }

    /// Takes what is in the queue and resolves the opens of processes that `wanted` picks. Never
    /// waits. What is equal is summed.
    pub fn drain(
        &mut self,
        wanted: &mut dyn FnMut(u32) -> bool,
    ) -> Result<BTreeMap<Open, u64>, FanotifyError> {
        let mut opens = BTreeMap::new();
        // As much as the queue held when we came: a busy machine must not keep us here.
        let mut left = 64;
        while left > 0 {
            let length = match self.queue.read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(FanotifyError::Read(error)),
            };
            for record in parse_records(&self.buffer[..length]) {
                match record {
                    Record::Overflow => self.overflows += 1,
                    Record::Open { pid, location } if wanted(pid) => {
                        let path = location.and_then(|l| self.resolver.path(&l));
                        *opens.entry(Open { pid, path }).or_insert(0) += 1;
                    }
                    Record::Open { .. } => {}
                }
            }
            left -= 1;
        }
        self.resolver.close();
        Ok(opens)
    }

    /// How the collector fares.
    pub fn status(&self) -> CollectorStatus {
        let skipped = !self.skipped.is_empty();
        let status = match skipped || self.overflows > 0 {
            true => CollectorState::Degraded,
            false => CollectorState::Active,
        };
        let reason = skipped.then(|| format!("not followed: {}", self.skipped_text()));
        let status = CollectorStatus::new(INFO.name, Mechanism::Fanotify, status, reason);
        CollectorStatus { lost: self.overflows, ..status }
    }

    fn skipped_text(&self) -> String {
        let texts: Vec<String> =
            self.skipped.iter().map(|(point, why)| format!("{}: {why}", point.display())).collect();
        texts.join(", ")
    }

    fn mark(&self, point: &Path) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(point.as_os_str().as_bytes())?;
        // SAFETY: the descriptor is open and the path a C string that lives through the call.
        let rc = unsafe {
            libc::fanotify_mark(
                self.queue.as_raw_fd(),
                libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM,
                libc::FAN_OPEN | libc::FAN_ONDIR,
                libc::AT_FDCWD,
                path.as_ptr(),
            )
        };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The records of one drain, as rows of `files.parquet`: the kernel merges repeated opens of a file until they are read.
pub fn file_uses(opens: BTreeMap<Open, u64>) -> Vec<FileUse> {
    opens
        .into_iter()
        .filter_map(|(open, opened)| {
            let path = byte_text::keep(open.path?.as_os_str().as_bytes());
            Some(FileUse::opened(open.pid, &path, opened, Quality::Estimated))
        })
        .collect()
}

fn init() -> Result<File, FanotifyError> {
    let flags = libc::FAN_CLASS_NOTIF
        | libc::FAN_CLOEXEC
        | libc::FAN_NONBLOCK
        | libc::FAN_REPORT_DIR_FID
        | libc::FAN_REPORT_NAME;
    // SAFETY: plain numbers.
    let fd = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) };
    if fd < 0 {
        let source = io::Error::last_os_error();
        let explanation = match source.raw_os_error() {
            Some(libc::EPERM) => "needs CAP_SYS_ADMIN",
            Some(libc::ENOSYS) => "the kernel is built without fanotify",
            Some(libc::EINVAL) => "the kernel is older than 5.9: no names in events",
            Some(libc::EMFILE) => "too many fanotify groups or open descriptors",
            _ => "unexpected error",
        };
        return Err(FanotifyError::Init { explanation, source });
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}
