//! A recording that is being written: each time it is read on from where it was last read.
//!
//! Reads whole lines of the journal and keeps what they say, but for samples, in bounded memory; emits a [`Recording`] as
//! [`Recording::open_found`] would, whose rows are there already. The end of a line that is still being written is left for the
//! next time. Refuses nothing: where it cannot go on it says so, and the recording is to be read whole.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use weigh_schema::recording::files;
use weigh_schema::update::Update;

use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::held_rows::HeldRows;
use crate::journal::{Condition, JournalReader};
use crate::recording::Recording;
use crate::recovery::{Incomplete, Tally, check_schema, sentence};

/// Read at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// Rows take no more memory; a recording with more is read whole each time.
const MOST_BYTES: usize = 16 << 20;

/// The journal of a recording as far as it was read.
#[derive(Debug)]
pub struct GrowingRecording {
    dir: PathBuf,
    access: FileAccess,
    path: PathBuf,
    file: File,
    /// Up to here it was read: the beginning of a line.
    at: u64,
    tally: Tally,
    condition: Condition,
    rows: Arc<HeldRows>,
    bytes: usize,
    is_too_large: bool,
}

impl GrowingRecording {
    /// Opens the journal of the recording in a folder that was found; none if there is no journal.
    pub fn open_found(dir: &Path) -> Result<Option<GrowingRecording>, KeepError> {
        let access = FileAccess::of_found(dir).map_err(|e| KeepError::read(dir, e))?;
        let path = dir.join(files::JOURNAL);
        let file = match access.open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(KeepError::read(&path, e)),
        };
        Ok(Some(GrowingRecording {
            dir: dir.to_path_buf(),
            access,
            path,
            file,
            at: 0,
            tally: Tally::default(),
            condition: Condition::default(),
            rows: Arc::default(),
            bytes: 0,
            is_too_large: false,
        }))
    }

    /// The recording as it is now, in the folder that is at this path now; none where the journal is not the one that is being
    /// written there, or has more rows than are kept.
    pub fn read_on(&mut self, dir: &Path) -> Result<Option<Recording>, KeepError> {
        self.dir = dir.to_path_buf();
        self.path = dir.join(files::JOURNAL);
        if self.is_too_large || !self.is_being_written() {
            return Ok(None);
        }
        self.read_lines()?;
        self.bytes = self.rows.bytes();
        if self.bytes > MOST_BYTES {
            (self.is_too_large, self.bytes, self.rows) = (true, 0, Arc::default());
            return Ok(None);
        }
        let last_time = self.tally.last_time();
        let Some(summary) = self.tally.clone().into_summary() else { return Ok(None) };
        let because = sentence(true, &summary, last_time, &self.condition);
        let incomplete = Incomplete { running: true, because };
        let rows = self.rows.clone();
        Ok(Some(Recording::of_growing(dir, self.access, summary, incomplete, rows)))
    }

    /// Whether it has more rows than are kept: it is not read on any more.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Memory that its rows take, nearly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same file is there, no shorter than it was, and its writer holds it.
    fn is_being_written(&self) -> bool {
        let is_finished = self.dir.join(files::SUMMARY).symlink_metadata().is_ok();
        let (Ok(own), Ok(there)) = (self.file.metadata(), self.path.symlink_metadata()) else {
            return false;
        };
        let is_same = (own.dev(), own.ino()) == (there.dev(), there.ino()) && own.len() >= self.at;
        let lock = rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockShared);
        if lock.is_ok() {
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
        !is_finished && is_same && lock == Err(Errno::WOULDBLOCK)
    }

    fn read_lines(&mut self) -> Result<(), KeepError> {
        let failed = |e| KeepError::read(&self.path, e);
        (&self.file).seek(SeekFrom::Start(self.at)).map_err(failed)?;
        let input = BufReader::with_capacity(CHUNK_BYTES, &self.file);
        let mut journal = JournalReader::resumed(input, std::mem::take(&mut self.condition));
        let rows = Arc::make_mut(&mut self.rows);
        while let Some((entry, line_bytes)) = journal.next_whole().map_err(failed)? {
            if let Update::Started(summary) | Update::Summary(summary) = &entry {
                check_schema(&self.path, &summary.schema)?;
            }
            match entry {
                Update::Samples { .. } => self.tally.take(entry),
                entry => {
                    self.tally.take(entry.clone());
                    rows.push(entry, line_bytes);
                }
            }
        }
        self.at += journal.whole_bytes();
        self.condition = journal.condition;
        Ok(())
    }
}
