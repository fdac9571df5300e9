//! A table whose last columns are known when all of its rows have been written.
//!
//! Reads a file that has the other columns; emits one that has all. What is there is taken over as it
//! is, byte by byte, and not decoded.

use std::ops::ControlFlow;
use std::path::Path;

use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::reader::{FileReader as _, RowGroupReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use crate::atomic::AtomicFile;
use crate::column::Column;
use crate::error::KeepError;
use crate::parquet_file;
use crate::parquet_reader::{self, guarded};
use crate::table::Row;
use crate::table_reader::{Located, locate, read_group};
use crate::table_writer::Pending;

/// What the last columns hold.
pub(crate) trait Completion<R> {
    /// What a row is found by.
    type Key;
    /// What is found of it.
    type Entry;
    /// The columns that this is made of.
    const KEYS: &'static [&'static str];

    /// How many columns it fills in.
    fn columns() -> usize;
    /// Of a row that has the columns of [`Completion::KEYS`] alone.
    fn key(row: &R) -> Self::Key;
    /// For the rows of a group, in their order.
    fn find(&mut self, keys: &[Self::Key]) -> Result<Vec<Self::Entry>, KeepError>;
    /// Puts it into a row that has nothing else.
    fn put(row: &mut R, found: &Self::Entry);
    /// What is to be said of the table as a whole, when all of its rows were completed.
    fn notes(&self) -> Vec<(String, String)>;
}

/// Writes the table to `path`: with the columns of `rows`, and the last ones of a row.
pub(crate) fn write<R: Row, C: Completion<R>>(
    rows: &AtomicFile,
    path: &Path,
    completion: &mut C,
) -> Result<(), KeepError> {
    let source = rows.reopen()?;
    let copied = source.try_clone().map_err(|e| KeepError::read(rows.path(), e))?;
    let reader = parquet_reader::open(rows.path(), source)?;
    let mut keys = locate(rows.path(), &reader, R::columns())?;
    keys.retain(|(_, column)| C::KEYS.contains(&column.name));
    let mut last = R::columns();
    last.drain(..last.len() - C::columns());
    let failed = |error| KeepError::from_writing(path, error);
    let mut file = open::<R>(path)?;
    for index in 0..reader.num_row_groups() {
        let group = guarded(rows.path(), || reader.get_row_group(index))?;
        let values = completed(rows.path(), group.as_ref(), &keys, &last, completion)?;
        let mut target = file.next_row_group().map_err(failed)?;
        take_over(&mut target, group.metadata(), &copied).map_err(failed)?;
        add(&mut target, values).map_err(failed)?;
        target.close().map_err(failed)?;
    }
    for (key, value) in completion.notes() {
        file.append_key_value_metadata(KeyValue::new(key, value));
    }
    file.into_inner().map_err(failed)?.commit()
}

fn open<R: Row>(path: &Path) -> Result<SerializedFileWriter<AtomicFile>, KeepError> {
    let sink = AtomicFile::create_at(path)?;
    let fields = R::columns().iter().map(Column::parquet_type).collect::<ParquetResult<_>>();
    let file = fields.and_then(|fields| parquet_file::open(fields, R::notes(), sink));
    file.map_err(|error| KeepError::from_writing(path, error))
}

/// What a row group's rows have in the last columns.
fn completed<R: Row, C: Completion<R>>(
    path: &Path,
    group: &dyn RowGroupReader,
    keys: &[Located<R>],
    last: &[Column<R>],
    completion: &mut C,
) -> Result<Vec<Pending>, KeepError> {
    let mut of_rows = Vec::new();
    let _ = read_group(path, group, keys, &mut |row: R| {
        of_rows.push(C::key(&row));
        ControlFlow::Continue(())
    })?;
    let mut values: Vec<Pending> = last.iter().map(Pending::new).collect();
    for found in completion.find(&of_rows)? {
        let mut row = R::blank();
        C::put(&mut row, &found);
        for (column, values) in last.iter().zip(&mut values) {
            values.push(column.get(&row));
        }
    }
    Ok(values)
}

fn take_over(
    target: &mut SerializedRowGroupWriter<'_, AtomicFile>,
    group: &RowGroupMetaData,
    source: &std::fs::File,
) -> ParquetResult<()> {
    for column in group.columns() {
        let close = ColumnCloseResult {
            bytes_written: u64::try_from(column.compressed_size()).unwrap_or(0),
            rows_written: u64::try_from(group.num_rows()).unwrap_or(0),
            metadata: column.clone(),
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        target.append_column(source, close)?;
    }
    Ok(())
}

fn add(
    target: &mut SerializedRowGroupWriter<'_, AtomicFile>,
    values: Vec<Pending>,
) -> ParquetResult<()> {
    for mut values in values {
        let mut chunk = target
            .next_column()?
            .ok_or_else(|| ParquetError::General("fewer columns than declared".into()))?;
        values.write(&mut chunk)?;
        chunk.close()?;
    }
    Ok(())
}
