//! The rows of a recording, table by table, for who reads them: all, the first ones, or samples of an interval.

use std::io::ErrorKind;
use std::ops::{ControlFlow, RangeInclusive};

use weigh_schema::io::{FileUse, IoCall, Moment, PlaceMoment};
use weigh_schema::recording::{ProcessRow, SampleRow, files};
use weigh_schema::region::{PhaseRow, RegionRow};

use crate::error::KeepError;
use crate::overview::{OverviewReading, RecordingOverview};
use crate::overview_table;
use crate::recording::Recording;
use crate::sample_scan::{SampleVisit, scan_journal, scan_table};
use crate::table::Row;

/// Rows of a table, perhaps not all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows<T> {
    /// Those that were asked for, in the order in which they were recorded.
    pub rows: Vec<T>,
    /// How many there are in all.
    pub total: u64,
}

impl Recording {
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
        let table = self.directory().join(files::SERIES);
        if self.is_complete() {
            return scan_table(self.access(), &table, &interval, visit);
        }
        let path = self.directory().join(files::JOURNAL);
        match self.access().open(&path) {
            Ok(file) => scan_journal(&path, file, &interval, visit),
            // It has been finished since it was opened.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                scan_table(self.access(), &table, &interval, visit)
            }
            Err(e) => Err(KeepError::read(&path, e)),
        }
    }

    /// All series in bounded memory: read where a long recording keeps them so, else made of all samples.
    pub fn series_overview(&self) -> Result<RecordingOverview, KeepError> {
        let kept = self.directory().join(files::SERIES_OVERVIEW);
        if self.is_complete() && kept.symlink_metadata().is_ok() {
            return overview_table::read(self.access(), &kept);
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
        if self.summary().io.is_none() {
            return Ok(0);
        }
        self.each(&mut |row| visit(row))
    }

    /// Shows where in the files that was.
    pub fn each_io_place(&self, mut visit: impl FnMut(PlaceMoment)) -> Result<u64, KeepError> {
        if self.summary().io.is_none() {
            return Ok(0);
        }
        self.each(&mut |row| visit(row))
    }

    /// Whether calls that were about files may be in it.
    pub fn has_io_calls(&self) -> bool {
        !self.is_complete() || self.directory().join(files::IO_CALLS).exists()
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
        if self.is_complete() && !self.directory().join(files::REGIONS).exists() {
            return Ok(0);
        }
        self.each(&mut |row| visit(row))
    }

    /// Shows every phase that has ended; returns how many there are.
    pub fn each_phase(&self, mut visit: impl FnMut(PhaseRow)) -> Result<u64, KeepError> {
        if self.is_complete() && !self.directory().join(files::PHASES).exists() {
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
}
