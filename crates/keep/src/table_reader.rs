//! Reads the rows of one table from its Parquet file, in batches. Columns are found by name:
//! those that weigh does not know are passed over, those that may be absent may be missing: then no row has a
//! value there, and each is told so.
//!
//! Refuses a file that is no Parquet, lacks a column, or holds a value its row cannot hold.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;

use crate::column::{Cell, Column};
use crate::error::KeepError;
use crate::file_access::FileAccess;
use crate::parquet_reader::{self, guarded};
use crate::parquet_source::ParquetSource;
use crate::table::Row;

/// A row of a file has a hundred numbers, each of them by its name.
const BATCH_ROWS: usize = 1024;

/// Shows every row of the table to `visit` until it breaks off; returns how many rows there are.
pub(crate) fn read_table<R: Row>(
    path: &Path,
    visit: &mut dyn FnMut(R) -> ControlFlow<()>,
) -> Result<u64, KeepError> {
    read_table_by(FileAccess::Named, path, visit)
}

/// The same of a file that is opened in that way.
pub(crate) fn read_table_by<R: Row>(
    access: FileAccess,
    path: &Path,
    visit: &mut dyn FnMut(R) -> ControlFlow<()>,
) -> Result<u64, KeepError> {
    read_columns(access, path, R::columns(), visit)
}

/// The same of a file that has these columns.
pub(crate) fn read_columns<R: Row>(
    access: FileAccess,
    path: &Path,
    columns: Vec<Column<R>>,
    visit: &mut dyn FnMut(R) -> ControlFlow<()>,
) -> Result<u64, KeepError> {
    let file = access.open(path).map_err(|e| KeepError::read(path, e))?;
    let reader = parquet_reader::open(path, file)?;
    let columns = locate(path, &reader, columns)?;
    for index in 0..reader.num_row_groups() {
        let group = guarded(path, || reader.get_row_group(index))?;
        if read_group(path, group.as_ref(), &columns, visit)?.is_break() {
            break;
        }
    }
    let rows = reader.metadata().file_metadata().num_rows();
    u64::try_from(rows).map_err(|_| KeepError::damaged(path, "its number of rows is negative"))
}

/// What the file says about itself beside its rows.
pub(crate) fn read_notes(path: &Path) -> Result<HashMap<String, String>, KeepError> {
    let file = File::open(path).map_err(|e| KeepError::read(path, e))?;
    let reader = parquet_reader::open(path, file)?;
    let notes = reader.metadata().file_metadata().key_value_metadata();
    let notes = notes.into_iter().flatten();
    Ok(notes.filter_map(|note| Some((note.key.clone(), note.value.clone()?))).collect())
}

/// The declared columns that a file lacks, and what it says who made it.
pub(crate) fn lacking<R: Row>(path: &Path) -> Result<(Vec<&'static str>, String), KeepError> {
    let file = File::open(path).map_err(|e| KeepError::read(path, e))?;
    let reader = parquet_reader::open(path, file)?;
    let missing = locate(path, &reader, R::columns())?.into_iter().filter(|(at, _)| at.is_none());
    let names = missing.map(|(_, column)| column.name).collect();
    let maker = reader.metadata().file_metadata().created_by().unwrap_or_default();
    Ok((names, maker.to_string()))
}

/// A declared column, and where in the file it is, if it is there.
pub(crate) type Located<R> = (Option<usize>, Column<R>);

/// Finds the declared columns in the file.
pub(crate) fn locate<R>(
    path: &Path,
    reader: &SerializedFileReader<ParquetSource>,
    columns: Vec<Column<R>>,
) -> Result<Vec<Located<R>>, KeepError> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let mut found = Vec::new();
    for column in columns {
        let at = schema.columns().iter().position(|c| c.path().parts() == [column.name]);
        match at.map(|index| (index, schema.column(index))) {
            Some((index, stored))
                if stored.physical_type() == column.meaning.physical()
                    && stored.max_rep_level() == 0
                    && stored.max_def_level() <= i16::from(column.optional) =>
            {
                found.push((Some(index), column));
            }
            Some((_, stored)) => {
                let reason = format!(
                    "column {} has the type {}, expected was {}",
                    column.name,
                    stored.physical_type(),
                    column.meaning.physical()
                );
                return Err(KeepError::damaged(path, reason));
            }
            None if column.optional => found.push((None, column)),
            None => {
                return Err(KeepError::damaged(path, format!("it has no column {}", column.name)));
            }
        }
    }
    Ok(found)
}

/// Shows the rows of a group with what they have in these columns.
pub(crate) fn read_group<R: Row>(
    path: &Path,
    group: &dyn RowGroupReader,
    columns: &[Located<R>],
    visit: &mut dyn FnMut(R) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, KeepError> {
    let mut readers = Vec::with_capacity(columns.len());
    for (index, column) in columns {
        let reader = index.map(|index| guarded(path, || group.get_column_reader(index)));
        readers.push((column, reader.transpose()?));
    }
    let mut left = usize::try_from(group.metadata().num_rows())
        .map_err(|_| KeepError::damaged(path, "its number of rows is negative"))?;
    while left > 0 {
        let mut rows: Vec<R> = (0..left.min(BATCH_ROWS)).map(|_| R::blank()).collect();
        // In the order of their declarations: what a row lacks may depend on what it has.
        for (column, reader) in &mut readers {
            let Some(reader) = reader else {
                rows.iter_mut().for_each(|row| column.set_absent(row));
                continue;
            };
            if !guarded(path, || fill(column, reader, &mut rows))? {
                let reason = format!("column {} holds a value out of range", column.name);
                return Err(KeepError::damaged(path, reason));
            }
        }
        left -= rows.len();
        for row in rows {
            if visit(row).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Reads the next values of a column into the rows; false if a row cannot hold its value.
fn fill<R: Row>(
    column: &Column<R>,
    reader: &mut ColumnReader,
    rows: &mut [R],
) -> ParquetResult<bool> {
    match reader {
        ColumnReader::Int64ColumnReader(reader) => {
            fill_typed(column, reader, rows, |n: &i64| Ok(Cell::Int(*n)))
        }
        ColumnReader::DoubleColumnReader(reader) => {
            fill_typed(column, reader, rows, |x: &f64| Ok(Cell::Real(*x)))
        }
        ColumnReader::ByteArrayColumnReader(reader) => {
            fill_typed(column, reader, rows, |text: &ByteArray| {
                text.as_utf8().map(|text| Cell::Text(Cow::Borrowed(text)))
            })
        }
        _ => Err(ParquetError::General(format!("column {} has an unknown type", column.name))),
    }
}

fn fill_typed<R: Row, T: DataType>(
    column: &Column<R>,
    reader: &mut ColumnReaderImpl<T>,
    rows: &mut [R],
    cell: impl Fn(&T::T) -> ParquetResult<Cell<'_>>,
) -> ParquetResult<bool> {
    let mut values = Vec::with_capacity(rows.len());
    let mut present = Vec::with_capacity(rows.len());
    let (records, ..) = reader.read_records(rows.len(), Some(&mut present), None, &mut values)?;
    if records != rows.len() {
        return Err(ParquetError::General(format!("column {} ends too early", column.name)));
    }
    let mut values = values.iter();
    for (index, row) in rows.iter_mut().enumerate() {
        // A column that is never absent comes without levels.
        if present.get(index).is_some_and(|level| *level == 0) {
            column.set_absent(row);
            continue;
        }
        let Some(value) = values.next() else {
            return Err(ParquetError::General(format!("column {} lacks a value", column.name)));
        };
        if !column.set(row, cell(value)?) {
            return Ok(false);
        }
    }
    Ok(true)
}
