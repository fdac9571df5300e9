//! A recording: being written, complete, or cut short.
//!
//! While the job runs there is a journal; when it has ended, that becomes the tables and the summary. A directory with a
//! summary is complete, whatever else is in it. One with a journal alone is still being written, or was cut short; its
//! rows are read from the journal. Anything else is refused.
//!
//! An error while the job runs never stops the measuring: the first is remembered, everything
//! after it is counted as lost, and both are told at the end.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weigh_schema::Mechanism;
use weigh_schema::call::CallsReport;
use weigh_schema::event::CollectorStatus;
use weigh_schema::io::{FileUse, IoCall, Moment, PlaceMoment};
use weigh_schema::recording::{ProcessRow, RECORDING, SampleRow, files};
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::sink::Sink;
use weigh_schema::summary::Summary;
use weigh_schema::update::Update;

use crate::atomic::write_json;
use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::held_rows::HeldRows;
use crate::io::file_columns;
use crate::journal::JournalReader;
use crate::journal_file::{BUFFER_BYTES, JournalFile, add_line};
use crate::journal_rows::{read_journal, visit_held};
use crate::json_floats::{finite_entry, finite_summary};
use crate::overview_table;
use crate::recovery::{Incomplete, open_journal, read_summary};
use crate::table::Row;
use crate::table_reader::read_table_by;
use crate::table_writer::TableWriter;

/// What a recording may leave in its directory.
pub(crate) const ALL: &[&str] = &[
    files::SUMMARY,
    files::JOURNAL,
    files::SERIES,
    files::SERIES_OVERVIEW,
    files::PROCESSES,
    files::FILES,
    files::IO_SERIES,
    files::IO_PLACES,
    files::IO_CALLS,
    files::CALLS,
    files::REGIONS,
    files::PHASES,
];

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

    /// Shows rows until `visit` breaks off; returns how many there are in all.
    pub(crate) fn visit<R: Row>(
        &self,
        visit: &mut dyn FnMut(R) -> ControlFlow<()>,
    ) -> Result<u64, KeepError> {
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

/// A recording that is being made.
#[derive(Debug)]
pub struct RecordingWriter {
    dir: PathBuf,
    /// By its full name.
    full: PathBuf,
    journal: JournalFile,
    /// Whole lines that the kernel does not have yet.
    buffer: Vec<u8>,
    error: Option<io::Error>,
    lost: u64,
    not_finite: u64,
    /// How the job ended.
    end: Option<Summary>,
}

/// What became of a recording.
#[derive(Debug)]
pub struct Finished {
    /// The recording: its summary is the session's, and what the recording itself has lost.
    pub recording: Recording,
    /// Rows in the table of samples.
    pub samples: u64,
    /// Rows in the table of processes.
    pub processes: u64,
    /// Rows in the table of files.
    pub files: u64,
    /// Entries that could not be kept.
    pub lost: u64,
    /// Numbers that were left out because they were not finite.
    pub not_finite: u64,
    /// The first error while the job ran.
    pub error: Option<io::Error>,
}

impl RecordingWriter {
    /// Makes the directory, and in it the journal, so that a place that cannot be written to is
    /// found before the job starts. Refuses a directory that already holds a recording.
    pub fn create(dir: &Path) -> Result<RecordingWriter, KeepError> {
        std::fs::create_dir_all(dir).map_err(|e| match std::fs::metadata(dir) {
            Ok(found) if !found.is_dir() => KeepError::NotADirectory { path: dir.to_path_buf() },
            _ => KeepError::write(dir, e),
        })?;
        let taken = |found| KeepError::AlreadyRecorded { path: dir.to_path_buf(), found };
        for name in ALL {
            if dir.join(name).symlink_metadata().is_ok() {
                return Err(taken(name));
            }
        }
        let path = dir.join(files::JOURNAL);
        let journal =
            OpenOptions::new().append(true).create_new(true).open(&path).map_err(|e| {
                // Another weigh was faster.
                if e.kind() == ErrorKind::AlreadyExists {
                    taken(files::JOURNAL)
                } else {
                    KeepError::write(&path, e)
                }
            })?;
        Ok(RecordingWriter::on(dir, journal))
    }

    fn on(dir: &Path, journal: File) -> RecordingWriter {
        RecordingWriter {
            dir: dir.to_path_buf(),
            full: dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf()),
            journal: JournalFile::new(journal),
            buffer: Vec::new(),
            error: None,
            lost: 0,
            not_finite: 0,
            end: None,
        }
    }

    /// The directory. Its full name once the given one leads nowhere: the working directory may be gone.
    pub fn directory(&self) -> &Path {
        if self.dir.canonicalize().is_ok() { &self.dir } else { &self.full }
    }

    /// Takes in an entry; it is written at the next [`flush`](Self::flush).
    pub fn append(&mut self, entry: &Update) {
        let (entry, not_finite) = finite_entry(entry);
        self.not_finite += not_finite;
        if self.error.is_some() {
            self.lost += 1;
            return;
        }
        if !add_line(&mut self.buffer, entry.as_ref()) {
            self.lost += 1;
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Hands to the kernel what was taken in, so that it outlives weigh.
    pub fn flush(&mut self) {
        if let Err((error, lost)) = self.journal.write(&self.buffer) {
            self.error.get_or_insert(error);
            self.lost += lost;
        }
        self.buffer.clear();
    }

    /// Whether a reader wants to see entries soon after they are made ([`JournalTail::watch`](crate::JournalTail::watch)).
    pub fn is_watched(&self) -> bool {
        self.journal.is_watched()
    }

    /// The last entry, for which room was kept: how the job ended, and what the recording lacks.
    fn append_end(&mut self, mut summary: Summary) {
        self.flush();
        if self.error.is_some() {
            summary.collectors.push(self.own_status(self.lost));
        }
        let mut line = Vec::new();
        add_line(&mut line, &Update::Summary(Box::new(summary)));
        if let Err(error) = self.journal.write_end(&line) {
            self.error.get_or_insert(error);
            self.lost += 1;
        }
    }

    /// The first error since the recording was begun: from then on nothing is kept.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Entries that could not be kept so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Gives the recording up and removes it; the directory too, if nothing else is in it.
    pub fn discard(mut self) {
        self.buffer.clear();
        // The directory may not have been weigh's, or may hold other things; then it stays.
        let _ = std::fs::remove_file(self.dir.join(files::JOURNAL));
        let _ = std::fs::remove_dir(&self.dir);
    }

    /// Makes the tables and the summary of the journal, and removes the journal. If that fails,
    /// the journal stays, and in it, if it could still be written, the summary. A journal without a line goes.
    pub fn close(mut self) -> Result<Finished, KeepError> {
        self.dir = self.directory().to_path_buf();
        let finished = match self.end.take() {
            Some(summary) => self.make_tables(summary),
            None => Err(KeepError::NotARecording { path: self.dir.clone() }),
        };
        match finished {
            // Left behind it does no harm: a directory with a summary is complete.
            Ok(_) => drop(std::fs::remove_file(self.dir.join(files::JOURNAL))),
            Err(_) => self.leave_journal(),
        }
        if finished.is_err() && !self.journal.has_line() {
            self.discard();
        }
        finished
    }

    /// The journal alone: tables without a summary are of no use, and a disk may be full.
    fn leave_journal(&self) {
        for name in ALL.iter().filter(|name| **name != files::JOURNAL) {
            let _ = std::fs::remove_file(self.dir.join(name));
        }
        self.journal.give_back_room();
    }

    fn make_tables(&mut self, mut summary: Summary) -> Result<Finished, KeepError> {
        let path = self.dir.join(files::JOURNAL);
        let mut tables = Tables::create(&self.dir, summary.io.is_some())?;
        let damaged = tables.fill_from(&path)?;
        if let Some(calls) = &tables.calls {
            write_json(&self.dir, files::CALLS, calls)?;
        }
        let (samples, processes, rows_of_files) = tables.finish()?;
        if samples >= overview_table::SAMPLES_FROM {
            overview_table::write_of(&self.dir)?;
        }
        let lost = self.lost + damaged;
        if lost > 0 || self.error.is_some() {
            summary.collectors.push(self.own_status(lost));
        }
        write_json(&self.dir, files::SUMMARY, &summary)?;
        Ok(Finished {
            recording: Recording::of_finished(&self.dir, summary),
            samples,
            processes,
            files: rows_of_files,
            lost,
            not_finite: self.not_finite,
            error: self.error.take(),
        })
    }

    /// What the recording has to say of itself among the collectors.
    fn own_status(&self, lost: u64) -> CollectorStatus {
        let reason = match &self.error {
            Some(error) => format!("the journal could not be written: {error}"),
            None => "entries could not be encoded, or were damaged in the journal".to_string(),
        };
        let status = CollectorStatus::of_reasons(RECORDING.name, Mechanism::None, &[reason]);
        CollectorStatus { lost, ..status }
    }
}

impl Sink for RecordingWriter {
    fn emit(&mut self, update: &Update) {
        self.append(update);
    }

    fn flush(&mut self) {
        RecordingWriter::flush(self);
    }

    fn is_watched(&self) -> bool {
        RecordingWriter::is_watched(self)
    }

    fn error(&self) -> Option<String> {
        let error = RecordingWriter::error(self)?;
        let place = self.dir.display();
        Some(format!("the recording cannot be written to {place}: {error}"))
    }

    fn finish(&mut self, summary: &Summary) {
        let (summary, not_finite) = finite_summary(summary.clone());
        self.not_finite += not_finite;
        self.append_end(summary.clone());
        self.end = Some(summary);
    }
}

impl Drop for RecordingWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The tables of a recording, being written side by side.
struct Tables {
    series: TableWriter<SampleRow>,
    processes: TableWriter<ProcessRow>,
    files: TableWriter<FileUse>,
    /// Where files were followed.
    io: Option<(TableWriter<Moment>, TableWriter<PlaceMoment>)>,
    /// Where each call was wanted: made when the first one comes.
    io_calls: Option<TableWriter<IoCall>>,
    /// Where system calls were followed: the latest.
    calls: Option<Box<CallsReport>>,
    /// Where programs told of regions: made when the first row comes.
    regions: Option<TableWriter<RegionRow>>,
    phases: Option<TableWriter<PhaseRow>>,
    dir: PathBuf,
}

impl Tables {
    /// What files were used for has columns where it was followed.
    fn create(dir: &Path, has_uses: bool) -> Result<Tables, KeepError> {
        Ok(Tables {
            series: TableWriter::create(dir)?,
            processes: TableWriter::create(dir)?,
            files: TableWriter::create_of(dir, file_columns(has_uses))?,
            io: match has_uses {
                true => Some((TableWriter::create(dir)?, TableWriter::create(dir)?)),
                false => None,
            },
            io_calls: None,
            calls: None,
            regions: None,
            phases: None,
            dir: dir.to_path_buf(),
        })
    }

    /// Takes in every row of a journal; returns how many of its lines were damaged.
    fn fill_from(&mut self, path: &Path) -> Result<u64, KeepError> {
        let file = File::open(path).map_err(|e| KeepError::read(path, e))?;
        let mut journal = JournalReader::new(BufReader::with_capacity(BUFFER_BYTES, file));
        while let Some(entry) = journal.next_entry().map_err(|e| KeepError::read(path, e))? {
            match entry {
                Update::IoInterval(_) | Update::OffsetHistogram(_) => self.push_io(entry)?,
                Update::Syscall(row) => push_first(&mut self.io_calls, &self.dir, &row)?,
                Update::SyscallTotals(report) => self.calls = Some(report),
                Update::Region(row) => push_first(&mut self.regions, &self.dir, &row)?,
                Update::Phase(row) => push_first(&mut self.phases, &self.dir, &row)?,
                Update::Samples { .. } => push(&mut self.series, entry)?,
                Update::Process(_) => push(&mut self.processes, entry)?,
                Update::FileUse(_) => push(&mut self.files, entry)?,
                Update::Started(_) | Update::Snapshot(_) | Update::Summary(_) | Update::Unknown => {
                }
                // Each has come as a whole row since.
                Update::FileUseSoFar(_) | Update::RegionSoFar(_) | Update::IoTotals(_) => {}
            }
        }
        Ok(journal.condition.damaged)
    }

    fn push_io(&mut self, entry: Update) -> Result<(), KeepError> {
        match (&mut self.io, &entry) {
            (Some((moments, _)), Update::IoInterval(_)) => push(moments, entry),
            (Some((_, places)), _) => push(places, entry),
            (None, _) => Ok(()),
        }
    }

    fn finish(self) -> Result<(u64, u64, u64), KeepError> {
        self.io_calls.map(TableWriter::finish).transpose()?;
        self.regions.map(TableWriter::finish).transpose()?;
        self.phases.map(TableWriter::finish).transpose()?;
        if let Some((moments, places)) = self.io {
            moments.finish()?;
            places.finish()?;
        }
        Ok((self.series.finish()?, self.processes.finish()?, self.files.finish()?))
    }
}

/// A row of a table that is made when the first one comes.
fn push_first<R: Row>(
    table: &mut Option<TableWriter<R>>,
    dir: &Path,
    row: &R,
) -> Result<(), KeepError> {
    match table {
        Some(table) => table,
        none => none.insert(TableWriter::create(dir)?),
    }
    .push(row)
}

fn push<R: Row>(table: &mut TableWriter<R>, entry: Update) -> Result<(), KeepError> {
    let mut result = Ok(());
    R::from_entry(entry, &mut |row| {
        if result.is_ok() {
            result = table.push(&row);
        }
    });
    result
}

#[cfg(test)]
mod tests;
