//! Writes the rows of one table to its Parquet file, a row group at a time, so that what is held
//! in memory does not grow with the number of rows.

use std::path::{Path, PathBuf};

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};

use crate::atomic::AtomicFile;
use crate::column::{Cell, Column, Meaning};
use crate::error::KeepError;
use crate::parquet_file;
use crate::table::{Row, notes_of};

/// A row group ends also at so many bytes of text: one command line alone can have megabytes.
const GROUP_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Values of one column that wait for their row group.
pub(crate) struct Pending {
    values: Values,
    /// For a column that may be absent: 1 where there is a value, 0 where there is none.
    present: Option<Vec<i16>>,
}

enum Values {
    Int(Vec<i64>),
    Real(Vec<f64>),
    /// All texts in one buffer, and where each ends.
    Text {
        bytes: Vec<u8>,
        ends: Vec<usize>,
    },
}

impl Pending {
    pub(crate) fn new<R>(column: &Column<R>) -> Pending {
        let values = match column.meaning {
            Meaning::Time | Meaning::Signed | Meaning::Unsigned => Values::Int(Vec::new()),
            Meaning::Real => Values::Real(Vec::new()),
            Meaning::Text => Values::Text { bytes: Vec::new(), ends: Vec::new() },
        };
        Pending { values, present: column.optional.then(Vec::new) }
    }

    /// Takes a value in; returns how many bytes of text it added.
    pub(crate) fn push(&mut self, cell: Option<Cell<'_>>) -> usize {
        if let Some(present) = &mut self.present {
            present.push(i16::from(cell.is_some()));
        }
        match (&mut self.values, cell) {
            (Values::Int(values), Some(Cell::Int(n))) => values.push(n),
            (Values::Real(values), Some(Cell::Real(x))) => values.push(x),
            (Values::Text { bytes, ends }, Some(Cell::Text(text))) => {
                bytes.extend_from_slice(text.as_bytes());
                ends.push(bytes.len());
                return text.len();
            }
            (_, None) => {}
            // Both come from the same declaration.
            (_, Some(cell)) => unreachable!("a column's cell is of its own type: {cell:?}"),
        }
        0
    }

    /// Writes the column chunk and forgets its values.
    pub(crate) fn write(
        &mut self,
        chunk: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        let present = self.present.as_deref();
        match &mut self.values {
            Values::Int(values) => {
                chunk.typed::<Int64Type>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Real(values) => {
                chunk.typed::<DoubleType>().write_batch(values, present, None)?;
                values.clear();
            }
            Values::Text { bytes, ends } => {
                let all = ByteArray::from(std::mem::take(bytes));
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let texts: Vec<ByteArray> = starts
                    .zip(ends.iter())
                    .map(|(start, &end)| all.slice(start, end - start))
                    .collect();
                chunk.typed::<ByteArrayType>().write_batch(&texts, present, None)?;
                ends.clear();
            }
        }
        if let Some(present) = &mut self.present {
            present.clear();
        }
        Ok(())
    }
}

/// The file of a table, being written.
pub(crate) struct TableWriter<R> {
    path: PathBuf,
    file: SerializedFileWriter<AtomicFile>,
    columns: Vec<(Column<R>, Pending)>,
    rows_pending: usize,
    text_pending: usize,
    rows: u64,
}

impl<R: Row> TableWriter<R> {
    pub(crate) fn create(dir: &Path) -> Result<TableWriter<R>, KeepError> {
        TableWriter::create_at(&dir.join(R::FILE))
    }

    pub(crate) fn create_at(path: &Path) -> Result<TableWriter<R>, KeepError> {
        TableWriter::open(path, R::columns(), R::notes())
    }

    /// A table that has some of its columns only.
    pub(crate) fn create_of(
        dir: &Path,
        columns: Vec<Column<R>>,
    ) -> Result<TableWriter<R>, KeepError> {
        TableWriter::create_of_at(&dir.join(R::FILE), columns)
    }

    /// The same, of any name.
    pub(crate) fn create_of_at(
        path: &Path,
        columns: Vec<Column<R>>,
    ) -> Result<TableWriter<R>, KeepError> {
        let notes = notes_of(&columns);
        TableWriter::open(path, columns, notes)
    }

    fn open(
        path: &Path,
        columns: Vec<Column<R>>,
        notes: Vec<(String, String)>,
    ) -> Result<TableWriter<R>, KeepError> {
        let sink = AtomicFile::create_at(path)?;
        let path = sink.path().to_path_buf();
        let columns: Vec<(Column<R>, Pending)> = columns
            .into_iter()
            .map(|column| {
                let pending = Pending::new(&column);
                (column, pending)
            })
            .collect();
        let file =
            open_parquet(&columns, notes, sink).map_err(|e| KeepError::from_writing(&path, e))?;
        Ok(TableWriter { path, file, columns, rows_pending: 0, text_pending: 0, rows: 0 })
    }

    /// Says something about the table as a whole.
    pub(crate) fn note(&mut self, key: &str, value: String) {
        self.file.append_key_value_metadata(KeyValue::new(key.to_string(), value));
    }

    pub(crate) fn push(&mut self, row: &R) -> Result<(), KeepError> {
        for (column, pending) in &mut self.columns {
            self.text_pending += pending.push(column.get(row));
        }
        self.rows_pending += 1;
        self.rows += 1;
        if self.rows_pending >= R::GROUP_ROWS || self.text_pending >= GROUP_TEXT_BYTES {
            self.end_group()?;
        }
        Ok(())
    }

    /// Writes what is left and gives the file its name; returns how many rows it has.
    pub(crate) fn finish(self) -> Result<u64, KeepError> {
        let (sink, rows) = self.finish_unnamed()?;
        sink.commit()?;
        Ok(rows)
    }

    /// Writes what is left; the file has not its name yet, and goes if it gets none.
    pub(crate) fn finish_unnamed(mut self) -> Result<(AtomicFile, u64), KeepError> {
        self.end_group()?;
        let sink = self.file.into_inner().map_err(|e| KeepError::from_writing(&self.path, e))?;
        Ok((sink, self.rows))
    }

    fn end_group(&mut self) -> Result<(), KeepError> {
        if self.rows_pending == 0 {
            return Ok(());
        }
        self.write_group().map_err(|e| KeepError::from_writing(&self.path, e))?;
        self.rows_pending = 0;
        self.text_pending = 0;
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for (_, pending) in &mut self.columns {
            let mut chunk = group
                .next_column()?
                .ok_or_else(|| ParquetError::General("fewer columns than declared".into()))?;
            pending.write(&mut chunk)?;
            chunk.close()?;
        }
        group.close().map(drop)
    }
}

fn open_parquet<R: Row>(
    columns: &[(Column<R>, Pending)],
    notes: Vec<(String, String)>,
    sink: AtomicFile,
) -> Result<SerializedFileWriter<AtomicFile>, ParquetError> {
    let fields =
        columns.iter().map(|(column, _)| column.parquet_type()).collect::<Result<_, _>>()?;
    parquet_file::open(fields, notes, sink)
}
