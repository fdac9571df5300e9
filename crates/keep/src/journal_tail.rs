//! Follows the journal of a running job: each time what has been added since.
//!
//! Reads whole lines and emits their entries, in bounded steps; keeps what the entries say of the job as a whole. The
//! end of a line that is still being written is left for the next time. A line that is no entry, or longer than one
//! can be, is passed over and counted.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use weigh_schema::recording::files;
use weigh_schema::summary::Summary;
use weigh_schema::update::Update;

use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::journal::parse_line;
use crate::journal_index::{JournalIndex, JournalParts};
use crate::recovery::Tally;

/// Read at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// A longer line is passed over: nobody waits for it.
const LINE_BYTES: usize = 8 * 1024 * 1024;
/// Its writer locks a journal when it has made it: so young a one is not tried, or the writer might find it locked.
const NEW_FOR: Duration = Duration::from_secs(2);

/// A journal that is being followed.
#[derive(Debug)]
pub struct JournalTail {
    path: PathBuf,
    file: Arc<File>,
    /// Up to here it was read.
    at: u64,
    /// The beginning of a line.
    line: Vec<u8>,
    /// Where that line begins.
    line_at: u64,
    index: JournalIndex,
    /// Whether the rest of the line is passed over.
    is_too_long: bool,
    tally: Tally,
    damaged: u64,
}

/// What one reading has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailProgress {
    /// Bytes that were read.
    pub bytes: u64,
    /// Whether it was read to its present end.
    pub is_at_end: bool,
}

impl JournalTail {
    /// Opens the journal of the recording in a folder that was found, as [`Recording::open_found`](crate::Recording::open_found)
    /// does; none if there is no journal.
    pub fn open_found(dir: &Path) -> Result<Option<JournalTail>, KeepError> {
        let access = FileAccess::of_found(dir).map_err(|e| KeepError::read(dir, e))?;
        let path = dir.join(files::JOURNAL);
        let file = match access.open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(KeepError::read(&path, e)),
        };
        Ok(Some(JournalTail {
            path,
            file: Arc::new(file),
            at: 0,
            line: Vec::new(),
            line_at: 0,
            index: JournalIndex::default(),
            is_too_long: false,
            tally: Tally::default(),
            damaged: 0,
        }))
    }

    /// Shows to `visit` what was added, of some `at_most` bytes.
    pub fn read_on(
        &mut self,
        at_most: u64,
        visit: &mut dyn FnMut(&Update),
    ) -> Result<TailProgress, KeepError> {
        // No more room than there is to read: many journals are looked at again and again.
        let length = self.file.metadata().map_or(u64::MAX, |found| found.len());
        let new_bytes = usize::try_from(length.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let mut chunk = vec![0; new_bytes.clamp(1, CHUNK_BYTES)];
        let mut progress = TailProgress::default();
        while progress.bytes < at_most {
            let read = match self.file.read_at(&mut chunk, self.at) {
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(KeepError::read(&self.path, e)),
            };
            if read == 0 {
                progress.is_at_end = true;
                break;
            }
            self.at += read as u64;
            progress.bytes += read as u64;
            self.take_bytes(&chunk[..read], visit);
        }
        Ok(progress)
    }

    fn take_bytes(&mut self, mut bytes: &[u8], visit: &mut dyn FnMut(&Update)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end + 1);
            self.add_to_line(line);
            self.end_line(visit);
            self.line_at = self.at - rest.len() as u64;
            bytes = rest;
        }
        self.add_to_line(bytes);
    }

    fn add_to_line(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.line.len() + bytes.len() > LINE_BYTES;
        match self.is_too_long {
            true => self.line = Vec::new(),
            false => self.line.extend_from_slice(bytes),
        }
    }

    fn end_line(&mut self, visit: &mut dyn FnMut(&Update)) {
        let is_too_long = std::mem::take(&mut self.is_too_long);
        match parse_line(&self.line) {
            Ok(entry) if !is_too_long => {
                visit(&entry);
                if let Update::Samples { time_ns, .. } = &entry {
                    self.index.push(self.line_at, *time_ns);
                }
                // They may be many and large, and nobody asks for them while the job runs.
                if !matches!(entry, Update::Snapshot(_) | Update::IoTotals(_)) {
                    self.tally.take(entry);
                }
            }
            _ => self.damaged += 1,
        }
        self.line.clear();
    }

    /// The summary as far as it is known, without snapshots and what was read and written; none before the first entry.
    pub fn summary(&self) -> Option<Summary> {
        self.tally.clone().into_summary()
    }

    /// Where samples of the interval, in nanoseconds since the Unix epoch, are in what was read so far.
    pub fn parts(&self, interval: RangeInclusive<i64>) -> JournalParts {
        let parts = self.index.parts(&interval, self.line_at);
        JournalParts { path: self.path.clone(), file: self.file.clone(), parts, interval }
    }

    /// Lines that were passed over.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Tells the writer that somebody watches: it takes samples more often then, if it may. A record lock of this process
    /// says so, and is gone when the process is, or closes any descriptor of the journal: to be called again and again.
    pub fn watch(&self) {
        // Where there are no such locks samples come as they would.
        let _ = rustix::fs::fcntl_lock(&*self.file, FlockOperation::NonBlockingLockShared);
    }

    /// Nobody watches any more.
    pub fn unwatch(&self) {
        let _ = rustix::fs::fcntl_lock(&*self.file, FlockOperation::NonBlockingUnlock);
    }

    /// Whether its writer still lives, as far as can be told.
    pub fn is_being_written(&self) -> bool {
        let age = |changed: SystemTime| SystemTime::now().duration_since(changed).ok();
        let changed = self.file.metadata().and_then(|found| found.modified()).ok();
        if changed.and_then(age).is_none_or(|age| age < NEW_FOR) {
            return true;
        }
        let lock = rustix::fs::flock(&*self.file, FlockOperation::NonBlockingLockShared);
        if lock.is_ok() {
            let _ = rustix::fs::flock(&*self.file, FlockOperation::Unlock);
        }
        lock == Err(Errno::WOULDBLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Write as _;
    use weigh_schema::update::Scope;

    fn sample(at: i64) -> Update {
        let values = BTreeMap::from([("cpu_seconds".to_string(), at as f64)]);
        Update::Samples { time_ns: at, scope: Scope::Job, values }
    }

    fn times(tail: &mut JournalTail) -> Vec<i64> {
        let mut times = Vec::new();
        let read = tail.read_on(u64::MAX, &mut |entry| {
            if let Update::Samples { time_ns, .. } = entry {
                times.push(*time_ns);
            }
        });
        assert!(read.unwrap().is_at_end);
        times
    }

    #[test]
    fn each_line_comes_once_and_a_half_line_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = File::create(dir.path().join(files::JOURNAL)).unwrap();
        let line = |at| serde_json::to_string(&sample(at)).unwrap() + "\n";
        let mut tail = JournalTail::open_found(dir.path()).unwrap().unwrap();
        assert!(times(&mut tail).is_empty());
        let (one, two, three) = (line(1), line(2), line(3));
        let (begin, end) = two.split_at(20);
        file.write_all((one + begin).as_bytes()).unwrap();
        assert_eq!(times(&mut tail), [1]);
        file.write_all((end.to_string() + "no entry\n" + &three).as_bytes()).unwrap();
        assert_eq!(times(&mut tail), [2, 3]);
        assert_eq!((times(&mut tail), tail.damaged()), (vec![], 1));
    }

    #[test]
    fn of_an_interval_only_its_part_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = File::create(dir.path().join(files::JOURNAL)).unwrap();
        let mut tail = JournalTail::open_found(dir.path()).unwrap().unwrap();
        let write = |file: &mut File, times: std::ops::Range<i64>| {
            let lines = times.map(|at| serde_json::to_string(&sample(at)).unwrap() + "\n");
            file.write_all(lines.collect::<String>().as_bytes()).unwrap();
        };
        write(&mut file, 0..20_000);
        assert_eq!(times(&mut tail).len(), 20_000);
        write(&mut file, 20_000..40_000);
        file.write_all(b"{\"entry\":\"samples\",\"time_ns\":31000").unwrap();
        assert_eq!(times(&mut tail).len(), 20_000);
        let whole = tail.parts(i64::MIN..=i64::MAX).bytes();
        for (from, to) in [(0, 0), (19_990, 20_010), (30_999, 31_001), (39_999, 50_000)] {
            let parts = tail.parts(from..=to);
            let mut seen = Vec::new();
            parts.scan(&mut |found| seen.push((found.time_ns, found.value))).unwrap();
            let expected = (from..=to.min(39_999)).map(|at| (at, at as f64));
            assert!(seen.into_iter().eq(expected), "{from} to {to}");
            assert!(parts.bytes() < whole / 10, "{} of {whole} bytes", parts.bytes());
        }
        assert_eq!(tail.parts(40_000..=50_000).bytes(), 0);
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let mut text = vec![b'x'; LINE_BYTES + CHUNK_BYTES];
        text.extend(b"\n{\"entry\":\"samples\",\"time_ns\":7,\"scope\":\"job\",\"values\":{}}\n");
        std::fs::write(dir.path().join(files::JOURNAL), text).unwrap();
        let mut tail = JournalTail::open_found(dir.path()).unwrap().unwrap();
        assert_eq!(times(&mut tail), [7]);
        assert!(tail.line.capacity() < LINE_BYTES);
        assert_eq!(tail.damaged(), 1);
    }

    #[test]
    fn steps_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(files::JOURNAL), vec![b'\n'; 3 * CHUNK_BYTES]).unwrap();
        let mut tail = JournalTail::open_found(dir.path()).unwrap().unwrap();
        let step = |tail: &mut JournalTail| tail.read_on(CHUNK_BYTES as u64, &mut |_| {}).unwrap();
        let whole = TailProgress { bytes: CHUNK_BYTES as u64, is_at_end: false };
        assert_eq!([step(&mut tail), step(&mut tail), step(&mut tail)], [whole; 3]);
        assert_eq!(step(&mut tail), TailProgress { bytes: 0, is_at_end: true });
    }
}
