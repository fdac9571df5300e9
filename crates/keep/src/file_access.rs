//! Opens the files of a recording: one's own, or those in a folder that somebody else may write to.
//!
//! Reads what is at a path; refuses what is no plain file (a pipe would block its reader), and of a foreign folder symbolic
//! links and files of other users than the folder's.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// How far the owner of a recording's folder is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// The caller has named the recording: what it links to is meant.
    #[default]
    Named,
    /// It was found, in a folder of this user.
    Foreign(u32),
}

impl FileAccess {
    /// Of a folder that was found.
    pub(crate) fn of_found(directory: &Path) -> io::Result<FileAccess> {
        Ok(FileAccess::Foreign(std::fs::metadata(directory)?.uid()))
    }

    /// Opens a file for reading.
    pub(crate) fn open(self, path: &Path) -> io::Result<File> {
        let follows = match self {
            FileAccess::Named => OFlags::empty(),
            FileAccess::Foreign(_) => OFlags::NOFOLLOW,
        };
        let flags = follows | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        let found = file.metadata()?;
        match self {
            _ if !found.is_file() => Err(io::Error::other("it is no plain file")),
            FileAccess::Foreign(owner) if found.uid() != owner => {
                Err(io::Error::other("it is not of its folder's owner"))
            }
            _ => Ok(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn of_a_foreign_folder_links_and_pipes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("plain"), "text").unwrap();
        std::os::unix::fs::symlink(at("plain"), at("link")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0)
            .unwrap();
        let foreign = FileAccess::of_found(dir.path()).unwrap();
        assert!(foreign.open(&at("plain")).is_ok());
        for name in ["link", "pipe", "."] {
            assert!(foreign.open(&at(name)).is_err(), "{name}");
        }
        assert_eq!(foreign.open(&at("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(FileAccess::Named.open(&at("link")).is_ok());
        assert!(FileAccess::Named.open(&at("pipe")).is_err());
    }

    #[test]
    fn files_of_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plain");
        std::fs::write(&path, "text").unwrap();
        let own = path.metadata().unwrap().uid();
        assert!(FileAccess::Foreign(own).open(&path).is_ok());
        assert!(FileAccess::Foreign(own + 1).open(&path).is_err());
    }
}
