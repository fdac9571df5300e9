//! What system calls cost, of a recording: `calls.json`, or the latest report of its journal.

use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::Path;

use weigh_schema::call::{CallsReport, REPORT};
use weigh_schema::recording::files;
use weigh_schema::update::Update;

use crate::error::{KeepError, harmless};
use crate::journal::JournalReader;
use crate::recording::Recording;

impl Recording {
    /// What system calls cost in each part of the kernel; none where they were not followed.
    pub fn calls(&self) -> Result<Option<CallsReport>, KeepError> {
        if let Some(rows) = self.held_rows() {
            let path = self.directory().join(files::JOURNAL);
            let report = rows.calls.clone();
            return report.map(|report| of_this_schema(&path, *report)).transpose();
        }
        if !self.is_complete() {
            let path = self.directory().join(files::JOURNAL);
            match self.access().open(&path) {
                Ok(file) => return latest(&path, file),
                // It has been finished since it was opened.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(KeepError::read(&path, error)),
            }
        }
        read(&self.directory().join(files::CALLS))
    }
}

fn latest(path: &Path, file: File) -> Result<Option<CallsReport>, KeepError> {
    let mut journal = JournalReader::new(BufReader::new(file));
    let mut latest = None;
    while let Some(entry) = journal.next_of(false).map_err(|error| KeepError::read(path, error))? {
        if let Update::SyscallTotals(report) = entry {
            latest = Some(*report);
        }
    }
    latest.map(|report| of_this_schema(path, report)).transpose()
}

fn read(path: &Path) -> Result<Option<CallsReport>, KeepError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(KeepError::read(path, error)),
    };
    let report = serde_json::from_slice(&text).map_err(|error| KeepError::damaged(path, error))?;
    of_this_schema(path, report).map(Some)
}

fn of_this_schema(path: &Path, report: CallsReport) -> Result<CallsReport, KeepError> {
    match report.schema == REPORT {
        true => Ok(report),
        false => {
            let found = harmless(&report.schema);
            Err(KeepError::UnknownSchema { path: path.to_path_buf(), found, reads: REPORT })
        }
    }
}
