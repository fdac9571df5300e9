//! Writes a recording: the journal while the job runs, the tables and the summary when it has
//! ended.
//!
//! An error while the job runs never stops the measuring: the first is remembered, everything
//! after it is counted as lost, and both are told at the end.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use weigh_schema::Mechanism;
use weigh_schema::call::CallsReport;
use weigh_schema::event::CollectorStatus;
use weigh_schema::io::{FileUse, IoCall, Moment, PlaceMoment};
use weigh_schema::recording::{ProcessRow, RECORDING, SampleRow, files};
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::sink::Sink;
use weigh_schema::summary::Summary;
use weigh_schema::update::Update;

use crate::atomic::AtomicFile;
use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::io::file_columns;
use crate::journal::JournalReader;
use crate::journal_file::JournalFile;
use crate::json_floats::{finite_entry, finite_summary};
use crate::overview::OverviewReading;
use crate::overview_table;
use crate::recording::Recording;
use crate::sample_scan::scan_table;
use crate::table::Row;
use crate::table_writer::TableWriter;

/// Entries are handed to the kernel at least whenever so much of them has gathered.
const BUFFER_BYTES: usize = 64 * 1024;

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

/// A recording that is being made.
#[derive(Debug)]
pub struct RecordingWriter {
    dir: PathBuf,
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
            journal: JournalFile::new(journal),
            buffer: Vec::new(),
            error: None,
            lost: 0,
            not_finite: 0,
            end: None,
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.dir
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
            add_overview(&self.dir)?;
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

/// Adds the overview of the samples that are in their table.
fn add_overview(dir: &Path) -> Result<(), KeepError> {
    let mut reading = OverviewReading::default();
    let path = dir.join(files::SERIES);
    scan_table(FileAccess::Named, &path, &(i64::MIN..=i64::MAX), &mut |sample| {
        reading.push(sample)
    })?;
    overview_table::write(dir, &reading.finish())
}

/// Adds an entry as a line; false if it is of an unknown kind.
fn add_line(buffer: &mut Vec<u8>, entry: &Update) -> bool {
    let before = buffer.len();
    if serde_json::to_writer(&mut *buffer, entry).is_err() {
        // What was written of it would spoil the next line.
        buffer.truncate(before);
        return false;
    }
    buffer.push(b'\n');
    true
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

fn write_json(dir: &Path, name: &str, what: &impl Serialize) -> Result<(), KeepError> {
    let mut file = AtomicFile::create(dir, name)?;
    let mut text =
        serde_json::to_vec_pretty(what).map_err(|e| KeepError::write(file.path(), e.into()))?;
    text.push(b'\n');
    file.write_all(&text).map_err(|e| KeepError::write(file.path(), e))?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(i: i64) -> Update {
        Update::Samples {
            time_ns: i,
            scope: weigh_schema::update::Scope::Job,
            values: [("cpu_seconds".to_string(), 1.0)].into(),
        }
    }

    #[test]
    fn what_a_full_device_refuses_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let mut writer = RecordingWriter::on(dir.path(), full);
        (0..3).for_each(|i| writer.append(&sample(i)));
        assert!(writer.error().is_none());
        writer.flush();
        assert_eq!(writer.error().unwrap().raw_os_error(), Some(28), "ENOSPC");
        assert_eq!(writer.lost(), 3);
        writer.append(&sample(3));
        writer.flush();
        assert_eq!(writer.lost(), 4);
    }

    #[test]
    fn the_kernel_gets_entries_before_they_take_much_memory() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RecordingWriter::create(dir.path()).unwrap();
        (0..10_000).for_each(|i| writer.append(&sample(i)));
        assert!(writer.buffer.len() < BUFFER_BYTES);
        assert!(
            dir.path().join(files::JOURNAL).metadata().unwrap().len() > 10 * BUFFER_BYTES as u64
        );
    }

    #[test]
    fn an_entry_that_cannot_be_written_is_lost_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RecordingWriter::create(dir.path()).unwrap();
        writer.append(&sample(0));
        writer.append(&Update::Unknown);
        writer.append(&sample(1));
        assert_eq!(writer.lost(), 1);
        assert!(writer.error().is_none());
        writer.flush();
        let journal = std::fs::read(dir.path().join(files::JOURNAL)).unwrap();
        assert_eq!(journal.iter().filter(|byte| **byte == b'\n').count(), 2);
    }
}
