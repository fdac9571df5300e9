//! The file of `weigh trace`: a row for each event, and a column for each field that any of them has.
//!
//! Its columns are known only at run time, and rows come by the hundred thousand a second: so values go
//! into columns one by one, and a row costs what it has, not what others have. Writes a row group at a
//! time, and gives the file its name when it is whole. When a write fails (the disk is full), what was
//! written before is closed and kept: see [`StreamWriter::finish`].

mod chunk;
mod column_kind;
mod dictionary;
mod lists;
mod numbers;
mod pack;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::reader::FileReader as _;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::ColumnDescPtr;

use crate::atomic::AtomicFile;
use crate::error::KeepError;
use crate::{parquet_file, parquet_reader};
use chunk::Filled;
pub use column_kind::StreamKind;
use lists::Lists;
use numbers::{Numbers, PAGE_ROWS};

/// How many rows a Parquet file has; it is refused if it is not whole.
pub fn count_rows(path: &Path) -> Result<u64, KeepError> {
    let file = std::fs::File::open(path).map_err(|error| KeepError::read(path, error))?;
    let reader = parquet_reader::open(path, file)?;
    Ok(reader.metadata().file_metadata().num_rows().try_into().unwrap_or(0))
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamColumn {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: StreamKind,
    /// Whether every row has a value in it.
    pub always: bool,
}

/// How a file was closed.
#[derive(Debug)]
pub struct Closed {
    /// Rows that are in it.
    pub rows: u64,
    /// Rows that are not, for they could not be written any more.
    pub unwritten: u64,
    /// Why not.
    pub error: Option<KeepError>,
}

/// A row group ends after so many rows, or so many bytes of text.
const GROUP_ROWS: usize = 16 * PAGE_ROWS;
const GROUP_TEXT_BYTES: usize = 16 << 20;
/// Room that the end of the file takes, for each column of each row group, and beyond that.
const END_BYTES: u64 = 256;
const END_REST: u64 = 64 * 1024;

enum Values {
    Numbers(Box<Numbers>),
    Texts { bytes: Vec<u8>, ends: Vec<usize> },
    Lists(Lists),
}

struct Pending {
    values: Values,
    /// For a column of texts that rows may lack: 1 where there is a value. It is filled up when one comes.
    present: Option<Vec<i16>>,
}

/// A file of events that is being written.
pub struct StreamWriter {
    path: PathBuf,
    file: SerializedFileWriter<AtomicFile>,
    columns: Vec<Pending>,
    /// Rows, and bytes of text, that wait for their row group; and rows of the page that is being made.
    rows_pending: usize,
    page_rows: usize,
    text_pending: usize,
    groups: u64,
    /// Bytes that the notes will have.
    notes: u64,
    closed: Closed,
}

impl StreamWriter {
    /// Makes the file under a temporary name beside its own.
    pub fn create(
        path: &Path,
        columns: &[StreamColumn],
        notes: &[(String, String)],
    ) -> Result<StreamWriter, KeepError> {
        let sink = AtomicFile::create_at(path)?;
        let file = open(columns, notes, sink).map_err(|e| KeepError::from_writing(path, e))?;
        let described = file.schema_descr().columns().to_vec();
        let pending = |(column, described): (&StreamColumn, ColumnDescPtr)| Pending {
            values: match column.kind {
                StreamKind::Text | StreamKind::Bytes => {
                    Values::Texts { bytes: Vec::new(), ends: Vec::new() }
                }
                StreamKind::Texts => Values::Lists(Lists::default()),
                kind => {
                    Values::Numbers(Box::new(Numbers::new(described, kind == StreamKind::Name)))
                }
            },
            present: (!column.always).then(Vec::new),
        };
        Ok(StreamWriter {
            path: path.to_path_buf(),
            file,
            columns: columns.iter().zip(described).map(pending).collect(),
            rows_pending: 0,
            page_rows: 0,
            text_pending: 0,
            groups: 0,
            notes: 0,
            closed: Closed { rows: 0, unwritten: 0, error: None },
        })
    }

    /// So much is going to be said in the end: room for it is kept.
    pub fn expect_notes(&mut self, bytes: usize) {
        self.notes = bytes as u64;
    }

    /// How many rows are in it, and could not be: those that wait for their row group are neither.
    pub fn closed(&self) -> (u64, u64) {
        (self.closed.rows, self.closed.unwritten)
    }

    /// Puts a number, or a time, or a name by its number, into the row that is being made.
    #[inline]
    pub fn number(&mut self, column: usize, value: i64) {
        if let Some(Pending { values: Values::Numbers(numbers), .. }) = self.columns.get_mut(column)
        {
            numbers.put(self.page_rows, value);
        }
    }

    /// The number of a name in a column of names; none if that is no such column, or has too many.
    pub fn name(&mut self, column: usize, name: &[u8]) -> Option<i64> {
        match &mut self.columns.get_mut(column)?.values {
            Values::Numbers(numbers) => numbers.name(name),
            _ => None,
        }
    }

    /// Puts a text, or bytes, into the row that is being made.
    pub fn text(&mut self, column: usize, value: &[u8]) {
        let Pending { values, present } = &mut self.columns[column];
        if let Values::Texts { bytes, ends } = values {
            bytes.extend_from_slice(value);
            ends.push(bytes.len());
            self.text_pending += value.len();
            mark(present, self.rows_pending);
        }
    }

    /// Puts a list of texts into the row that is being made.
    pub fn texts<'t>(&mut self, column: usize, texts: impl Iterator<Item = &'t [u8]>) {
        if let Values::Lists(lists) = &mut self.columns[column].values {
            self.text_pending += lists.put(self.rows_pending, texts);
        }
    }

    /// The row is whole. False: it could not be kept, nor can any other.
    pub fn end_row(&mut self) -> bool {
        self.rows_pending += 1;
        self.page_rows += 1;
        if self.page_rows == PAGE_ROWS || self.text_pending >= GROUP_TEXT_BYTES {
            self.end_page();
        }
        self.closed.error.is_none()
    }

    fn end_page(&mut self) {
        let rows = std::mem::take(&mut self.page_rows);
        let mut numbers = self.columns.iter_mut().filter_map(Pending::numbers);
        if let Err(error) = numbers.try_for_each(|numbers| numbers.end_page(rows)) {
            let failed = KeepError::from_writing(&self.path, error);
            self.closed.error.get_or_insert(failed);
        }
        if self.rows_pending >= GROUP_ROWS || self.text_pending >= GROUP_TEXT_BYTES {
            self.end_rows();
        }
    }

    /// Writes what is left, and gives the file its name. If there was no room for a row group, the file
    /// has all that were written before it.
    pub fn finish(mut self, notes: &[(String, String)]) -> Result<Closed, KeepError> {
        self.end_rows();
        for (key, value) in notes {
            self.file.append_key_value_metadata(KeyValue::new(key.clone(), value.clone()));
        }
        let failed = |error| KeepError::from_writing(&self.path, error);
        let sink = self.file.into_inner().map_err(failed)?;
        sink.commit_cut()?;
        Ok(self.closed)
    }

    /// Writes the rows that wait for their row group.
    pub fn end_rows(&mut self) {
        if self.page_rows > 0 {
            self.end_page();
        }
        let rows = self.rows_pending as u64;
        if rows == 0 {
            return;
        }
        if self.closed.error.is_none()
            && let Err(error) = self.write_group()
        {
            self.closed.error = Some(error);
        }
        match self.closed.error {
            None => self.closed.rows += rows,
            Some(_) => self.closed.unwritten += rows,
        }
        for column in &mut self.columns {
            column.forget();
        }
        (self.rows_pending, self.text_pending) = (0, 0);
    }

    /// Asks for room first, for the row group and the end of the file: a writer that finds none has written
    /// nothing, and can still close the file.
    fn write_group(&mut self) -> Result<(), KeepError> {
        let end = (self.groups + 2) * self.columns.len() as u64 * END_BYTES + END_REST + self.notes;
        let values: u64 = self.columns.iter().map(Pending::bytes).sum();
        let room = values + self.columns.len() as u64 * 1024 + end;
        self.file
            .inner()
            .reserve(self.file.bytes_written() as u64 + room)
            .map_err(|error| KeepError::write(&self.path, error))?;
        self.groups += 1;
        self.write_columns().map_err(|error| KeepError::from_writing(&self.path, error))
    }

    fn write_columns(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            if let (Some(present), Values::Texts { .. }) = (&mut column.present, &column.values) {
                present.resize(self.rows_pending, 0);
            }
            if let Values::Lists(lists) = &mut column.values {
                lists.fill(self.rows_pending);
            }
            if let Values::Numbers(numbers) = &mut column.values {
                let Filled { pages, closed } = numbers.close()?;
                group.append_column(&pages, closed)?;
                continue;
            }
            let mut chunk = group
                .next_column()?
                .ok_or_else(|| ParquetError::General("fewer columns than declared".into()))?;
            column.write(&mut chunk)?;
            chunk.close()?;
        }
        group.close().map(drop)
    }
}

fn mark(present: &mut Option<Vec<i16>>, row: usize) {
    if let Some(present) = present {
        present.resize(row, 0);
        present.push(1);
    }
}

impl Pending {
    fn bytes(&self) -> u64 {
        let present = self.present.as_ref().map_or(0, Vec::len);
        let values = match &self.values {
            // These are as they will be.
            Values::Numbers(numbers) => return numbers.bytes() as u64,
            Values::Texts { bytes, ends } => bytes.len() + ends.len() * 4,
            Values::Lists(lists) => {
                lists.bytes.len() + lists.ends.len() * 4 + lists.definitions.len() * 2
            }
        };
        let bytes = (present + values) as u64;
        bytes + bytes / 4
    }

    fn numbers(&mut self) -> Option<&mut Numbers> {
        match &mut self.values {
            Values::Numbers(numbers) => Some(numbers),
            _ => None,
        }
    }

    fn write(&mut self, chunk: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let present = self.present.as_deref();
        match &mut self.values {
            // They write themselves.
            Values::Numbers(_) => {}
            Values::Texts { bytes, ends } => {
                let texts = arrays(std::mem::take(bytes), ends);
                chunk.typed::<ByteArrayType>().write_batch(&texts, present, None)?;
            }
            Values::Lists(lists) => {
                let (there, goes_on) = (&lists.definitions[..], &lists.repetitions[..]);
                let texts = arrays(std::mem::take(&mut lists.bytes), &lists.ends);
                chunk.typed::<ByteArrayType>().write_batch(&texts, Some(there), Some(goes_on))?;
            }
        }
        Ok(())
    }

    fn forget(&mut self) {
        match &mut self.values {
            Values::Numbers(numbers) => numbers.forget(),
            Values::Texts { bytes, ends } => {
                bytes.clear();
                ends.clear();
            }
            Values::Lists(lists) => *lists = Lists::default(),
        }
        if let Some(present) = &mut self.present {
            present.clear();
        }
    }
}

fn arrays(bytes: Vec<u8>, ends: &[usize]) -> Vec<ByteArray> {
    let all = ByteArray::from(bytes);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, &end)| all.slice(start, end - start)).collect()
}

fn open(
    columns: &[StreamColumn],
    notes: &[(String, String)],
    sink: AtomicFile,
) -> Result<SerializedFileWriter<AtomicFile>, ParquetError> {
    let fields =
        columns.iter().map(|column| column.kind.field(&column.name, !column.always).map(Arc::new));
    parquet_file::open(fields.collect::<Result<_, _>>()?, notes.iter().cloned(), sink)
}

#[cfg(test)]
mod tests;
