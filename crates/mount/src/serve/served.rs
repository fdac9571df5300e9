//! What is served: inodes, what is open, and how.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use fuser::{BackingId, FopenFlags};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use weigh_schema::io::Who;

use super::answer::Outcome;
use super::listing::Listing;
use super::settings::MountRequest;
use crate::accounts::Accounts;
use crate::inodes::Inode;
use crate::table::Inodes;

/// A path of nothing: the descriptor beside it is meant.
pub(super) const ITSELF: (&str, AtFlags) = ("", AtFlags::EMPTY_PATH);

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
    pub(super) inodes: Arc<Inodes>,
    handles: RwLock<HashMap<u64, Arc<Handle>>>,
    pub(super) next: AtomicU64,
    pub(super) accounts: Arc<Accounts>,
    pub(super) state: Arc<State>,
    pub(super) wish: MountRequest,
}

/// What is open.
#[derive(Debug)]
pub(super) enum Handle {
    File(OpenFile),
    Directory(Mutex<Listing>, Arc<Inode>),
}

#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) fd: OwnedFd,
    pub(super) inode: Arc<Inode>,
    /// Who opened it: what the kernel does by itself is done for that.
    pub(super) opener: Who,
}

/// How an open file is to be treated by the kernel.
pub(super) struct HowOpen {
    pub(super) handle: u64,
    pub(super) flags: FopenFlags,
    pub(super) backing: Option<Arc<BackingId>>,
}

/// Asks the kernel to read and write a file by itself.
pub(super) type Back<'a> = &'a dyn Fn(BorrowedFd<'_>) -> std::io::Result<BackingId>;

impl Served {
    /// Serves a folder.
    pub fn new(
        inodes: Arc<Inodes>,
        wish: MountRequest,
        accounts: Arc<Accounts>,
        state: Arc<State>,
    ) -> Served {
        let (handles, next) = (RwLock::default(), AtomicU64::new(1));
        Served { inodes, handles, next, accounts, state, wish }
    }

    pub(super) fn sight(&self) -> Sight {
        self.state.sight.get().copied().unwrap_or(Sight::Cached)
    }

    pub(super) fn keep(&self, handle: Handle) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut handles = self.handles.write().unwrap_or_else(PoisonError::into_inner);
        handles.insert(number, Arc::new(handle));
        self.state.open.store(handles.len() as u64, Ordering::Relaxed);
        number
    }

    pub(super) fn handle(&self, number: u64) -> Outcome<Arc<Handle>> {
        let handles = self.handles.read().unwrap_or_else(PoisonError::into_inner);
        handles.get(&number).map(Arc::clone).ok_or(Errno::BADF)
    }

    pub(super) fn take(&self, number: u64) -> Outcome<Arc<Handle>> {
        let mut handles = self.handles.write().unwrap_or_else(PoisonError::into_inner);
        let handle = handles.remove(&number).ok_or(Errno::BADF);
        self.state.open.store(handles.len() as u64, Ordering::Relaxed);
        handle
    }
}

impl Handle {
    /// Does something with what is open, whatever it is.
    pub(super) fn with_fd<T>(&self, work: impl FnOnce(BorrowedFd<'_>) -> Outcome<T>) -> Outcome<T> {
        use std::os::fd::AsFd as _;
        match self {
            Handle::File(file) => work(file.fd.as_fd()),
            Handle::Directory(listing, _) => {
                let listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
                work(listing.fd()?)
            }
        }
    }

    pub(super) fn file(&self) -> Outcome<&OpenFile> {
        match self {
            Handle::File(file) => Ok(file),
            Handle::Directory(..) => Err(Errno::ISDIR),
        }
    }
}

/// Opens a file that is referred to.
pub(super) fn reopen(inode: &Inode, flags: OFlags) -> Outcome<OwnedFd> {
    rustix::fs::open(inode.link(), flags | OFlags::CLOEXEC, Mode::empty())
}
