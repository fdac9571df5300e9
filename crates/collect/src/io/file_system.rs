//! Which file system a folder lies on: what everybody does there can be followed.
//!
//! Reads the table of mounts; emits its device number as the kernel has it, which stat(2) has not everywhere
//! (btrfs). Refuses a folder that is not there.

use std::path::{Path, PathBuf};

use crate::procfs::{self, Mount};

const MOUNTS: &str = "/proc/self/mountinfo";

/// A file system that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Where.
    pub point: PathBuf,
    /// Its type.
    pub kind: String,
    /// Its device: major * 2^20 + minor.
    pub device: u32,
}

/// Why nobody knows.
#[derive(Debug, thiserror::Error)]
pub enum FileSystemError {
    /// It is not there, or may not be looked at.
    #[error("{path}: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The table of mounts cannot be read, or has nothing above the folder.
    #[error("{path}: {MOUNTS} does not say what is mounted there")]
    Unknown {
        /// The folder.
        path: PathBuf,
    },
}

impl FileSystem {
    /// The one that a folder or file lies on.
    pub fn of(path: &Path) -> Result<FileSystem, FileSystemError> {
        let folder = |source| FileSystemError::Folder { path: path.to_path_buf(), source };
        let full = path.canonicalize().map_err(folder)?;
        let table = procfs::read(MOUNTS).unwrap_or_default();
        let found = innermost(procfs::parse_mountinfo(&table), &full);
        let unknown = || FileSystemError::Unknown { path: path.to_path_buf() };
        let Mount { device: (major, minor), point, kind, .. } = found.ok_or_else(unknown)?;
        Ok(FileSystem { point, kind, device: major << 20 | minor })
    }
}

/// The mount that is seen there: the innermost, and of several at one place the last.
fn innermost(mounts: Vec<Mount>, path: &Path) -> Option<Mount> {
    let above = mounts.into_iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_is_meant_and_the_last_of_several() {
        let table = b"21 1 254:0 / / rw - ext4 /dev/vda rw\n\
            22 21 0:5 / /srv/a rw - tmpfs none rw\n\
            23 21 0:6 / /srv/a rw - btrfs /dev/vdb rw\n\
            24 23 0:7 / /srv/a/b\\040c rw - ext4 /dev/vdc rw\n";
        let at = |path: &str| {
            let found = innermost(procfs::parse_mountinfo(table), Path::new(path)).unwrap();
            (found.device, found.kind)
        };
        assert_eq!(at("/srv/ab"), ((254, 0), "ext4".to_string()));
        assert_eq!(at("/srv/a/x"), ((0, 6), "btrfs".to_string()));
        assert_eq!(at("/srv/a/b c"), ((0, 7), "ext4".to_string()));
        assert!(FileSystem::of(Path::new("/no/such/folder")).is_err());
    }
}
