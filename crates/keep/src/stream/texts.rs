//! A column of texts or bytes: pages as they fill, which wait for their row group as bytes.
//!
//! While they are short and few come, a page says which of the chunk's dictionary each one is; else it has them as they
//! are. The encoders of the library would do the same, but make a value with a counter of its users of each.

use std::collections::HashMap;

use bytes::Bytes;
use parquet::data_type::ByteArray;
use parquet::errors::Result as ParquetResult;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::chunk::{Chunk, Filled, How, Pages, emptied};
use super::pack;
use super::presence::{self, Presence};

/// More of them are too many for a dictionary, and so are longer ones.
const MOST: usize = 2048;
const LONGEST: usize = 64;
/// To compress bytes that are shorter, as the beginnings of packets, takes longer than to write them.
const SHORT_BYTES: usize = 256;
/// Room that is kept before the values of a page: they need not be copied when it is known which rows have one.
const HEAD_BYTES: usize = presence::MOST_BYTES;

/// A column.
pub(super) struct Texts {
    column: ColumnDescPtr,
    /// Whether they are texts, not bytes.
    is_text: bool,
    present: Presence,
    /// Of the page that is being made: which of the dictionary each is; or, once that has ended, they themselves, behind
    /// room for what goes before them.
    indices: Vec<u16>,
    plain: Vec<u8>,
    values: usize,
    dictionary: Dictionary,
    chunk: Chunk,
}

/// Those that have come.
#[derive(Default)]
struct Dictionary {
    numbers: HashMap<Box<[u8]>, u16>,
    all: Vec<Box<[u8]>>,
    last: u16,
    /// Others have come since, too many or too long ones.
    has_ended: bool,
}

impl Texts {
    pub(super) fn new(column: ColumnDescPtr, is_text: bool) -> Texts {
        Texts {
            is_text,
            present: Presence::new(column.max_def_level() > 0),
            indices: Vec::new(),
            plain: Vec::new(),
            values: 0,
            dictionary: Dictionary::default(),
            chunk: Chunk::new(),
            column,
        }
    }

    /// The value of a row of the page.
    pub(super) fn put(&mut self, row: usize, text: &[u8]) {
        self.present.mark(row);
        self.values += 1;
        if !self.dictionary.has_ended {
            match self.dictionary.index(text) {
                Some(index) => return self.indices.push(index),
                None => self.end_dictionary(),
            }
        }
        self.put_into_page(text);
    }

    fn put_into_page(&mut self, text: &[u8]) {
        if self.plain.is_empty() {
            self.plain.resize(HEAD_BYTES, 0);
        }
        put_plain(&mut self.plain, text);
    }

    /// Those of this page that have come are written as the others will be.
    fn end_dictionary(&mut self) {
        for index in std::mem::take(&mut self.indices) {
            let text = std::mem::take(&mut self.dictionary.all[usize::from(index)]);
            self.put_into_page(&text);
            self.dictionary.all[usize::from(index)] = text;
        }
        self.dictionary.has_ended = true;
    }

    /// Bytes that wait, with their dictionary.
    pub(super) fn bytes(&self) -> usize {
        let all = self.dictionary.all.iter();
        self.chunk.bytes() + all.map(|text| 4 + text.len()).sum::<usize>()
    }

    /// The page has so many rows.
    pub(super) fn end_page(&mut self, rows: usize) -> ParquetResult<()> {
        if rows == 0 {
            return Ok(());
        }
        let values = std::mem::take(&mut self.values);
        let mut head = Vec::with_capacity(self.indices.len() * 2 + HEAD_BYTES);
        self.present.write(rows, values, &mut head);
        let Some(first) = self.indices.first() else {
            return self.end_plain_page(&head, rows, values);
        };
        let most = self.dictionary.all.len().saturating_sub(1) as u64;
        let width = pack::width(most).max(1);
        head.push(width as u8);
        match self.indices.iter().all(|index| index == first) {
            true => pack::run(*first, width, self.indices.len(), &mut head),
            false => pack::packed(&self.indices, width, &mut head),
        }
        self.keep_short_ones_plain(0, values);
        self.indices.clear();
        self.chunk.add(head.into(), rows, values, How::Dictionary).map(drop)
    }

    /// What goes before the values is put into the room that is there for it.
    fn end_plain_page(&mut self, head: &[u8], rows: usize, values: usize) -> ParquetResult<()> {
        let mut page = std::mem::take(&mut self.plain);
        page.resize(page.len().max(HEAD_BYTES), 0);
        let first = HEAD_BYTES - head.len();
        page[first..HEAD_BYTES].copy_from_slice(head);
        self.keep_short_ones_plain(page.len() - HEAD_BYTES, values);
        let page = self.chunk.add(Bytes::from(page).slice(first..), rows, values, How::Plain)?;
        self.plain = emptied(page);
        Ok(())
    }

    fn keep_short_ones_plain(&mut self, bytes: usize, values: usize) {
        if !self.is_text && bytes < values * SHORT_BYTES {
            self.chunk.keep_plain();
        }
    }

    /// What waits is not wanted any more.
    pub(super) fn forget(&mut self) {
        self.indices.clear();
        self.plain.clear();
        self.values = 0;
        self.present.clear();
        self.dictionary = Dictionary::default();
        self.chunk.forget();
    }

    /// Memory of pages that have been written, for the next ones.
    pub(super) fn reuse(&mut self, pages: Pages) {
        self.chunk.reuse(pages);
    }

    /// What the row group gets. All pages have been ended.
    pub(super) fn close(&mut self) -> ParquetResult<Filled> {
        let missing = Some(self.chunk.missing());
        let dictionary = std::mem::take(&mut self.dictionary);
        let (least, most) = dictionary.range();
        let statistics = Statistics::byte_array(least, most, None, missing, false);
        let mut bytes = Vec::new();
        dictionary.all.iter().for_each(|text| put_plain(&mut bytes, text));
        let chunk = std::mem::replace(&mut self.chunk, Chunk::new());
        chunk.close(self.column.clone(), (bytes, dictionary.all.len()), statistics)
    }
}

fn put_plain(to: &mut Vec<u8>, text: &[u8]) {
    to.extend_from_slice(&(text.len() as u32).to_le_bytes());
    to.extend_from_slice(text);
}

impl Dictionary {
    /// Which one it is; none if it is new, and there are too many, or it is too long.
    fn index(&mut self, text: &[u8]) -> Option<u16> {
        if self.all.get(usize::from(self.last)).is_some_and(|last| **last == *text) {
            return Some(self.last);
        }
        let known = self.numbers.get(text).copied();
        if known.is_none() && (text.len() > LONGEST || self.all.len() >= MOST) {
            return None;
        }
        self.last = known.unwrap_or_else(|| {
            let number = self.all.len() as u16;
            self.all.push(text.into());
            self.numbers.insert(text.into(), number);
            number
        });
        Some(self.last)
    }

    /// The first and the last by their bytes, if these are all that the chunk has.
    fn range(&self) -> (Option<ByteArray>, Option<ByteArray>) {
        if self.has_ended {
            return (None, None);
        }
        let array = |text: &[u8]| ByteArray::from(text.to_vec());
        let all = || self.all.iter().map(AsRef::as_ref);
        (all().min().map(array), all().max().map(array))
    }
}
