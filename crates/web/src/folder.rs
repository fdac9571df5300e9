//! Folders with recordings: which there are, without following any link out of them.
//!
//! Reads names and times; emits a place for each subfolder that may be a recording. Files are reached through a
//! descriptor of the folder ([`JobFolder`]), never by a path that is made of names.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use weigh_keep::KeepError;
use weigh_schema::recording::files;

/// Names that are looked at in one folder.
const NAMES_MOST: usize = 100_000;

/// A folder that was named to the server.
#[derive(Debug)]
pub(crate) struct RecordingsFolder {
    path: PathBuf,
    descriptor: OwnedFd,
    /// Whether it is a recording itself.
    is_recording: bool,
}

/// Where a recording is: the folder's number, and its name in it; no name for the folder itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JobPlace {
    pub(crate) folder: usize,
    pub(crate) name: Option<OsString>,
}

/// When a folder was changed: another time, another content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    seconds: i64,
    nanoseconds: u64,
    inode: u64,
}

impl Stamp {
    fn of(found: &Stat) -> Stamp {
        Stamp { seconds: found.st_mtime, nanoseconds: found.st_mtime_nsec, inode: found.st_ino }
    }

    /// Whether the folder was changed so lately that more may come under the same time.
    pub(crate) fn is_young(&self) -> bool {
        let since = Duration::from_secs(self.seconds.try_into().unwrap_or(0));
        let changed = SystemTime::UNIX_EPOCH + since;
        changed.elapsed().is_ok_and(|age| age < Duration::from_secs(3))
    }
}

/// The folder of a recording, held open.
pub(crate) struct JobFolder {
    descriptor: OwnedFd,
}

impl JobFolder {
    /// Where the readers of `keep` find it: the same folder, whatever takes its name meanwhile.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))
    }

    /// Whether it has a file of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        let found = statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
    }

    /// Whether it looks like a recording.
    pub(crate) fn is_recording(&self) -> bool {
        self.has(files::SUMMARY) || self.has(files::JOURNAL)
    }
}

/// What is wrong with a recording, with its folder as people know it in the place of its descriptor.
pub(crate) fn without_descriptor(error: &KeepError, path: &Path, folder: &str) -> String {
    error.to_string().replace(&path.display().to_string(), folder)
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

impl RecordingsFolder {
    /// Opens a folder; the path is the caller's, and links in it are meant.
    pub(crate) fn open(path: &Path) -> io::Result<RecordingsFolder> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())?;
        let path = std::path::absolute(path)?;
        let mut folder = RecordingsFolder { path, descriptor, is_recording: false };
        folder.is_recording = folder.open_job(None)?.is_recording();
        Ok(folder)
    }

    /// The path of a recording, to show.
    pub(crate) fn shown_path(&self, name: Option<&OsStr>) -> PathBuf {
        name.map_or_else(|| self.path.clone(), |name| self.path.join(name))
    }

    /// Opens the folder of a recording.
    pub(crate) fn open_job(&self, name: Option<&OsStr>) -> io::Result<JobFolder> {
        let name = name.unwrap_or(OsStr::new("."));
        let descriptor = openat(&self.descriptor, name, FOLDER | OFlags::RDONLY, Mode::empty())?;
        Ok(JobFolder { descriptor })
    }

    /// What may be recordings, each with its stamp.
    pub(crate) fn places(&self, folder: usize) -> io::Result<Vec<(JobPlace, Stamp)>> {
        if self.is_recording {
            let found = rustix::fs::fstat(&self.descriptor)?;
            return Ok(vec![(JobPlace { folder, name: None }, Stamp::of(&found))]);
        }
        let mut places = Vec::new();
        for entry in Dir::read_from(&self.descriptor)?.take(NAMES_MOST) {
            let entry = entry?;
            if !matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                continue;
            }
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let found = match statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                let name = Some(name.to_os_string());
                places.push((JobPlace { folder, name }, Stamp::of(&found)));
            }
        }
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_no_recordings_whatever_they_are_called() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        for folder in [dir.path().join("job"), outside.path().to_path_buf()] {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(files::SUMMARY), "{}").unwrap();
        }
        symlink(outside.path(), dir.path().join("link")).unwrap();
        let folder = RecordingsFolder::open(dir.path()).unwrap();
        let names: Vec<_> = folder.places(3).unwrap().into_iter().map(|(place, _)| place).collect();
        assert_eq!(names, [JobPlace { folder: 3, name: Some("job".into()) }]);
        assert!(folder.open_job(Some(OsStr::new("job"))).unwrap().is_recording());
        assert!(folder.open_job(Some(OsStr::new("link"))).is_err());
        let itself = RecordingsFolder::open(outside.path()).unwrap();
        assert_eq!(itself.places(0).unwrap()[0].0.name, None);
        symlink(outside.path().join(files::SUMMARY), dir.path().join(files::SUMMARY)).unwrap();
        assert!(!RecordingsFolder::open(dir.path()).unwrap().is_recording);
    }

    #[test]
    fn a_folder_stays_the_same_when_another_takes_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let job = dir.path().join("job");
        std::fs::create_dir(&job).unwrap();
        std::fs::write(job.join("file"), "first").unwrap();
        let folder = RecordingsFolder::open(dir.path()).unwrap();
        let open = folder.open_job(Some(OsStr::new("job"))).unwrap();
        std::fs::rename(&job, dir.path().join("old")).unwrap();
        std::fs::create_dir(&job).unwrap();
        std::fs::write(job.join("file"), "second").unwrap();
        assert_eq!(std::fs::read_to_string(open.path().join("file")).unwrap(), "first");
    }
}
