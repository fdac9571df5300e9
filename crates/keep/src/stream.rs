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
mod presence;
mod texts;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::reader::FileReader as _;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;

use crate::atomic::AtomicFile;
use crate::error::KeepError;
use crate::{parquet_file, parquet_reader};
use chunk::Filled;
pub use column_kind::StreamKind;
use lists::Lists;
use numbers::Numbers;
use presence::PAGE_ROWS;
use texts::Texts;

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
const GROUP_TEXT_BYTES: usize = 4 << 20;
/// A page ends after so many bytes of text, too: it is copied, and compressed, where it lies in a processor's cache.
const PAGE_TEXT_BYTES: usize = 256 << 10;
/// Room that the end of the file takes, for each column of each row group, and beyond that.
const END_BYTES: u64 = 256;
const END_REST: u64 = 64 * 1024;

enum Values {
    Numbers(Box<Numbers>),
    Texts(Box<Texts>),
    Lists(Lists),
}

/// A file of events that is being written.
pub struct StreamWriter {
    path: PathBuf,
    file: SerializedFileWriter<AtomicFile>,
    columns: Vec<Values>,
    /// Rows, and bytes of text, that wait for their row group; and rows of the page that is being made.
    rows_pending: usize,
    page_rows: usize,
    page_text: usize,
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
        let values = |(column, described): (&StreamColumn, ColumnDescPtr)| match column.kind {
            kind @ (StreamKind::Text | StreamKind::Bytes) => {
                Values::Texts(Box::new(Texts::new(described, kind == StreamKind::Text)))
            }
            StreamKind::Texts => Values::Lists(Lists::default()),
            kind => Values::Numbers(Box::new(Numbers::new(described, kind == StreamKind::Name))),
        };
        Ok(StreamWriter {
            path: path.to_path_buf(),
            file,
            columns: columns.iter().zip(described).map(values).collect(),
            rows_pending: 0,
            page_rows: 0,
            page_text: 0,
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
        if let Some(Values::Numbers(numbers)) = self.columns.get_mut(column) {
            numbers.put(self.page_rows, value);
        }
    }

    /// How many rows can be made next, column by column.
    pub fn room(&self) -> usize {
        PAGE_ROWS - self.page_rows
    }

    /// Puts a number into each of the rows that are being made, of which there is room for as many.
    #[inline]
    pub fn numbers(&mut self, column: usize, values: impl ExactSizeIterator<Item = i64>) {
        if let Some(Values::Numbers(numbers)) = self.columns.get_mut(column) {
            numbers.put_all(self.page_rows, values);
        }
    }

    /// The number of a name in a column of names; none if that is no such column, or has too many.
    pub fn name(&mut self, column: usize, name: &[u8]) -> Option<i64> {
        match self.columns.get_mut(column)? {
            Values::Numbers(numbers) => numbers.name(name),
            _ => None,
        }
    }

    /// Puts a text, or bytes, into the row that is being made.
    pub fn text(&mut self, column: usize, value: &[u8]) {
        self.text_of(column, 0, value);
    }

    /// The same, for one of the rows that are being made, the first of which is 0.
    pub fn text_of(&mut self, column: usize, row: usize, value: &[u8]) {
        if let Some(Values::Texts(texts)) = self.columns.get_mut(column) {
            texts.put(self.page_rows + row, value);
            self.page_text += value.len();
        }
    }

    /// Puts a list of texts into the row that is being made.
    pub fn texts<'t>(&mut self, column: usize, texts: impl Iterator<Item = &'t [u8]>) {
        if let Some(Values::Lists(lists)) = self.columns.get_mut(column) {
            self.page_text += lists.put(self.rows_pending, texts);
        }
    }

    /// The row is whole. False: it could not be kept, nor can any other.
    pub fn end_row(&mut self) -> bool {
        self.end_some(1)
    }

    /// So many rows are whole.
    pub fn end_some(&mut self, rows: usize) -> bool {
        self.rows_pending += rows;
        self.page_rows += rows;
        if self.page_rows >= PAGE_ROWS || self.page_text >= PAGE_TEXT_BYTES {
            self.end_page();
        }
        self.closed.error.is_none()
    }

    fn end_page(&mut self) {
        let rows = std::mem::take(&mut self.page_rows);
        self.text_pending += std::mem::take(&mut self.page_text);
        if let Err(error) = self.columns.iter_mut().try_for_each(|values| values.end_page(rows)) {
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
        let values: u64 = self.columns.iter().map(Values::bytes).sum();
        let room = values + self.columns.len() as u64 * 1024 + end;
        self.file
            .inner()
            .reserve(self.file.bytes_written() as u64, room)
            .map_err(|error| KeepError::write(&self.path, error))?;
        self.groups += 1;
        self.write_columns().map_err(|error| KeepError::from_writing(&self.path, error))
    }

    fn write_columns(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            let Filled { pages, closed } = match column {
                Values::Numbers(numbers) => numbers.close()?,
                Values::Texts(texts) => texts.close()?,
                Values::Lists(lists) => {
                    lists.fill(self.rows_pending);
                    let chunk = group.next_column()?;
                    let none = || ParquetError::General("fewer columns than declared".into());
                    let mut chunk = chunk.ok_or_else(none)?;
                    lists.write(&mut chunk)?;
                    chunk.close()?;
                    continue;
                }
            };
            group.append_column(&pages, closed)?;
            if let Values::Texts(texts) = column {
                texts.reuse(pages);
            }
        }
        group.close().map(drop)
    }
}

impl Values {
    fn bytes(&self) -> u64 {
        match self {
            // These are as they will be.
            Values::Numbers(numbers) => numbers.bytes() as u64,
            Values::Texts(texts) => texts.bytes() as u64,
            Values::Lists(lists) => lists.bytes(),
        }
    }

    fn end_page(&mut self, rows: usize) -> Result<(), ParquetError> {
        match self {
            Values::Numbers(numbers) => numbers.end_page(rows),
            Values::Texts(texts) => texts.end_page(rows),
            Values::Lists(_) => Ok(()),
        }
    }

    fn forget(&mut self) {
        match self {
            Values::Numbers(numbers) => numbers.forget(),
            Values::Texts(texts) => texts.forget(),
            Values::Lists(lists) => *lists = Lists::default(),
        }
    }
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
