//! Columns of lists of texts: which texts, and which of them belong to one row.

use std::iter::once;

use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::Result as ParquetResult;
use parquet::file::writer::SerializedColumnWriter;

/// Lists of texts.
#[derive(Default)]
pub(super) struct Lists {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// For each text, and each row without one: how much of it there is, and whether it goes on a row.
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    rows: usize,
}

/// Of a list: there is none, it is empty, it has a text.
const NO_LIST: i16 = 0;
const EMPTY: i16 = 1;
const ELEMENT: i16 = 2;

impl Lists {
    /// Rows that were not given a list have none.
    pub(super) fn fill(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.rows);
        self.definitions.extend(std::iter::repeat_n(NO_LIST, missing));
        self.repetitions.extend(std::iter::repeat_n(0, missing));
        self.rows += missing;
    }

    /// The list of a row; returns its bytes.
    pub(super) fn put<'t>(&mut self, row: usize, texts: impl Iterator<Item = &'t [u8]>) -> usize {
        self.fill(row);
        let before = (self.bytes.len(), self.ends.len());
        for text in texts {
            self.definitions.push(ELEMENT);
            self.repetitions.push(i16::from(self.ends.len() > before.1));
            self.bytes.extend_from_slice(text);
            self.ends.push(self.bytes.len());
        }
        if self.ends.len() == before.1 {
            self.definitions.push(EMPTY);
            self.repetitions.push(0);
        }
        self.rows += 1;
        self.bytes.len() - before.0
    }

    /// Bytes that they may take.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = (self.bytes.len() + self.ends.len() * 4 + self.definitions.len() * 2) as u64;
        bytes + bytes / 4
    }

    /// Writes them.
    pub(super) fn write(&mut self, chunk: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        let all = ByteArray::from(std::mem::take(&mut self.bytes));
        let starts = once(0).chain(self.ends.iter().copied());
        let texts: Vec<_> =
            starts.zip(&self.ends).map(|(start, &end)| all.slice(start, end - start)).collect();
        let (there, goes_on) = (&self.definitions[..], &self.repetitions[..]);
        chunk.typed::<ByteArrayType>().write_batch(&texts, Some(there), Some(goes_on)).map(drop)
    }
}
