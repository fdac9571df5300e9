//! A mount, from its making to its end.

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weigh_schema::io::{Event, FileId, Untold};

use crate::accounts::Accounts;
use crate::error::MountError;
use crate::forgetting;
use crate::mountpoint::{MountPaths, check_means, is_privileged};
pub use crate::serve::{Control, MountRequest};
use crate::serve::{Served, Sight, State};
use crate::table::Inodes;

/// At least and at most so many threads serve: one that waits for a disk keeps nobody else waiting.
const THREADS: (usize, usize) = (4, 16);
/// The most descriptors that the kernel allows anybody.
const MOST_FILES: &str = "/proc/sys/fs/nr_open";

/// A folder that is served, for as long as this is kept; files that are open then are served no longer.
#[derive(Debug)]
pub struct Mounted {
    /// None in the end.
    session: Option<BackgroundSession>,
    is_detached: AtomicBool,
    place: MountPaths,
    accounts: Arc<Accounts>,
    state: Arc<State>,
    inodes: Arc<Inodes>,
}

impl Mounted {
    /// Looks whether it can be done, before anything is.
    pub fn check(source: &Path, mountpoint: &Path) -> Result<MountPaths, MountError> {
        check_means()?;
        MountPaths::check(source, mountpoint)
    }

    /// Mounts: from now on files are served.
    pub fn new(place: MountPaths, wish: MountRequest) -> Result<Mounted, MountError> {
        let refused =
            |error: io::Error| MountError::Refused { mountpoint: place.mountpoint.clone(), error };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&place.source, flags, Mode::empty());
        let root = root.map_err(|error| MountError::Unreachable {
            what: "SOURCE",
            path: place.source.clone(),
            error: error.into(),
        })?;
        let below = rustix::fs::fstatvfs(&root).map_err(|error| refused(error.into()))?;
        let (accounts, state) = (Arc::new(Accounts::new(wish.detail)), Arc::new(State::default()));
        let (inodes, crowd) = Inodes::new(root).map_err(|error| refused(error.into()))?;
        let inodes = Arc::new(inodes);
        let kept = (Arc::clone(&accounts), Arc::clone(&state));
        let served = Served::new(Arc::clone(&inodes), wish, kept.0, kept.1);
        let config = config(&place.source, below.f_flag);
        let session = Session::new(served, &place.mountpoint, &config).map_err(refused)?;
        let (kernel, known) = (session.as_fd().try_clone_to_owned(), Arc::downgrade(&inodes));
        let kernel = kernel.map_err(refused)?;
        let asking = std::thread::Builder::new().name("weigh-forget".to_string());
        asking.spawn(move || forgetting::run(&known, &kernel, &crowd)).map_err(refused)?;
        let session = Some(session.spawn().map_err(refused)?);
        let is_detached = AtomicBool::new(false);
        Ok(Mounted { session, is_detached, place, accounts, state, inodes })
    }

    /// Lets this process have as many files open as it may: what is open is one here, and so is what the kernel
    /// remembers, as far as there is room. What is started afterwards inherits it.
    pub fn widen(&self) {
        let own = getrlimit(Resource::Nofile);
        let most = std::fs::read_to_string(MOST_FILES).ok().and_then(|n| n.trim().parse().ok());
        let widest = Rlimit { current: most, maximum: most };
        if !is_privileged() || most.is_none() || setrlimit(Resource::Nofile, widest).is_err() {
            // Up to what is allowed it may always go.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own });
        }
        // What is open by now, as by what counts at the mount, leaves that much less room.
        let is_open = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        self.inodes.fit(most.saturating_sub(is_open));
    }

    /// What is seen of reads and writes.
    pub fn sight(&self) -> Sight {
        self.state.sight.get().copied().unwrap_or(Sight::Cached)
    }

    /// Opens that the kernel could not pass through, and why the first one was not.
    pub fn refused(&self) -> Option<(u64, String)> {
        let refused = self.state.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.as_ref().map(|(times, error)| (*times, error.to_string()))
    }

    /// What there is to tell by now: what is in use is kept here, until there is no counting any more.
    pub fn events(&self) -> Vec<Event> {
        self.accounts.events()
    }

    /// What was done and not told, and is kept.
    pub fn so_far(&self) -> Vec<Event> {
        self.accounts.so_far()
    }

    /// Files go on to be served, and nothing is counted any more.
    pub fn stop_counting(&self) {
        self.accounts.stop();
    }

    /// Calls that were counted, and could not be told one by one.
    pub fn untold(&self) -> Untold {
        self.accounts.untold()
    }

    /// How long ago the counting began.
    pub fn elapsed_ns(&self) -> u64 {
        self.accounts.now()
    }

    /// Has the names of these files told again when they are used again.
    pub fn forget_names(&self, files: &[FileId]) {
        self.accounts.forget_names(files);
    }

    /// Whether nobody is served any more: it was unmounted, and nobody has a file of it open.
    pub fn is_over(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Whether anybody has a file or directory of it open.
    pub fn is_in_use(&self) -> bool {
        self.state.open.load(Ordering::Relaxed) > 0
    }

    /// Takes the mount away, if nobody has by now. Files that are open go on to be served.
    pub fn detach(&self) -> Result<(), MountError> {
        // Once more would take away what it was mounted over.
        if self.is_over() || self.is_detached.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mountpoint = &self.place.mountpoint;
        let detached = match is_privileged() {
            true => rustix::mount::unmount(mountpoint, UnmountFlags::DETACH).map_err(Into::into),
            false => unmount_by_helper(mountpoint),
        };
        detached.map_err(|error| MountError::Stays { mountpoint: mountpoint.clone(), error })
    }

    /// The end. If it is not over it is left as it is: its end would wait for those who have something of it.
    pub fn finish(mut self) -> Result<(), MountError> {
        match self.session.take() {
            Some(session) if session.guard.is_finished() => match session.join() {
                // So the kernel may say what is ENODEV else: nobody has it any more.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
                ended => ended.map_err(MountError::Ended),
            },
            session => {
                std::mem::forget(session);
                Ok(())
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.is_some() {
            // Nobody is left to be told if it stays: the kernel says ENOTCONN to who goes there.
            let _ = self.detach();
            std::mem::forget(self.session.take());
        }
    }
}

fn unmount_by_helper(mountpoint: &PathBuf) -> io::Result<()> {
    let mut helper = Command::new("fusermount3");
    helper.args(["-u", "-z", "--"]).arg(mountpoint).stdin(Stdio::null());
    let output = helper.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_string())),
    }
}

fn config(source: &Path, below: StatVfsMountFlags) -> Config {
    let is = |flag: StatVfsMountFlags| below.contains(flag);
    let mut options = vec![MountOption::DefaultPermissions, MountOption::FSName(name(source))];
    options.push(if is(StatVfsMountFlags::RDONLY) { MountOption::RO } else { MountOption::RW });
    if is(StatVfsMountFlags::NOEXEC) {
        options.push(MountOption::NoExec);
    }
    let mut config = Config::default();
    if is_privileged() {
        // Only root may say so; for others the kernel says no to both.
        let (dev, suid) = (is(StatVfsMountFlags::NODEV), is(StatVfsMountFlags::NOSUID));
        options.push(if dev { MountOption::NoDev } else { MountOption::Dev });
        options.push(if suid { MountOption::NoSuid } else { MountOption::Suid });
        config.acl = SessionACL::All;
    }
    config.mount_options = options;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    config.n_threads = Some(cpus.clamp(THREADS.0, THREADS.1));
    config.clone_fd = true;
    config
}

/// What the list of mounts shows; a comma would end it.
fn name(source: &Path) -> String {
    let name = source.to_string_lossy();
    if name.contains([',', '\\']) { "weigh".to_string() } else { name.into_owned() }
}
