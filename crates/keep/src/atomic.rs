//! A file that appears under its name only when it is whole.
//!
//! Not synced to the device: this protects from the end of weigh, not from that of the machine.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::{Path, PathBuf};

use crate::error::KeepError;

/// A file being written under a temporary name; it vanishes unless it is committed.
pub(crate) struct AtomicFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    committed: bool,
}

impl AtomicFile {
    pub(crate) fn create(dir: &Path, name: &str) -> Result<AtomicFile, KeepError> {
        AtomicFile::create_at(&dir.join(name))
    }

    pub(crate) fn create_at(path: &Path) -> Result<AtomicFile, KeepError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        let file = File::create(&temporary).map_err(|e| KeepError::write(&temporary, e))?;
        Ok(AtomicFile { file, temporary, path: path.to_path_buf(), committed: false })
    }

    /// Gives the file its name.
    pub(crate) fn commit(mut self) -> Result<(), KeepError> {
        std::fs::rename(&self.temporary, &self.path)
            .map_err(|e| KeepError::write(&self.path, e))?;
        self.committed = true;
        Ok(())
    }

    /// Gives the file its name, without the room that was reserved and not needed.
    pub(crate) fn commit_cut(mut self) -> Result<(), KeepError> {
        let written = self.file.stream_position();
        written
            .and_then(|end| self.file.set_len(end))
            .map_err(|e| KeepError::write(&self.temporary, e))?;
        self.commit()
    }

    /// Has room kept for so many bytes from the file's beginning on, where the file system can do that.
    pub(crate) fn reserve(&self, bytes: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Err(error) if error == rustix::io::Errno::OPNOTSUPP => Ok(()),
            other => Ok(other?),
        }
    }

    /// What has been written, to be read.
    pub(crate) fn reopen(&self) -> Result<File, KeepError> {
        File::open(&self.temporary).map_err(|e| KeepError::read(&self.temporary, e))
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
