//! The rows of a recording: from its journal into its tables, or to who reads them.

use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use weigh_schema::call::CallsReport;
use weigh_schema::io::{FileUse, IoCall, Moment, PlaceMoment};
use weigh_schema::recording::{ProcessRow, SampleRow, files};
use weigh_schema::region::{PhaseRow, RegionRow};
use weigh_schema::update::Update;

use crate::error::KeepError;
use crate::held_rows::HeldRows;
use crate::io::file_columns;
use crate::journal::JournalReader;
use crate::journal_file::BUFFER_BYTES;
use crate::latest_rows::Latest;
use crate::table::Row;
use crate::table_writer::TableWriter;

/// The tables of a recording, being written side by side.
pub(crate) struct Tables {
    series: TableWriter<SampleRow>,
    processes: TableWriter<ProcessRow>,
    files: TableWriter<FileUse>,
    /// Where files were followed.
    io: Option<(TableWriter<Moment>, TableWriter<PlaceMoment>)>,
    /// Where each call was wanted: made when the first one comes.
    io_calls: Option<TableWriter<IoCall>>,
    /// Where system calls were followed: the latest.
    pub(crate) calls: Option<Box<CallsReport>>,
    /// Where programs told of regions: made when the first row comes.
    regions: Option<TableWriter<RegionRow>>,
    phases: Option<TableWriter<PhaseRow>>,
    dir: PathBuf,
}

impl Tables {
    /// What files were used for has columns where it was followed.
    pub(crate) fn create(dir: &Path, has_uses: bool) -> Result<Tables, KeepError> {
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
    pub(crate) fn fill_from(&mut self, path: &Path) -> Result<u64, KeepError> {
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

    pub(crate) fn finish(self) -> Result<(u64, u64, u64), KeepError> {
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

pub(crate) fn visit_held<R: Row>(
    rows: &HeldRows,
    visit: &mut dyn FnMut(R) -> ControlFlow<()>,
) -> u64 {
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

pub(crate) fn read_journal<R: Row>(
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
