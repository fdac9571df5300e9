//! The rows of one table, from the journal of a recording: read from its file, or held.

use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::ops::ControlFlow;
use std::path::Path;

use weigh_schema::recording::files;

use crate::error::KeepError;
use crate::held_rows::HeldRows;
use crate::journal::JournalReader;
use crate::latest_rows::Latest;
use crate::table::Row;

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
