//! The requests: what the kernel asks for is done with the folder below, by descriptors.
//!
//! The kernel has checked the caller's permissions already (`default_permissions`). Locks are the kernel's own,
//! among the users of the mount.

mod attributes;
mod data;
mod directories;
mod kernel;
mod names;

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use fuser::{BackingId, FileAttr, FileType, FopenFlags, Generation};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use weigh_schema::io::Who;

use crate::accounts::Accounts;
use crate::inodes::Inode;
use crate::mounted::Wish;
use crate::table::Inodes;
use directories::Listing;

/// So long the kernel may believe what it was told of a file, without asking again: what is changed in the
/// folder below by others is seen that much later.
const BELIEVED: Duration = Duration::from_secs(1);
/// Numbers are never given again while the kernel remembers them.
const GENERATION: Generation = Generation(0);

/// What comes of a request.
type Outcome<T> = Result<T, Errno>;

/// What is seen of reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Nothing: the kernel passes them through.
    Passing,
    /// Writes by call; reads by what the page cache lacks.
    Cached,
    /// Every one.
    Exact,
}

/// What is known of the serving from outside.
#[derive(Debug, Default)]
pub struct State {
    /// Since the kernel was asked what it can.
    pub sight: OnceLock<Sight>,
    /// Opens that the kernel would not pass through, and why the first was not.
    pub refused: Mutex<Option<(u64, std::io::Error)>>,
    /// How many files and directories are open.
    pub open: AtomicU64,
}

/// The file system.
#[derive(Debug)]
pub struct Served {
    inodes: Arc<Inodes>,
    handles: RwLock<HashMap<u64, Arc<Handle>>>,
    next: AtomicU64,
    accounts: Arc<Accounts>,
    state: Arc<State>,
    wish: Wish,
}

/// What is open.
#[derive(Debug)]
enum Handle {
    File(OpenFile),
    Directory(Mutex<Listing>, Arc<Inode>),
}

#[derive(Debug)]
struct OpenFile {
    fd: OwnedFd,
    inode: Arc<Inode>,
    /// Who opened it: what the kernel does by itself is done for that.
    opener: Who,
}

/// How an open file is to be treated by the kernel.
struct HowOpen {
    handle: u64,
    flags: FopenFlags,
    backing: Option<Arc<BackingId>>,
}

/// Asks the kernel to read and write a file by itself.
type Back<'a> = &'a dyn Fn(BorrowedFd<'_>) -> std::io::Result<BackingId>;

impl Served {
    /// Serves a folder.
    pub fn new(
        inodes: Arc<Inodes>,
        wish: Wish,
        accounts: Arc<Accounts>,
        state: Arc<State>,
    ) -> Served {
        let (handles, next) = (RwLock::default(), AtomicU64::new(1));
        Served { inodes, handles, next, accounts, state, wish }
    }

    fn sight(&self) -> Sight {
        self.state.sight.get().copied().unwrap_or(Sight::Cached)
    }

    fn keep(&self, handle: Handle) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut handles = self.handles.write().unwrap_or_else(PoisonError::into_inner);
        handles.insert(number, Arc::new(handle));
        self.state.open.store(handles.len() as u64, Ordering::Relaxed);
        number
    }

    fn handle(&self, number: u64) -> Outcome<Arc<Handle>> {
        let handles = self.handles.read().unwrap_or_else(PoisonError::into_inner);
        handles.get(&number).map(Arc::clone).ok_or(Errno::BADF)
    }

    fn take(&self, number: u64) -> Outcome<Arc<Handle>> {
        let mut handles = self.handles.write().unwrap_or_else(PoisonError::into_inner);
        let handle = handles.remove(&number).ok_or(Errno::BADF);
        self.state.open.store(handles.len() as u64, Ordering::Relaxed);
        handle
    }
}

impl Handle {
    /// Does something with what is open, whatever it is.
    fn with_fd<T>(&self, work: impl FnOnce(BorrowedFd<'_>) -> Outcome<T>) -> Outcome<T> {
        use std::os::fd::AsFd as _;
        match self {
            Handle::File(file) => work(file.fd.as_fd()),
            Handle::Directory(listing, _) => {
                let listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
                work(listing.fd()?)
            }
        }
    }

    fn file(&self) -> Outcome<&OpenFile> {
        match self {
            Handle::File(file) => Ok(file),
            Handle::Directory(..) => Err(Errno::ISDIR),
        }
    }
}

/// How long the kernel may believe this. It does not notice that a write takes the set-user-ID bit away, and
/// would for a while run what was written with the rights of another.
fn believed(known: &FileAttr) -> Duration {
    let is_program = known.kind == FileType::RegularFile && known.perm & 0o6000 != 0;
    if is_program { Duration::ZERO } else { BELIEVED }
}

/// Opens a file that is referred to.
fn reopen(inode: &Inode, flags: OFlags) -> Outcome<OwnedFd> {
    rustix::fs::open(inode.link(), flags | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests;

/// A path of nothing: the descriptor beside it is meant.
const ITSELF: (&str, AtFlags) = ("", AtFlags::EMPTY_PATH);
