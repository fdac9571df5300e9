//! Reads a recording, complete or cut short.
//!
//! A directory with a summary is complete, whatever else is in it. One with a journal alone is
//! still being written, or was cut short; its rows are read from the journal. Anything else is
//! refused.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek as _};
use std::ops::{ControlFlow, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::Deserialize;
use weigh_schema::Printable;
use weigh_schema::io::{FileUse, IoCall, Moment, PlaceMoment};
use weigh_schema::recording::{ProcessRow, SampleRow, files};
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::summary::{SCHEMA, Summary};
use weigh_schema::update::Update;

use crate::error::{KeepError, harmless};
use crate::file_access::FileAccess;
use crate::held_rows::HeldRows;
use crate::journal::{Condition, JournalReader, LINE_BYTES_MAX};
use crate::latest_rows::Latest;
use crate::overview::{OverviewReading, RecordingOverview};
use crate::overview_table;
use crate::recovery::Tally;
use crate::sample_scan::{SampleVisit, scan_journal, scan_table};
use crate::table::Row;
use crate::table_reader::read_table_by;

/// Rows of a table, perhaps not all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows<T> {
    /// Those that were asked for, in the order in which they were recorded.
    pub rows: Vec<T>,
    /// How many there are in all.
    pub total: u64,
}

/// A recording on disk.
#[derive(Clone, Debug)]
pub struct Recording {
    dir: PathBuf,
    summary: Summary,
    /// Why it is not complete; none if it is.
    incomplete: Option<Incomplete>,
    access: FileAccess,
    /// Its rows but samples, where they were read already.
    rows: Option<Arc<HeldRows>>,
}

/// What one look at a directory found, if anything.
type Lookup = Result<Option<(Summary, Option<Incomplete>)>, KeepError>;

#[derive(Clone, Debug)]
pub(crate) struct Incomplete {
    pub(crate) running: bool,
    pub(crate) because: String,
}

impl Recording {
    /// Opens the recording in `dir`.
    pub fn open(dir: &Path) -> Result<Recording, KeepError> {
        Recording::open_by(dir, FileAccess::Named)
    }

    /// Opens the recording in a folder that was found, and that somebody else may write to: its files are read only
    /// where they are plain files of the folder's owner, and no links.
    pub fn open_found(dir: &Path) -> Result<Recording, KeepError> {
        let access = FileAccess::of_found(dir).map_err(|e| KeepError::read(dir, e))?;
        Recording::open_by(dir, access)
    }

    fn open_by(dir: &Path, access: FileAccess) -> Result<Recording, KeepError> {
        let found = std::fs::metadata(dir).map_err(|e| match e.kind() {
            ErrorKind::NotFound => KeepError::NoSuchDirectory { path: dir.to_path_buf() },
            _ => KeepError::read(dir, e),
        })?;
        if !found.is_dir() {
            return Err(KeepError::NotADirectory { path: dir.to_path_buf() });
        }
        let complete = || {
            let summary = read_summary(&dir.join(files::SUMMARY), access)?;
            Ok(summary.map(|summary| (summary, None)))
        };
        let partial = || {
            let found = open_journal(&dir.join(files::JOURNAL), access)?;
            Ok(found.map(|(summary, incomplete)| (summary, Some(incomplete))))
        };
        // The third look is for one that was being finished between the first two.
        let looks: [&dyn Fn() -> Lookup; 3] = [&complete, &partial, &complete];
        for look in looks {
            if let Some((summary, incomplete)) = look()? {
                return Ok(Recording {
                    dir: dir.to_path_buf(),
                    summary,
                    incomplete,
                    access,
                    rows: None,
                });
            }
        }
        Err(KeepError::NotARecording { path: dir.to_path_buf() })
    }

    /// The recording that has just been finished in `dir`: its summary is known, and is not read again.
    pub(crate) fn of_finished(dir: &Path, summary: Summary) -> Recording {
        Recording {
            dir: dir.to_path_buf(),
            summary,
            incomplete: None,
            access: FileAccess::Named,
            rows: None,
        }
    }

    /// A recording whose journal was read as far as it goes.
    pub(crate) fn of_growing(
        dir: &Path,
        access: FileAccess,
        summary: Summary,
        incomplete: Incomplete,
        rows: Arc<HeldRows>,
    ) -> Recording {
        let dir = dir.to_path_buf();
        Recording { dir, summary, incomplete: Some(incomplete), access, rows: Some(rows) }
    }

    pub(crate) fn held_rows(&self) -> Option<&HeldRows> {
        self.rows.as_deref()
    }

    pub(crate) fn access(&self) -> FileAccess {
        self.access
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// The summary; of an incomplete recording, as far as it is known.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Whether weigh finished it.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_none()
    }

    /// Whether weigh was still writing it when it was opened.
    pub fn is_running(&self) -> bool {
        self.incomplete.as_ref().is_some_and(|incomplete| incomplete.running)
    }

    /// Why it is incomplete, in a sentence for people; none if it is complete.
    pub fn incomplete_because(&self) -> Option<&str> {
        self.incomplete.as_ref().map(|incomplete| incomplete.because.as_str())
    }

    /// The samples, `limit` of them at most.
    pub fn samples(&self, limit: Option<usize>) -> Result<Rows<SampleRow>, KeepError> {
        self.rows(limit)
    }

    /// The processes, `limit` of them at most.
    pub fn processes(&self, limit: Option<usize>) -> Result<Rows<ProcessRow>, KeepError> {
        self.rows(limit)
    }

    /// The files, `limit` of them at most.
    pub fn files(&self, limit: Option<usize>) -> Result<Rows<FileUse>, KeepError> {
        self.rows(limit)
    }

    /// Shows the first files to `visit`, `limit` of them at most; returns how many there are in all.
    pub fn first_files(
        &self,
        limit: usize,
        mut visit: impl FnMut(FileUse),
    ) -> Result<u64, KeepError> {
        let mut left = limit;
        self.visit(&mut |row| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            visit(row);
            ControlFlow::Continue(())
        })
    }

    /// Shows every sample to `visit`, in bounded memory; returns how many there are.
    pub fn each_sample(&self, mut visit: impl FnMut(SampleRow)) -> Result<u64, KeepError> {
        self.each(&mut |row| visit(row))
    }

    /// Shows the samples of the interval, in nanoseconds since the Unix epoch, to `visit`: row groups that lie outside are
    /// not read.
    pub fn scan_samples(
        &self,
        interval: RangeInclusive<i64>,
        visit: &mut SampleVisit<'_>,
    ) -> Result<(), KeepError> {
        let table = self.dir.join(files::SERIES);
        if self.is_complete() {
            return scan_table(self.access, &table, &interval, visit);
        }
        let path = self.dir.join(files::JOURNAL);
        match self.access.open(&path) {
            Ok(file) => scan_journal(&path, file, &interval, visit),
            // It has been finished since it was opened.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                scan_table(self.access, &table, &interval, visit)
            }
            Err(e) => Err(KeepError::read(&path, e)),
        }
    }

    /// All series in bounded memory: read where a long recording keeps them so, else made of all samples.
    pub fn series_overview(&self) -> Result<RecordingOverview, KeepError> {
        let kept = self.dir.join(files::SERIES_OVERVIEW);
        if self.is_complete() && kept.symlink_metadata().is_ok() {
            return overview_table::read(self.access, &kept);
        }
        let mut reading = OverviewReading::default();
        self.scan_samples(i64::MIN..=i64::MAX, &mut |sample| reading.push(sample))?;
        Ok(reading.finish())
    }

    /// Shows every process to `visit`, in bounded memory; returns how many there are.
    pub fn each_process(&self, mut visit: impl FnMut(ProcessRow)) -> Result<u64, KeepError> {
        self.each(&mut |row| visit(row))
    }

    /// Shows every file to `visit`, in bounded memory; returns how many there are.
    pub fn each_file(&self, mut visit: impl FnMut(FileUse)) -> Result<u64, KeepError> {
        self.each(&mut |row| visit(row))
    }

    /// Shows what was read and written over time; returns how many rows there are, none where files were
    /// not followed.
    pub fn each_io_moment(&self, mut visit: impl FnMut(Moment)) -> Result<u64, KeepError> {
        if self.summary.io.is_none() {
            return Ok(0);
        }
        self.each(&mut |row| visit(row))
    }

    /// Shows where in the files that was.
    pub fn each_io_place(&self, mut visit: impl FnMut(PlaceMoment)) -> Result<u64, KeepError> {
        if self.summary.io.is_none() {
            return Ok(0);
        }
        self.each(&mut |row| visit(row))
    }

    /// Whether calls that were about files may be in it.
    pub fn has_io_calls(&self) -> bool {
        !self.is_complete() || self.dir.join(files::IO_CALLS).exists()
    }

    /// Shows every call that was about a file; returns how many there are, none where they were not wanted.
    pub fn each_io_call(&self, mut visit: impl FnMut(IoCall)) -> Result<u64, KeepError> {
        if !self.has_io_calls() {
            return Ok(0);
        }
        self.each(&mut |row| visit(row))
    }

    /// Shows every region, at each place in the call tree of each thread; returns how many there are, none where no
    /// program told of any.
    pub fn each_region(&self, mut visit: impl FnMut(RegionRow)) -> Result<u64, KeepError> {
        if self.is_complete() && !self.dir.join(files::REGIONS).exists() {
            return Ok(0);
        }
        self.each(&mut |row| visit(row))
    }

    /// Shows every phase that has ended; returns how many there are.
    pub fn each_phase(&self, mut visit: impl FnMut(PhaseRow)) -> Result<u64, KeepError> {
        if self.is_complete() && !self.dir.join(files::PHASES).exists() {
            return Ok(0);
        }
        self.each(&mut |row| visit(row))
    }

    fn each<R: Row>(&self, visit: &mut dyn FnMut(R)) -> Result<u64, KeepError> {
        self.visit(&mut |row| {
            visit(row);
            ControlFlow::Continue(())
        })
    }

    fn rows<R: Row>(&self, limit: Option<usize>) -> Result<Rows<R>, KeepError> {
        let limit = limit.unwrap_or(usize::MAX);
        let mut rows = Vec::new();
        let total = self.visit(&mut |row| {
            if rows.len() == limit {
                return ControlFlow::Break(());
            }
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        Ok(Rows { rows, total })
    }

    /// Shows rows until `visit` breaks off; returns how many there are in all.
    fn visit<R: Row>(&self, visit: &mut dyn FnMut(R) -> ControlFlow<()>) -> Result<u64, KeepError> {
        if self.is_complete() {
            return read_table_by(self.access, &self.dir.join(R::FILE), visit);
        }
        if let Some(rows) = self.held_rows().filter(|_| R::FILE != files::SERIES) {
            return Ok(visit_held(rows, visit));
        }
        let path = self.dir.join(files::JOURNAL);
        let file = match self.access.open(&path) {
            Ok(file) => file,
            // It has been finished since it was opened.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return read_table_by(self.access, &self.dir.join(R::FILE), visit);
            }
            Err(e) => return Err(KeepError::read(&path, e)),
        };
        read_journal(&path, file, visit)
    }
}

fn visit_held<R: Row>(rows: &HeldRows, visit: &mut dyn FnMut(R) -> ControlFlow<()>) -> u64 {
    let latest = R::latest().map(|mut latest| {
        rows.entries(R::FILE).for_each(|entry| latest.show(entry));
        latest
    });
    let (mut total, mut wanted) = (0, true);
    for (place, entry) in (0..).zip(rows.entries(R::FILE)) {
        if latest.as_ref().is_none_or(|latest| latest.holds(place, entry)) {
            R::from_entry(entry.clone(), &mut |row| {
                total += 1;
                wanted = wanted && visit(row).is_continue();
            });
        }
    }
    total
}

fn read_journal<R: Row>(
    path: &Path,
    mut file: File,
    visit: &mut dyn FnMut(R) -> ControlFlow<()>,
) -> Result<u64, KeepError> {
    // A journal may grow between the two times that it is read: what is new then is left for later.
    let latest = R::latest().map(|latest| all_shown(path, &mut file, latest)).transpose()?;
    let mut journal = JournalReader::new(BufReader::new(file));
    let (mut total, mut place) = (0, 0);
    let mut wanted = true;
    let has_samples = R::FILE == files::SERIES;
    while let Some(entry) = journal.next_of(has_samples).map_err(|e| KeepError::read(path, e))? {
        if latest.as_ref().is_none_or(|latest| latest.holds(place, &entry)) {
            R::from_entry(entry, &mut |row| {
                total += 1;
                wanted = wanted && visit(row).is_continue();
            });
        }
        place += 1;
    }
    Ok(total)
}

fn all_shown(path: &Path, file: &mut File, mut latest: Latest) -> Result<Latest, KeepError> {
    let mut journal = JournalReader::new(BufReader::new(&mut *file));
    while let Some(entry) = journal.next_of(false).map_err(|e| KeepError::read(path, e))? {
        latest.show(&entry);
    }
    file.rewind().map_err(|e| KeepError::read(path, e))?;
    Ok(latest)
}

/// The part of a summary that every version has.
#[derive(Deserialize)]
struct Versioned {
    schema: String,
}

/// Reads `summary.json`; none if there is no such file.
fn read_summary(path: &Path, access: FileAccess) -> Result<Option<Summary>, KeepError> {
    let text = match read_bounded(path, access) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(KeepError::read(path, e)),
    };
    // First the version alone: a later one may look quite different.
    let versioned: Versioned =
        serde_json::from_slice(&text).map_err(|e| KeepError::damaged(path, e))?;
    check_schema(path, &versioned.schema)?;
    serde_json::from_slice(&text).map(Some).map_err(|e| KeepError::damaged(path, e))
}

pub(crate) fn check_schema(path: &Path, found: &str) -> Result<(), KeepError> {
    if found == SCHEMA {
        return Ok(());
    }
    Err(KeepError::UnknownSchema {
        path: path.to_path_buf(),
        found: harmless(found),
        reads: SCHEMA,
    })
}

/// Reads a file that is no longer than a line of a journal may be.
fn read_bounded(path: &Path, access: FileAccess) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    access.open(path)?.take(LINE_BYTES_MAX + 1).read_to_end(&mut text)?;
    match text.len() as u64 > LINE_BYTES_MAX {
        true => Err(std::io::Error::other("it is longer than a summary can be")),
        false => Ok(text),
    }
}

/// Goes through a journal; none if there is no such file.
fn open_journal(
    path: &Path,
    access: FileAccess,
) -> Result<Option<(Summary, Incomplete)>, KeepError> {
    let file = match access.open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(KeepError::read(path, e)),
    };
    // The writer holds a lock as long as it lives.
    let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
    let running = lock == Err(Errno::WOULDBLOCK);
    let mut journal = JournalReader::new(BufReader::new(file));
    let mut tally = Tally::default();
    while let Some(entry) = journal.next_entry().map_err(|e| KeepError::read(path, e))? {
        if let Update::Started(summary) | Update::Summary(summary) = &entry {
            check_schema(path, &summary.schema)?;
        }
        tally.take(entry);
    }
    let condition = journal.condition;
    let last_time = tally.last_time();
    let Some(summary) = tally.into_summary() else {
        return Err(no_beginning(path, access, &condition));
    };
    let because = sentence(running, &summary, last_time, &condition);
    Ok(Some((summary, Incomplete { running, because })))
}

/// Why a journal does not say which job it is about.
fn no_beginning(path: &Path, access: FileAccess, condition: &Condition) -> KeepError {
    // A later version's summary is no entry to this one, but it still says its version.
    let first = access.open(path).and_then(|file| {
        let mut line = Vec::new();
        BufReader::new(file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map(|_| line)
    });
    let versioned = first.ok().and_then(|line| serde_json::from_slice::<Versioned>(&line).ok());
    if let Some(Err(unknown)) = versioned.map(|first| check_schema(path, &first.schema)) {
        return unknown;
    }
    KeepError::NoBeginning {
        path: path.to_path_buf(),
        lines: condition.lines,
        damaged: condition.damaged,
    }
}

/// Why a recording is incomplete, for people.
pub(crate) fn sentence(
    running: bool,
    summary: &Summary,
    last_time: Option<Timestamp>,
    condition: &Condition,
) -> String {
    let mut text = match (running, summary.exit.is_some()) {
        (true, _) => "still being recorded".to_string(),
        (false, false) => {
            "incomplete: it has no end (weigh was killed, the machine went down, or the disk was full)"
                .to_string()
        }
        (false, true) => {
            "incomplete: the job had ended, but weigh could not write the tables".to_string()
        }
    };
    match last_time {
        Some(time) => text += &format!("; it holds what was recorded up to {time:.3}"),
        None => text += "; nothing was recorded but the start",
    }
    // While it grows, a last line that is half written is what one expects.
    if condition.cut_off && !running {
        text += "; its last line was cut off";
    }
    if let Some((line, reason)) = &condition.first_damage {
        let damaged = condition.damaged;
        text += &format!(
            "; damaged lines passed over: {damaged} (first: line {line}, {})",
            Printable(reason)
        );
    }
    text
}
