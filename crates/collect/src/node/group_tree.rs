//! Finds control groups that are jobs, units or containers; by inotify a tick in which none came or went costs one read.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify;
use weigh_parse::node::{GroupKind, control_group};
use weigh_parse::procfs::{Mount, parse_mountinfo};

use super::error::{NodeError, NodeRoots};
use super::group_info::NodeGroup;
use crate::procfs::ProcError;

/// Folders that are looked into at a scan.
const MOST_FOLDERS: usize = 4096;
/// Groups at most.
pub(super) const MOST_GROUPS: usize = 512;
/// No job lies deeper.
const DEEPEST: usize = 10;
/// Reads after which the tree is scanned again, though nothing said that it changed: controllers come without a word.
const READS: u32 = 300;
/// The same where inotify cannot be had.
const READS_UNWATCHED: u32 = 10;
/// Hierarchies of version 1 that somebody puts jobs, units or containers into.
const SCANNED: [&str; 4] = ["memory", "cpuacct", "freezer", "name=systemd"];

/// A mounted hierarchy.
pub(super) struct Hierarchy {
    /// Where it is.
    point: PathBuf,
    /// The part of it that is mounted.
    root: PathBuf,
    /// Options of its mount: the controllers of version 1.
    options: String,
    pub is_version_2: bool,
}

impl Hierarchy {
    fn new(roots: &NodeRoots, mount: Mount) -> Hierarchy {
        let is_version_2 = mount.kind == "cgroup2";
        let (point, root) = (roots.place(&mount.point), mount.root);
        Hierarchy { point, root, options: mount.options, is_version_2 }
    }

    /// Whether it is of version 1 and has that controller.
    pub fn has(&self, controller: &str) -> bool {
        !self.is_version_2 && self.options.split(',').any(|option| option == controller)
    }

    /// Where a group of it lies, as far as it is mounted.
    pub fn folder(&self, path: &[u8]) -> Option<PathBuf> {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        Some(self.point.join(path.strip_prefix(&self.root).ok()?))
    }

    fn is_scanned(&self) -> bool {
        self.is_version_2 || SCANNED.iter().any(|name| self.has(name))
    }
}

/// The hierarchies that are mounted, each once.
pub(super) fn hierarchies(roots: &NodeRoots) -> Result<Vec<Hierarchy>, NodeError> {
    let path = roots.proc.join("self/mountinfo");
    let text = std::fs::read(&path).map_err(|source| ProcError::Read { path, source })?;
    let mut found: Vec<Hierarchy> = Vec::new();
    let mut mounts = parse_mountinfo(&text);
    mounts.retain(|mount| mount.kind.starts_with("cgroup"));
    // Mounts of a part, as for a container, come after the whole.
    mounts.sort_by_key(|mount| mount.root.as_os_str().len());
    for mount in mounts {
        let is_known = |known: &Hierarchy| match mount.kind == "cgroup2" {
            true => known.is_version_2,
            false => !known.is_version_2 && known.options == mount.options,
        };
        if !found.iter().any(is_known) {
            found.push(Hierarchy::new(roots, mount));
        }
    }
    match found.is_empty() {
        true => Err(NodeError::Absent("no control groups are mounted".to_string())),
        false => Ok(found),
    }
}

/// What a scan found.
#[derive(Default)]
pub(super) struct GroupScan {
    /// By path.
    pub groups: BTreeMap<Vec<u8>, NodeGroup>,
    /// Groups for which there was no room.
    pub left_out: u64,
    /// Whether a group came or went; else the scan was due.
    pub is_of_change: bool,
    folders: usize,
}

/// Looks for groups when they change.
pub(super) struct GroupTree {
    inotify: Option<OwnedFd>,
    reads_left: u32,
}

impl GroupTree {
    /// Scans at the first read.
    pub fn new() -> GroupTree {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        GroupTree { inotify: inotify::init(flags).ok(), reads_left: 0 }
    }

    /// The next read scans.
    pub fn distrust(&mut self) {
        self.reads_left = 0;
    }

    /// All groups, where there may be others than at the last scan.
    pub fn scan_if_changed(&mut self, hierarchies: &[Hierarchy]) -> Option<GroupScan> {
        let has_changed = self.has_changed();
        self.reads_left = self.reads_left.saturating_sub(1);
        if !has_changed && self.reads_left > 0 {
            return None;
        }
        self.reads_left = if self.inotify.is_some() { READS } else { READS_UNWATCHED };
        let mut scan = GroupScan { is_of_change: has_changed, ..GroupScan::default() };
        for hierarchy in hierarchies.iter().filter(|hierarchy| hierarchy.is_scanned()) {
            self.walk(&hierarchy.point, hierarchy.root.as_os_str().as_bytes(), 0, &mut scan);
        }
        Some(scan)
    }

    fn has_changed(&self) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let mut events = [0_u8; 4096];
        let mut has_changed = false;
        // A flood is read on at the next tick.
        for _ in 0..16 {
            match rustix::io::read(inotify, &mut events) {
                Ok(count) if count > 0 => has_changed = true,
                _ => break,
            }
        }
        has_changed
    }

    fn walk(&mut self, folder: &Path, path: &[u8], depth: usize, scan: &mut GroupScan) {
        scan.folders += 1;
        if depth >= DEEPEST || scan.folders > MOST_FOLDERS {
            return;
        }
        self.watch(folder);
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let mut path = path.strip_suffix(b"/").unwrap_or(path).to_vec();
            path.push(b'/');
            path.extend(entry.file_name().as_bytes());
            if add(&path, scan) {
                self.walk(&entry.path(), &path, depth + 1, scan);
            }
        }
    }

    fn watch(&mut self, folder: &Path) {
        let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE;
        let watch =
            |inotify| inotify::add_watch(inotify, folder, flags | inotify::WatchFlags::ONLYDIR);
        // Where there are too many watches already, time has to do.
        if self
            .inotify
            .as_ref()
            .is_some_and(|inotify| watch(inotify) == Err(rustix::io::Errno::NOSPC))
        {
            self.inotify = None;
        }
    }
}

/// Adds a group; whether there may be others below it.
fn add(path: &[u8], scan: &mut GroupScan) -> bool {
    let Some(group) = control_group(path).filter(|group| group.path == path) else { return true };
    if !scan.groups.contains_key(path) {
        match scan.groups.len() < MOST_GROUPS {
            true => drop(scan.groups.insert(path.to_vec(), NodeGroup::new(&group))),
            false => scan.left_out += 1,
        }
    }
    group.kind == GroupKind::Unit
}
