//! Makes room for a recording where an earlier one lies, as a job that is tried again needs it.
//!
//! Removes the files of a recording by their names, and nothing else; refuses one whose journal is still being written.

use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use weigh_schema::recording::files;

use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::writer::ALL;

/// Removes the recording that a directory holds, whole or not, if there is one.
pub fn remove_recording(dir: &Path) -> Result<(), KeepError> {
    if is_being_written(dir) {
        return Err(KeepError::StillWritten { path: dir.to_path_buf() });
    }
    ALL.iter().chain(&[files::REPORT]).try_for_each(|name| remove(&dir.join(name)))
}

/// Its writer holds a lock on the journal as long as it lives.
fn is_being_written(dir: &Path) -> bool {
    let journal =
        FileAccess::of_found(dir).and_then(|access| access.open(&dir.join(files::JOURNAL)));
    journal.is_ok_and(|journal| {
        let lock = rustix::fs::flock(&journal, FlockOperation::NonBlockingLockShared);
        lock == Err(Errno::WOULDBLOCK)
    })
}

fn remove(path: &Path) -> Result<(), KeepError> {
    match std::fs::remove_file(path) {
        Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(KeepError::write(path, e))
        }
        _ => Ok(()),
    }
}
