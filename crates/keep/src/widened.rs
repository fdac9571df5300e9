//! A table whose last columns are known when all of its rows have been written.
//!
//! Reads a file that has the other columns; emits one that has all. What is there is taken over as it
//! is, byte by byte, and not decoded.

use std::ops::ControlFlow;
use std::path::Path;

use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use crate::atomic::AtomicFile;
use crate::column::Column;
use crate::error::KeepError;
use crate::parquet_file;
use crate::table::Row;
use crate::table_reader::{guarded, locate, read_group};
use crate::table_writer::Pending;

/// Writes the table to `path`: with the columns of `rows`, and the last `more` ones of a row, which
/// `complete` fills in by what the row has in the column `key`.
pub(crate) fn write<R: Row>(
    rows: &AtomicFile,
    path: &Path,
    notes: impl IntoIterator<Item = (String, String)>,
    more: usize,
    key: &str,
    complete: &dyn Fn(&mut R),
) -> Result<(), KeepError> {
    let source = rows.reopen()?;
    let copied = source.try_clone().map_err(|e| KeepError::read(rows.path(), e))?;
    let reader = guarded(rows.path(), || SerializedFileReader::new(source))?;
    let mut keys = locate::<R>(rows.path(), &reader)?;
    keys.retain(|(_, column)| column.name == key);
    let mut last = R::columns();
    last.drain(..last.len() - more);
    let failed = |error| KeepError::from_writing(path, error);
    let mut file = open::<R>(path, notes)?;
    for index in 0..reader.num_row_groups() {
        let group = guarded(rows.path(), || reader.get_row_group(index))?;
        let values = completed(rows.path(), group.as_ref(), &keys, &last, complete)?;
        let mut target = file.next_row_group().map_err(failed)?;
        take_over(&mut target, group.metadata(), &copied).map_err(failed)?;
        add(&mut target, values).map_err(failed)?;
        target.close().map_err(failed)?;
    }
    file.into_inner().map_err(failed)?.commit()
}

fn open<R: Row>(
    path: &Path,
    notes: impl IntoIterator<Item = (String, String)>,
) -> Result<SerializedFileWriter<AtomicFile>, KeepError> {
    let sink = AtomicFile::create_at(path)?;
    let fields = R::columns().iter().map(Column::parquet_type).collect::<ParquetResult<_>>();
    let notes = R::notes().into_iter().chain(notes);
    let file = fields.and_then(|fields| parquet_file::open(fields, notes, sink));
    file.map_err(|error| KeepError::from_writing(path, error))
}

/// What a row group's rows have in the last columns.
fn completed<R: Row>(
    path: &Path,
    group: &dyn RowGroupReader,
    keys: &[(usize, Column<R>)],
    last: &[Column<R>],
    complete: &dyn Fn(&mut R),
) -> Result<Vec<Pending>, KeepError> {
    let mut values: Vec<Pending> = last.iter().map(Pending::new).collect();
    let _ = read_group(path, group, keys, &mut |mut row: R| {
        complete(&mut row);
        for (column, values) in last.iter().zip(&mut values) {
            values.push(column.get(&row));
        }
        ControlFlow::Continue(())
    })?;
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
