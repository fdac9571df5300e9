//! A control group for the job, for the peak that the kernel's memory controller records.
//!
//! Makes a child of weigh's own group (version 1: in the memory hierarchy; version 2: only if the
//! memory controller is, or can be, given to children without moving anybody), puts the job in
//! before it executes, reads the peak and removes the group. It never touches the controllers or
//! members of other groups; only if nobody but weigh itself is in its own group, which then is one
//! that was delegated to it, weigh moves into a child, and back in the end. Page cache and kernel
//! memory are in the peak.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

use crate::procfs::{self, Mount};

/// How long it may take until a group can be removed.
const REMOVING: Duration = Duration::from_millis(50);

/// Which control groups a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Controllers in hierarchies of their own.
    V1,
    /// One hierarchy.
    V2,
    /// Controllers in version 1, and a version 2 hierarchy beside them.
    Hybrid,
    /// None that is mounted.
    None,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::V1 => "v1",
            Version::V2 => "v2",
            Version::Hybrid => "hybrid",
            Version::None => "none",
        })
    }
}

/// Why there is no group for the job, or no peak.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No memory controller is mounted.
    #[error("no memory controller: control groups are {0}")]
    NoController(Version),
    /// Our own group cannot be found.
    #[error("{0} does not show in which group weigh is")]
    OwnGroupUnknown(PathBuf),
    /// The memory controller does not reach children of our group.
    #[error("{path} does not give the memory controller to its children: {why}")]
    NotDelegated {
        /// Our own group.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A file or directory refused.
    #[error("cannot {action} {path}: {source}")]
    Access {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The kernel keeps no peak.
    #[error("{0} is missing: the kernel is older than 5.19")]
    NoPeak(PathBuf),
    /// Something of the job is still running in it.
    #[error("{path} is left behind: {processes} processes are still in it")]
    StillUsed {
        /// The group.
        path: PathBuf,
        /// How many.
        processes: usize,
    },
}

fn access(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CgroupError {
    move |source| CgroupError::Access { action, path: path.to_owned(), source }
}

/// Which control groups this machine has.
pub fn version() -> Version {
    version_of(procfs::group_mounts())
}

fn mounts() -> Vec<Mount> {
    procfs::read("/proc/self/mountinfo").map_or(Vec::new(), |t| procfs::parse_mountinfo(&t))
}

fn version_of(mounts: &[Mount]) -> Version {
    let has_v1 = mounts.iter().any(|m| m.kind == "cgroup" && !m.options.contains("name="));
    let has_v2 = mounts.iter().any(|m| m.kind == "cgroup2");
    match (has_v1, has_v2) {
        (true, true) => Version::Hybrid,
        (true, false) => Version::V1,
        (false, true) => Version::V2,
        (false, false) => Version::None,
    }
}

/// Where our own group with the memory controller is, and whether it is of version 2.
struct Home {
    path: PathBuf,
    is_v2: bool,
}

fn own_home() -> Result<Home, CgroupError> {
    let own = Path::new("/proc/self/cgroup");
    let text = procfs::read(own).map_err(|_| CgroupError::OwnGroupUnknown(own.to_owned()))?;
    home(&mounts(), &text)
}

fn home(mounts: &[Mount], own: &[u8]) -> Result<Home, CgroupError> {
    let lines = procfs::parse_cgroup(own);
    let v1 =
        mounts.iter().find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == "memory"));
    let (mount, line, is_v2) = if let Some(mount) = v1 {
        (mount, lines.iter().find(|l| l.controllers.iter().any(|c| c == "memory")), false)
    } else if let Some(mount) = mounts.iter().find(|m| m.kind == "cgroup2") {
        (mount, lines.iter().find(|l| l.hierarchy == 0), true)
    } else {
        return Err(CgroupError::NoController(version_of(mounts)));
    };
    let unknown = || CgroupError::OwnGroupUnknown(PathBuf::from("/proc/self/cgroup"));
    let group = Path::new(&line.ok_or_else(unknown)?.path);
    // In a container the mount shows only a part of the hierarchy.
    let below = group.strip_prefix(&mount.root).map_err(|_| unknown())?;
    Ok(Home { path: mount.point.join(below), is_v2 })
}

/// The least limit of memory of our own group and those above, if any has one.
pub(crate) fn memory_limit() -> Option<u64> {
    least_limit(&own_home().ok()?)
}

fn least_limit(home: &Home) -> Option<u64> {
    let name = if home.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
    // Above the mount there are no such files. A group without a limit has a word there, or a number past all memory.
    let limit = |group: &Path| fs::read_to_string(group.join(name)).ok()?.trim().parse().ok();
    home.path.ancestors().filter_map(limit).min()
}

/// Whether weigh runs with the rights of the machine's administrator: then every group is its to
/// change, and none was delegated to it.
pub fn is_administrator() -> bool {
    rustix::process::geteuid().is_root() && !crate::requirements::is_in_user_namespace()
}

/// The job's own group. Dropped without [`JobCgroup::remove`], it is removed if it is empty.
#[derive(Debug)]
pub struct JobCgroup {
    path: PathBuf,
    is_v2: bool,
    is_removed: bool,
    descriptor: Option<OwnedFd>,
    /// Put back after the group is removed: it is dropped with this.
    _aside: Option<Aside>,
}

impl JobCgroup {
    /// Makes a group named after the job, below weigh's own.
    pub fn create(id: &str) -> Result<JobCgroup, CgroupError> {
        let home = own_home()?;
        JobCgroup::below(&home, id)
    }

    /// The same, of version 2 only: of version 1 groups cannot be delegated safely.
    pub fn create_delegated(id: &str) -> Result<JobCgroup, CgroupError> {
        let home = own_home()?;
        match home.is_v2 {
            true => JobCgroup::below(&home, id),
            false => Err(CgroupError::NoController(Version::V1)),
        }
    }

    fn below(home: &Home, id: &str) -> Result<JobCgroup, CgroupError> {
        let aside = match home.is_v2 {
            true => give_memory_to_children(&home.path, id)?,
            false => None,
        };
        let path = home.path.join(group_name(id));
        fs::create_dir(&path).map_err(access("make", &path))?;
        let descriptor =
            home.is_v2.then(|| fs::File::open(&path).ok().map(OwnedFd::from)).flatten();
        let group =
            JobCgroup { path, is_v2: home.is_v2, is_removed: false, descriptor, _aside: aside };
        if home.is_v2 && !group.path.join("memory.current").exists() {
            let why = "memory.current is missing in the child".to_owned();
            return Err(CgroupError::NotDelegated { path: home.path.clone(), why });
        }
        Ok(group)
    }

    /// For a process to be born in it; none if the kernel's version of groups does not have that.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(|descriptor| descriptor.as_fd())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process in. Its children are born there; memory it already has stays charged to
    /// where it was taken.
    pub fn add(&self, pid: u32) -> Result<(), CgroupError> {
        let file = self.path.join("cgroup.procs");
        fs::write(&file, pid.to_string()).map_err(access("write", &file))
    }

    /// The greatest memory charged to the group so far.
    pub fn peak_bytes(&self) -> Result<u64, CgroupError> {
        let name = if self.is_v2 { "memory.peak" } else { "memory.max_usage_in_bytes" };
        let file = self.path.join(name);
        match fs::read_to_string(&file) {
            Ok(text) => text.trim().parse().map_err(|_| CgroupError::NoPeak(file)),
            Err(error) if self.is_v2 && error.kind() == io::ErrorKind::NotFound => {
                Err(CgroupError::NoPeak(file))
            }
            Err(error) => Err(access("read", &file)(error)),
        }
    }

    /// Shared memory and files in memory that are charged to the group now, mapped or not, if the kernel counts them.
    pub fn shared_bytes(&self) -> Option<u64> {
        procfs::number_after(&fs::read(self.path.join("memory.stat")).ok()?, b"shmem ")
    }

    /// Whether one of these processes is in a group outside of it.
    pub fn has_lost(&self, living: &[u32]) -> bool {
        let Some(name) = self.path.file_name() else { return false };
        let list = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        let members: HashSet<u32> = list.lines().filter_map(|pid| pid.parse().ok()).collect();
        living.iter().any(|pid| !members.contains(pid) && is_outside(*pid, name.as_bytes()))
    }

    /// How many of its processes the kernel has killed for want of memory, if it counts them.
    pub fn oom_kills(&self) -> Option<u64> {
        let name = if self.is_v2 { "memory.events" } else { "memory.oom_control" };
        procfs::number_after(&fs::read(self.path.join(name)).ok()?, b"oom_kill ")
    }

    /// Removes the group. An ended process leaves it a moment after its parent knows, so this
    /// tries for some milliseconds; a group that is still used is left as it is.
    pub fn remove(mut self) -> Result<(), CgroupError> {
        self.is_removed = true;
        match remove_soon(&self.path) {
            Ok(()) => Ok(()),
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
                Err(access("remove", &self.path)(error))
            }
            Err(_) => {
                let processes = fs::read_to_string(self.path.join("cgroup.procs"))
                    .map_or(0, |t| t.lines().count());
                Err(CgroupError::StillUsed { path: self.path.clone(), processes })
            }
        }
    }
}

/// Removes a group. A process that has ended, or was moved, leaves it a moment later, so this tries for some
/// milliseconds; one that is gone is no error.
/// Whether a process is in no group of that name, nor below it. One that is about to end may be in none.
fn is_outside(pid: u32, name: &[u8]) -> bool {
    const PF_EXITING: u64 = 4;
    let read = |file| fs::read(format!("/proc/{pid}/{file}")).ok();
    let flags = |stat: Vec<u8>| {
        let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let rest = String::from_utf8_lossy(&stat[behind_name..]).into_owned();
        rest.split_ascii_whitespace().nth(6)?.parse::<u64>().ok()
    };
    let Some(groups) = read("cgroup") else { return false };
    let is_in = groups.windows(name.len()).any(|part| part == name);
    !is_in && read("stat").and_then(flags).is_some_and(|flags| flags & PF_EXITING == 0)
}

fn remove_soon(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + REMOVING;
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                if Instant::now() >= deadline {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

impl Drop for JobCgroup {
    fn drop(&mut self) {
        if !self.is_removed {
            // Nobody is left to tell; an empty directory in cgroupfs does no harm.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// What it is for, and what it takes.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "cgroup",
    "the memory controller's own peak, page cache included",
    Some(
        "a control group below which weigh may make others: run as root, or in \
         systemd-run --user --scope -p Delegate=yes",
    ),
)
.asks(SourceTraits {
    mode: SourceMode::Query,
    rights: "a control group below which weigh may make others",
    scope: "job",
    intrusiveness: Intrusiveness::Low,
    cost: "none beside the kernel's own accounting",
});

/// How the collector fares.
pub fn status(outcome: Result<(), &CgroupError>) -> CollectorStatus {
    let status = match outcome {
        Ok(()) => CollectorState::Active,
        Err(CgroupError::StillUsed { .. }) => CollectorState::Degraded,
        Err(_) => CollectorState::Unavailable,
    };
    CollectorStatus::new(
        INFO.name,
        Mechanism::Cgroup,
        status,
        outcome.err().map(ToString::to_string),
    )
}

/// Version 2 lets a group with processes of its own give no controller to children, except the
/// root. If weigh is alone in it, it steps aside; to move others is not ours to do.
fn give_memory_to_children(own: &Path, id: &str) -> Result<Option<Aside>, CgroupError> {
    let words = |name: &str| fs::read_to_string(own.join(name)).unwrap_or_default();
    let has = |text: &str| text.split_ascii_whitespace().any(|c| c == "memory");
    if has(&words("cgroup.subtree_control")) {
        return Ok(None);
    }
    let refuse = |why: String| CgroupError::NotDelegated { path: own.to_owned(), why };
    if !has(&words("cgroup.controllers")) {
        return Err(refuse("it has none itself".to_owned()));
    }
    let Err(error) = fs::write(own.join(SUBTREE), "+memory") else { return Ok(None) };
    if error.raw_os_error() != Some(libc::EBUSY) {
        return Err(refuse(error.to_string()));
    }
    if !is_alone(&words("cgroup.procs")) {
        return Err(refuse(
            "it has other processes, and weigh moves nobody; start weigh in a delegated scope of \
             its own (systemd-run --user --scope -p Delegate=yes)"
                .to_owned(),
        ));
    }
    let aside = Aside::step(own, id)?;
    fs::write(own.join(SUBTREE), "+memory").map_err(|error| refuse(error.to_string()))?;
    Ok(Some(aside))
}

const SUBTREE: &str = "cgroup.subtree_control";

/// Whether all processes of the list are weigh: this one, and its helper.
fn is_alone(list: &str) -> bool {
    let program =
        |pid: &str| fs::metadata(format!("/proc/{pid}/exe")).ok().map(|m| (m.dev(), m.ino()));
    let own = program("self");
    own.is_some() && list.lines().all(|pid| program(pid) == own)
}

/// weigh in a group of its own, so that the one it was in can have children with controllers.
#[derive(Debug)]
struct Aside {
    own: PathBuf,
    child: PathBuf,
}

impl Aside {
    fn step(own: &Path, id: &str) -> Result<Aside, CgroupError> {
        let child = own.join(group_name(&format!("self-{id}")));
        fs::create_dir(&child).map_err(access("make", &child))?;
        let aside = Aside { own: own.to_owned(), child };
        aside.move_all(&aside.own, &aside.child)?;
        Ok(aside)
    }

    fn move_all(&self, from: &Path, to: &Path) -> Result<(), CgroupError> {
        let (from, to) = (from.join("cgroup.procs"), to.join("cgroup.procs"));
        let list = fs::read_to_string(&from).map_err(access("read", &from))?;
        list.lines().try_for_each(|pid| fs::write(&to, pid)).map_err(access("write", &to))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // In the end everything is as it was; what cannot be put back does no harm.
        let _ = fs::write(self.own.join(SUBTREE), "-memory");
        let _ = self.move_all(&self.child, &self.own);
        let _ = remove_soon(&self.child);
    }
}

/// A name that is one path component, whatever the job is called.
fn group_name(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = id.chars().take(100).map(plain).collect();
    format!("weigh-{name}")
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
