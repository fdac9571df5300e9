//! The overview of a long recording's series on disk, so that a page of it need not read all samples first.
//!
//! Written beside the tables when there are many samples; what it holds follows from them. Refuses a file that is not
//! what it should be.

use std::ops::ControlFlow;
use std::path::Path;

use weigh_schema::recording::files;

use crate::column::{Column, column};
use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::overview::{
    COUNTED_MOST, OverviewReading, OverviewSlot, RecordingOverview, SERIES_MOST, SLOTS_MOST,
};
use crate::sample_scan::scan_table;
use crate::table::Row;
use crate::table_reader::read_table_by;
use crate::table_writer::TableWriter;
use weigh_schema::update::Update;

/// With fewer samples all are read in no time.
pub(crate) const SAMPLES_FROM: u64 = 1 << 20;
/// Of a series that is counted and has no slots.
const NO_SLOT: u64 = u64::MAX;

/// One slot of one series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SlotRow {
    scope: String,
    metric: String,
    samples: u64,
    first_ns: i64,
    width: u64,
    time_ns: i64,
    min: f64,
    max: f64,
    last: f64,
}

impl Row for SlotRow {
    const FILE: &'static str = files::SERIES_OVERVIEW;

    fn columns() -> Vec<Column<Self>> {
        vec![
            column!(scope, "what the series is about, as in series.parquet"),
            column!(metric, "its name"),
            column!(samples, "how many samples the series has"),
            column!("first" = first_ns, "when the first of them was taken"),
            column!(width, "a slot is 2 to the power of this nanoseconds wide"),
            column!("time" = time_ns, "when the last value of the slot was taken"),
            column!(min, "the least value of the slot"),
            column!(max, "the greatest"),
            column!(last, "the last"),
        ]
    }

    fn blank() -> Self {
        SlotRow::default()
    }

    fn from_entry(_: Update, _: &mut dyn FnMut(Self)) {}
}

/// Writes the overview of the samples that are in their table.
pub(crate) fn write_of(dir: &Path) -> Result<(), KeepError> {
    let mut reading = OverviewReading::default();
    let path = dir.join(files::SERIES);
    scan_table(FileAccess::Named, &path, &(i64::MIN..=i64::MAX), &mut |sample| {
        reading.push(sample)
    })?;
    write(dir, &reading.finish())
}

/// Writes it into the folder of a recording.
fn write(dir: &Path, overview: &RecordingOverview) -> Result<(), KeepError> {
    let mut table = TableWriter::<SlotRow>::create(dir)?;
    for ((scope, metric), series) in &overview.series {
        let mut row = SlotRow {
            scope: scope.clone(),
            metric: metric.clone(),
            samples: series.samples,
            first_ns: series.first_ns,
            width: series.shift.into(),
            ..SlotRow::default()
        };
        for slot in &series.slots {
            (row.time_ns, row.min, row.max, row.last) =
                (slot.last_ns, slot.min, slot.max, slot.last);
            table.push(&row)?;
        }
    }
    for ((scope, metric), samples) in &overview.others {
        let (scope, metric) = (scope.clone(), metric.clone());
        let samples = *samples;
        table.push(&SlotRow { scope, metric, samples, width: NO_SLOT, ..SlotRow::default() })?;
    }
    table.finish().map(drop)
}

/// Reads it.
pub(crate) fn read(access: FileAccess, path: &Path) -> Result<RecordingOverview, KeepError> {
    let mut overview = RecordingOverview::default();
    read_table_by(access, path, &mut |row: SlotRow| {
        take_row(&mut overview, row);
        ControlFlow::Continue(())
    })?;
    Ok(overview)
}

/// Takes in what an overview can have: the file may be anybody's.
fn take_row(overview: &mut RecordingOverview, row: SlotRow) {
    let RecordingOverview { series, others } = overview;
    let key = (row.scope, row.metric);
    if row.width == NO_SLOT {
        if others.len() < COUNTED_MOST {
            others.insert(key, row.samples);
        }
        return;
    }
    if series.len() >= SERIES_MOST && !series.contains_key(&key) {
        return;
    }
    let series = series.entry(key).or_default();
    (series.samples, series.first_ns) = (row.samples, row.first_ns);
    series.shift = u32::try_from(row.width.min(63)).unwrap_or(63);
    let slot = OverviewSlot { last_ns: row.time_ns, min: row.min, max: row.max, last: row.last };
    let is_later = series.slots.last().is_none_or(|last| last.last_ns < slot.last_ns);
    let is_finite = [slot.min, slot.max, slot.last].iter().all(|value| value.is_finite());
    if is_later && is_finite && series.slots.len() < SLOTS_MOST {
        series.slots.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::OverviewReading;
    use crate::sample_scan::ScannedSample;

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut reading = OverviewReading::default();
        for i in 0..20_000 {
            for (scope, metric) in [("job", "a"), ("process:7", "region:b"), ("job", "c")] {
                let value = (i * 37 % 101) as f64 + 1e-3;
                reading.push(ScannedSample { time_ns: i * 1000 + 7, scope, metric, value });
            }
        }
        let mut overview = reading.finish();
        overview.others.insert(("job".into(), "d".into()), 7);
        write(dir.path(), &overview).unwrap();
        let path = dir.path().join(files::SERIES_OVERVIEW);
        assert_eq!(read(FileAccess::Named, &path).unwrap(), overview);
        std::fs::write(&path, "PAR1").unwrap();
        assert!(read(FileAccess::Named, &path).is_err());
    }
}
