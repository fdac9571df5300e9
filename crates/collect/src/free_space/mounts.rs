//! Which file systems there are, where they are mounted, and which of them always answer.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use weigh_parse::procfs::Mount;

/// Which of the file systems.
pub type SystemId = usize;

/// These lie on devices here that have no number of their own, or in memory.
const LOCAL: [&str; 7] = ["btrfs", "zfs", "bcachefs", "overlay", "tmpfs", "ramfs", "hugetlbfs"];

/// More of them are not looked at: each look costs a microsecond or two.
const LOCAL_MOST: usize = 32;

/// Symbolic links on the way to one file, as the kernel has it.
const LINKS_MOST: usize = 40;

/// A file system, by its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSystem {
    /// Where it is asked.
    pub point: PathBuf,
    /// Its type.
    pub kind: String,
    /// Its device, major and minor.
    pub device: (u32, u32),
    /// Whether it answers without asking another machine or a program.
    pub is_local: bool,
}

/// All of them, and their mounts.
pub(super) struct FileSystems {
    systems: Vec<FileSystem>,
    /// Mount points and what is seen there.
    points: Vec<(PathBuf, SystemId)>,
}

impl FileSystems {
    /// Of the mounts in the order in which they were made.
    pub fn new(mounts: Vec<Mount>) -> FileSystems {
        let slow: Vec<PathBuf> =
            mounts.iter().filter(|m| !is_local(m)).map(|m| m.point.clone()).collect();
        let (mut systems, mut points) = (Vec::<FileSystem>::new(), Vec::new());
        for mount in mounts {
            let is_behind = slow.iter().any(|s| *s != mount.point && mount.point.starts_with(s));
            let is_local = is_local(&mount) && !is_behind;
            let Mount { point, kind, device, .. } = mount;
            let known = systems.iter().position(|system| system.device == device);
            let system = match known {
                Some(known) => {
                    let other = &mut systems[known];
                    if is_local && !other.is_local {
                        (other.point, other.is_local) = (point.clone(), true);
                    }
                    known
                }
                None => {
                    systems.push(FileSystem { point: point.clone(), kind, device, is_local });
                    systems.len() - 1
                }
            };
            // What was mounted last is what is seen.
            points.retain(|(other, _)| *other != point);
            points.push((point, system));
        }
        FileSystems { systems, points }
    }

    pub fn all(&self) -> &[FileSystem] {
        &self.systems
    }

    /// Those that always answer, and where to ask. What another mount hides is not asked.
    pub fn local(&self) -> Vec<(SystemId, PathBuf)> {
        let all = self.systems.iter().enumerate();
        let shown =
            all.filter(|(id, system)| system.is_local && self.of_path(&system.point) == Some(*id));
        shown.map(|(id, system)| (id, system.point.clone())).take(LOCAL_MOST).collect()
    }

    pub fn of_path(&self, path: &Path) -> Option<SystemId> {
        let above = self.points.iter().filter(|(point, _)| path.starts_with(point));
        above.max_by_key(|(point, _)| point.as_os_str().len()).map(|(_, system)| *system)
    }

    /// Where a path leads by symbolic links, as far as file systems say it that always answer.
    pub fn resolved(&self, path: &Path) -> PathBuf {
        let (mut at, mut links) = (PathBuf::new(), 0);
        let mut left: VecDeque<OsString> = parts(path).collect();
        while let Some(part) = left.pop_front() {
            if part == ".." {
                at.pop();
                continue;
            }
            at.push(part);
            let answers = self.of_path(&at).is_some_and(|system| self.systems[system].is_local);
            let target = (answers && links < LINKS_MOST).then(|| std::fs::read_link(&at).ok());
            if let Some(target) = target.flatten() {
                links += 1;
                at.pop();
                parts(&target).rev().for_each(|part| left.push_front(part));
            }
        }
        at
    }

    pub fn of_device(&self, device: (u32, u32)) -> Option<SystemId> {
        self.systems.iter().position(|system| system.device == device)
    }
}

/// A first one of `/` begins anew where it is pushed to a path.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().map(|part| part.as_os_str().to_os_string())
}

fn is_local(mount: &Mount) -> bool {
    let kind = mount.kind.as_str();
    (mount.device.0 != 0 || LOCAL.contains(&kind)) && !kind.starts_with("fuse")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_parse::procfs::parse_mountinfo;

    fn systems() -> FileSystems {
        FileSystems::new(parse_mountinfo(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /sys rw - sysfs sysfs rw\n\
              3 1 0:44 / /home rw - nfs4 server:/ rw\n4 3 8:9 / /home/disk rw - ext4 /dev/sdb rw\n\
              5 1 0:30 / /tmp rw - tmpfs tmpfs rw\n6 1 8:9 / /scratch rw - ext4 /dev/sdb rw\n\
              7 1 0:31 / /far rw - fuse.sshfs it rw\n8 5 0:32 / /tmp rw - tmpfs tmpfs rw\n",
        ))
    }

    #[test]
    fn a_path_lies_on_what_was_mounted_last_and_nearest() {
        let systems = systems();
        let device =
            |path: &str| systems.of_path(Path::new(path)).map(|id| systems.all()[id].device);
        for (path, wanted) in [
            ("/usr/bin", (8, 1)),
            ("/home/user/x", (0, 44)),
            ("/home/disk/x", (8, 9)),
            ("/homeless", (8, 1)),
            ("/tmp/x", (0, 32)),
            ("/far", (0, 31)),
        ] {
            assert_eq!(device(path), Some(wanted), "{path}");
        }
        assert_eq!(device("relative"), None);
    }

    #[test]
    fn links_are_followed_but_on_what_may_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let link =
            |name: &str, to: &str| std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        link("outer", "./none/../inner/x");
        link("inner", "/scratch/./jobs");
        link("round", "round");
        let systems = systems();
        let resolved = |name: &str| systems.resolved(&folder.join(name));
        assert_eq!(resolved("outer/out"), Path::new("/scratch/jobs/x/out"));
        assert_eq!(resolved("none/../x"), folder.join("x"));
        assert_eq!(resolved("round"), folder.join("round"));
        // All below it is on another machine: nobody asks.
        let far = FileSystems::new(parse_mountinfo(b"1 0 0:44 / / rw - nfs4 server:/ rw\n"));
        assert_eq!(far.resolved(&folder.join("outer")), folder.join("outer"));
    }

    #[test]
    fn those_that_may_not_answer_are_not_asked_unless_they_are_named() {
        let systems = systems();
        let local: Vec<String> =
            systems.local().iter().map(|(_, point)| point.display().to_string()).collect();
        // The second disk is asked where no other machine is on the way.
        assert_eq!(local, ["/", "/scratch", "/tmp"]);
        assert_eq!(systems.of_device((8, 9)).map(|id| systems.all()[id].is_local), Some(true));
        assert_eq!(systems.of_device((9, 9)), None);
    }
}
