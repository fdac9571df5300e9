//! Reads samples fast: of a table column by column, and only the row groups that lie in the interval.
//!
//! Emits borrowed samples. Refuses what the reader of whole tables refuses.

use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::Path;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::statistics::Statistics;
use weigh_schema::recording::SampleRow;

use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::journal::JournalReader;
use crate::parquet_reader::{self, guarded};
use crate::sample_line::{SampleLine, samples_of};
use crate::table::Row as _;
use crate::table_reader::locate;

const BATCH_ROWS: usize = 8192;

/// A sample, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScannedSample<'a> {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// What it is about.
    pub scope: &'a str,
    /// The name of its series.
    pub metric: &'a str,
    /// The value.
    pub value: f64,
}

/// Takes samples.
pub type SampleVisit<'a> = dyn FnMut(ScannedSample<'_>) + 'a;

/// The columns of a table of samples, by their places in the file.
#[derive(Clone, Copy)]
struct SampleColumns {
    time: usize,
    scope: usize,
    metric: usize,
    value: usize,
}

/// Shows the samples of the table that were taken in the interval.
pub(crate) fn scan_table(
    access: FileAccess,
    path: &Path,
    interval: &RangeInclusive<i64>,
    visit: &mut SampleVisit<'_>,
) -> Result<(), KeepError> {
    let file = access.open(path).map_err(|e| KeepError::read(path, e))?;
    let reader = parquet_reader::open(path, file)?;
    let located = locate(path, &reader, SampleRow::columns())?;
    let place = |name: &str| {
        let found = located.iter().find(|(_, column)| column.name == name);
        found
            .and_then(|(place, _)| *place)
            .ok_or_else(|| KeepError::damaged(path, format!("it has no column {name}")))
    };
    let columns = SampleColumns {
        time: place("time")?,
        scope: place("scope")?,
        metric: place("metric")?,
        value: place("value")?,
    };
    for index in 0..reader.num_row_groups() {
        if !may_hold(reader.metadata().row_group(index), columns.time, interval) {
            continue;
        }
        let group = guarded(path, || reader.get_row_group(index))?;
        guarded(path, || scan_group(group.as_ref(), columns, interval, visit))?;
    }
    Ok(())
}

/// Whether a group may hold samples of the interval, by what it says of its times.
fn may_hold(group: &RowGroupMetaData, time: usize, interval: &RangeInclusive<i64>) -> bool {
    let Some(Statistics::Int64(times)) = group.column(time).statistics() else { return true };
    let is_before = times.max_opt().is_some_and(|max| max < interval.start());
    let is_behind = times.min_opt().is_some_and(|min| min > interval.end());
    !is_before && !is_behind
}

fn scan_group(
    group: &dyn RowGroupReader,
    columns: SampleColumns,
    interval: &RangeInclusive<i64>,
    visit: &mut SampleVisit<'_>,
) -> ParquetResult<()> {
    let mut times = Batches::<Int64Type>::new(group, columns.time)?;
    let mut scopes = Batches::<ByteArrayType>::new(group, columns.scope)?;
    let mut metrics = Batches::<ByteArrayType>::new(group, columns.metric)?;
    let mut values = Batches::<DoubleType>::new(group, columns.value)?;
    let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    while left > 0 {
        let rows = left.min(BATCH_ROWS);
        left -= rows;
        let (times, scopes) = (times.read(rows)?, scopes.read(rows)?);
        let (metrics, values) = (metrics.read(rows)?, values.read(rows)?);
        for row in 0..rows {
            if interval.contains(&times[row]) {
                visit(ScannedSample {
                    time_ns: times[row],
                    scope: text(&scopes[row])?,
                    metric: text(&metrics[row])?,
                    value: values[row],
                });
            }
        }
    }
    Ok(())
}

fn text(bytes: &ByteArray) -> ParquetResult<&str> {
    bytes.as_utf8()
}

/// A column, read in batches into the same room.
struct Batches<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

impl<T: DataType> Batches<T> {
    fn new(group: &dyn RowGroupReader, column: usize) -> ParquetResult<Batches<T>> {
        let reader = group.get_column_reader(column)?;
        let reader = T::get_column_reader(reader).ok_or_else(wrong_type)?;
        Ok(Batches { reader, values: Vec::with_capacity(BATCH_ROWS) })
    }

    /// The next rows; refused if there are fewer.
    fn read(&mut self, rows: usize) -> ParquetResult<&[T::T]> {
        self.values.clear();
        let mut present = Vec::new();
        let (_, read, _) =
            self.reader.read_records(rows, Some(&mut present), None, &mut self.values)?;
        match read == rows && self.values.len() == rows {
            true => Ok(&self.values),
            false => Err(ParquetError::General("a column ends too early".to_string())),
        }
    }
}

fn wrong_type() -> ParquetError {
    ParquetError::General("a column has an unknown type".to_string())
}

/// Shows the samples of a journal that were taken in the interval.
pub(crate) fn scan_journal(
    path: &Path,
    file: std::fs::File,
    interval: &RangeInclusive<i64>,
    visit: &mut SampleVisit<'_>,
) -> Result<(), KeepError> {
    scan_lines(path, BufReader::new(file), interval, visit)
}

/// The same of lines of a journal.
pub(crate) fn scan_lines(
    path: &Path,
    lines: impl BufRead,
    interval: &RangeInclusive<i64>,
    visit: &mut SampleVisit<'_>,
) -> Result<(), KeepError> {
    let mut journal = JournalReader::new(lines);
    while let Some(line) = journal.next_line().map_err(|e| KeepError::read(path, e))? {
        if let Some(samples) = samples_of(line)
            && interval.contains(&samples.time_ns)
        {
            let SampleLine { time_ns, scope, values } = samples;
            for (metric, value) in &values.0 {
                visit(ScannedSample { time_ns, scope: &scope, metric, value: *value });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_writer::TableWriter;
    use std::collections::BTreeMap;
    use weigh_schema::update::{Scope, Update};

    const ROWS: i64 = 150_001;

    fn value(row: i64) -> f64 {
        (row * 37 % 101) as f64
    }

    fn scanned(scan: impl Fn(&RangeInclusive<i64>, &mut SampleVisit<'_>), from: i64, to: i64) {
        let mut rows = Vec::new();
        scan(&(from..=to), &mut |sample| {
            assert_eq!((sample.scope, sample.value), ("job", value(sample.time_ns)));
            assert_eq!(sample.metric, if sample.time_ns % 2 == 0 { "even" } else { "odd" });
            rows.push(sample.time_ns);
        });
        assert!(rows.into_iter().eq(from.max(0)..=to.min(ROWS - 1)), "{from} to {to}");
    }

    const INTERVALS: [(i64, i64); 5] =
        [(i64::MIN, i64::MAX), (0, 0), (70_000, 70_007), (ROWS - 1, i64::MAX), (65_535, 65_536)];

    #[test]
    fn of_a_table_the_rows_of_the_interval_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let mut table = TableWriter::<SampleRow>::create(dir.path()).unwrap();
        for row in 0..ROWS {
            let metric = if row % 2 == 0 { "even" } else { "odd" }.to_string();
            let (scope, value) = ("job".to_string(), value(row));
            table.push(&SampleRow { time_ns: row, scope, metric, value }).unwrap();
        }
        table.finish().unwrap();
        let path = dir.path().join(weigh_schema::recording::files::SERIES);
        for (from, to) in INTERVALS {
            let scan = |interval: &RangeInclusive<i64>, visit: &mut SampleVisit<'_>| {
                scan_table(FileAccess::Named, &path, interval, visit).unwrap();
            };
            scanned(scan, from, to);
        }
        // Groups that lie outside are not read: what is in them does no harm.
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[4 + 64..10_000].fill(0x5a);
        std::fs::write(&path, bytes).unwrap();
        let count = |interval| scan_table(FileAccess::Named, &path, &interval, &mut |_| {});
        assert!(count(0..=10).is_err());
        assert!(count(140_000..=140_001).is_ok());
    }

    #[test]
    fn of_a_journal_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut text = String::new();
        for row in 0..1000 {
            let metric = if row % 2 == 0 { "even" } else { "odd" }.to_string();
            let values = BTreeMap::from([(metric, value(row))]);
            let entry = Update::Samples { time_ns: row, scope: Scope::Job, values };
            text += &(serde_json::to_string(&entry).unwrap() + "\n");
        }
        // Keys in another order, names that are escaped, a line that is none, and one that is cut off.
        text += r#"{"time_ns":7,"scope":"job","values":{"late":1},"entry":"samples"}"#;
        text += "\n{\"entry\":\"samples\",\"time_ns\":8,\"scope\":\"a\\\"b\",\"values\":{\"\\u0041\\n\":2.5}}\n";
        text += "{\"entry\":\"samples\",\"time_ns\":9}\n{\"entry\":\"samples\",\"time_ns\":9,\"scope\":\"j";
        std::fs::write(&path, text).unwrap();
        let mut times = Vec::new();
        let file = std::fs::File::open(&path).unwrap();
        scan_journal(&path, file, &(7..=9), &mut |sample| times.push(sample.time_ns)).unwrap();
        assert_eq!(times, [7, 8, 9, 7, 8]);
        let mut last = Vec::new();
        let file = std::fs::File::open(&path).unwrap();
        scan_journal(&path, file, &(7..=9), &mut |sample| {
            last.push((sample.scope.to_string(), sample.metric.to_string(), sample.value));
        })
        .unwrap();
        assert_eq!(
            last[3..],
            [("job".into(), "late".into(), 1.0), ("a\"b".into(), "A\n".into(), 2.5)]
        );
    }
}
