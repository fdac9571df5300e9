//! The file of a journal, with room kept for its end.
//!
//! Takes whole lines. On a disk that is full it refuses them while there is still room for the last one, which says how
//! the job ended and what is missing. Where the file system gives no room ahead, it does without.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, fstatvfs};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use weigh_schema::update::Update;

/// Room for the end: a summary takes 17 KB, and more with limits, snapshots and file systems.
const ROOM_BYTES: u64 = 64 * 1024;
/// A small disk gives less: so large a part of what is free.
const ROOM_PART: u64 = 2;

/// Entries are handed to the kernel at least whenever so much of them has gathered.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct JournalFile {
    file: File,
    /// Bytes that were written.
    length: u64,
    /// Up to here the file system has set room aside.
    room_end: u64,
    /// So much of it is kept for the end; none where there is no room ahead.
    kept: Option<u64>,
    /// Whether what was written last is no whole line.
    is_cut: bool,
    /// Whether a whole line was written.
    has_line: bool,
}

impl JournalFile {
    /// A file that is new.
    pub(crate) fn new(file: File) -> JournalFile {
        // Tells a reader that the journal still grows. Where the file system has no locks, the
        // reader takes the recording for one that was cut short: nothing is lost by that.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut journal = JournalFile {
            file,
            length: 0,
            room_end: 0,
            kept: None,
            is_cut: false,
            has_line: false,
        };
        let room = free_bytes(&journal.file).map_or(0, |free| ROOM_BYTES.min(free / ROOM_PART));
        journal.kept = Some(room).filter(|room| *room > 0 && journal.allocate(*room).is_ok());
        journal
    }

    /// Whether a reader holds a record lock on it, which says that somebody watches.
    pub(crate) fn is_watched(&self) -> bool {
        fcntl_getlk(&self.file, &Flock::from(FlockType::WriteLock)).is_ok_and(|lock| lock.is_some())
    }

    /// Writes whole lines, if there is room for them beside the end. Otherwise says how many of them it did not write.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), (io::Error, u64)> {
        let Err(error) = self.make_room(lines.len() as u64) else { return self.write_all(lines) };
        let (fit, rest) = lines.split_at(self.whole_lines_that_fit(lines));
        let lost = count_lines(rest);
        self.write_all(fit).map_err(|(error, more)| (error, more + lost))?;
        Err((error, lost))
    }

    /// Bytes of the first lines for which there is room beside the end.
    fn whole_lines_that_fit(&self, lines: &[u8]) -> usize {
        let room = self.room_end.saturating_sub(self.length + self.kept.unwrap_or(0));
        let within = &lines[..lines.len().min(room as usize)];
        within.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }

    /// Writes the last line, into the room that was kept for it.
    pub(crate) fn write_end(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_cut {
            self.write_all(b"\n").map_err(|(error, _)| error)?;
        }
        self.write_all(line).map_err(|(error, _)| error)
    }

    /// Whether there is anything in it to be read.
    pub(crate) fn has_line(&self) -> bool {
        self.has_line
    }

    /// Gives back what is left of the room: the file stays as it is.
    pub(crate) fn give_back_room(&self) {
        let _ = self.file.set_len(self.length);
    }

    fn write_all(&mut self, mut rest: &[u8]) -> Result<(), (io::Error, u64)> {
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(written) if written > 0 => {
                    self.length += written as u64;
                    self.is_cut = rest[written - 1] != b'\n';
                    self.has_line |= rest[..written].contains(&b'\n');
                    rest = &rest[written..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                refused => {
                    let error = refused.err().unwrap_or_else(|| ErrorKind::WriteZero.into());
                    return Err((error, count_lines(rest)));
                }
            }
        }
        Ok(())
    }

    fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let Some(kept) = self.kept else { return Ok(()) };
        let needed = self.length + bytes + kept;
        if needed <= self.room_end {
            return Ok(());
        }
        // In steps, not for every line.
        match self.allocate(needed + kept).or_else(|_| self.allocate(needed)) {
            Err(full @ (Errno::NOSPC | Errno::DQUOT)) => Err(full.into()),
            // What else is wrong with room ahead is no reason to write nothing.
            Err(_) => {
                self.kept = None;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Has room set aside up to there. The file's length does not change.
    fn allocate(&mut self, end: u64) -> Result<(), Errno> {
        let from = self.room_end;
        let flags = FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| fallocate(&self.file, flags, from, end.saturating_sub(from)))?;
        self.room_end = end;
        Ok(())
    }
}

/// What the file system of a file has left for this user.
fn free_bytes(file: &File) -> Option<u64> {
    let found = fstatvfs(file).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

/// One newline an entry: JSON has none inside.
fn count_lines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Adds an entry as a line; false if it is of an unknown kind.
pub(crate) fn add_line(buffer: &mut Vec<u8>, entry: &Update) -> bool {
    let before = buffer.len();
    if serde_json::to_writer(&mut *buffer, entry).is_err() {
        // What was written of it would spoil the next line.
        buffer.truncate(before);
        return false;
    }
    buffer.push(b'\n');
    true
}
