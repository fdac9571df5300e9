//! Makes room for a recording where an earlier one lies, as a job that is tried again needs it.
//!
//! Removes the files of a recording by their names, and nothing else. Refuses one whose journal is still being written, and
//! files of these names that are no recording.

use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use weigh_schema::recording::files;

use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::recording::ALL;
use crate::recording::Recording;

/// Removes the recording that a directory holds, whole or cut short, if there is one.
pub fn remove_recording(dir: &Path) -> Result<(), KeepError> {
    if is_being_written(dir) {
        return Err(KeepError::StillWritten { path: dir.to_path_buf() });
    }
    match Recording::open(dir) {
        // Without a line weigh was killed at once.
        Ok(_) | Err(KeepError::NoBeginning { lines: 0, .. }) => remove_files(dir),
        Err(
            KeepError::NotARecording { .. }
            | KeepError::NoSuchDirectory { .. }
            | KeepError::NotADirectory { .. },
        ) => Ok(()),
        Err(error) => Err(error),
    }
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

/// What says that it is a recording goes last: after a kill meanwhile the next one can begin anew.
fn remove_files(dir: &Path) -> Result<(), KeepError> {
    for path in ALL.iter().chain(&[files::REPORT]).rev().map(|name| dir.join(name)) {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(KeepError::write(&path, e)),
            _ => {}
        }
    }
    Ok(())
}
