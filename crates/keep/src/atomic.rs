//! A file that appears under its name only when it is whole.
//!
//! Takes the place of what is there, with its rights, if that is a file, by whatever link it was named; refuses
//! whatever else is there. Until then it has a name of its own beside that place, which was nobody's.
//!
//! Not synced to the device: this protects from the end of weigh, not from that of the machine.

use std::ffi::{OsStr, OsString};
use std::fs::{File, FileType, Metadata, Permissions};
use std::io::{self, ErrorKind, Seek as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::KeepError;

/// As many links as the kernel follows.
const LINKS: usize = 40;
/// A temporary name has so much of the name, and what tells it from others: together less than a name may have.
const NAME_BYTES: usize = 200;
/// Nobody has so many files under temporary names of one process, unless it is on purpose.
const TRIES: u32 = 10_000;
/// Until it has the rights of what it replaces, which may be those of nobody else.
const PRIVATE: u32 = 0o600;
const RIGHTS: u32 = 0o777;

/// Where a file of this name is to be, with no links on the way; whether it can be.
pub fn place_of_file(path: &Path) -> Result<PathBuf, KeepError> {
    Ok(Target::of(path)?.path)
}

/// Where a file is to be.
struct Target {
    path: PathBuf,
    /// The file that is there.
    replaced: Option<Metadata>,
}

impl Target {
    fn of(path: &Path) -> Result<Target, KeepError> {
        let failed = |error| KeepError::write(path, error);
        match std::fs::metadata(path) {
            Ok(there) if there.is_file() => {
                let place = path.canonicalize().map_err(failed)?;
                Ok(Target { path: place, replaced: Some(there) })
            }
            Ok(there) => {
                Err(KeepError::NoFile { path: path.to_path_buf(), found: kind(there.file_type()) })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Target { path: new_place(path).map_err(failed)?, replaced: None })
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// The full name of a file that is to be written, which leads there though the working directory is gone.
pub(crate) fn full_name(path: &Path) -> Result<PathBuf, KeepError> {
    Ok(Target::of(path)?.path)
}

/// Where a file will be that is not there: links to nowhere lead there, too.
fn new_place(path: &Path) -> io::Result<PathBuf> {
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(ErrorKind::IsADirectory.into());
    }
    let mut place = path.to_path_buf();
    for _ in 0..LINKS {
        let folder = match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.canonicalize()?,
            _ => Path::new(".").canonicalize()?,
        };
        place = folder.join(place.file_name().ok_or(ErrorKind::IsADirectory)?);
        match place.read_link() {
            Ok(to) => place = folder.join(to),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
}

fn kind(of: FileType) -> &'static str {
    match of {
        of if of.is_dir() => "a folder",
        of if of.is_fifo() => "a FIFO or a pipe",
        of if of.is_socket() => "a socket",
        _ => "a device",
    }
}

/// A file being written under a temporary name; it vanishes unless it is committed.
pub(crate) struct AtomicFile {
    file: File,
    temporary: PathBuf,
    place: Target,
    /// What it was called.
    path: PathBuf,
    committed: bool,
}

impl AtomicFile {
    pub(crate) fn create(dir: &Path, name: &str) -> Result<AtomicFile, KeepError> {
        AtomicFile::create_at(&dir.join(name))
    }

    pub(crate) fn create_at(path: &Path) -> Result<AtomicFile, KeepError> {
        let place = Target::of(path)?;
        let (file, temporary) =
            create_beside(&place.path).map_err(|error| KeepError::write(path, error))?;
        let new = AtomicFile { file, temporary, place, path: path.to_path_buf(), committed: false };
        if new.place.replaced.is_some() {
            new.set_rights(PRIVATE)?;
        }
        Ok(new)
    }

    /// Gives the file its name.
    pub(crate) fn commit(mut self) -> Result<(), KeepError> {
        if let Some(replaced) = &self.place.replaced {
            // A user who may not give it away keeps it: the permissions are what protects its bytes.
            let _ = fchown(&self.file, Some(replaced.uid()), Some(replaced.gid()));
            self.set_rights(replaced.mode() & RIGHTS)?;
        }
        std::fs::rename(&self.temporary, &self.place.path)
            .map_err(|e| KeepError::write(&self.path, e))?;
        self.committed = true;
        Ok(())
    }

    fn set_rights(&self, mode: u32) -> Result<(), KeepError> {
        let set = self.file.set_permissions(Permissions::from_mode(mode));
        set.map_err(|error| KeepError::write(&self.path, error))
    }

    /// Gives the file its name, without the room that was reserved and not needed.
    pub(crate) fn commit_cut(mut self) -> Result<(), KeepError> {
        let written = self.file.stream_position();
        written
            .and_then(|end| self.file.set_len(end))
            .map_err(|e| KeepError::write(&self.path, e))?;
        self.commit()
    }

    /// Has room kept for so many bytes from this one on, where the file system can do that.
    pub(crate) fn reserve(&self, from: u64, bytes: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, from, bytes) {
            Err(error) if error == rustix::io::Errno::OPNOTSUPP => Ok(()),
            other => Ok(other?),
        }
    }

    /// What has been written, to be read.
    pub(crate) fn reopen(&self) -> Result<File, KeepError> {
        File::open(&self.temporary).map_err(|e| KeepError::read(&self.path, e))
    }

    /// The name that it will have.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing more can be done if even this fails; a reader ignores the name.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Writes a file of a folder as JSON.
pub(crate) fn write_json(dir: &Path, name: &str, what: &impl Serialize) -> Result<(), KeepError> {
    let mut file = AtomicFile::create(dir, name)?;
    let mut text =
        serde_json::to_vec_pretty(what).map_err(|e| KeepError::write(file.path(), e.into()))?;
    text.push(b'\n');
    file.write_all(&text).map_err(|e| KeepError::write(file.path(), e))?;
    file.commit()
}

/// A file of a name that nobody has.
fn create_beside(place: &Path) -> io::Result<(File, PathBuf)> {
    let name = place.file_name().unwrap_or_default().as_bytes();
    let name = OsStr::from_bytes(&name[..name.len().min(NAME_BYTES)]);
    for number in 0..TRIES {
        let mut beside = OsString::from(name);
        beside.push(format!(".{}-{number}.tmp", std::process::id()));
        let temporary = place.with_file_name(beside);
        match File::options().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return other.map(|file| (file, temporary)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests;
