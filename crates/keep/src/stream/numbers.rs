//! A column of numbers, or of names by their numbers: pages as they fill, which wait for their row group as bytes.
//!
//! While few values come, a page says which of the chunk's dictionary each one is; else how much each differs from
//! the one before. Pages of names are always of the first kind: names are told before they are used. The encoders of
//! the library would do the same, at several times the cost: they take one value after the other, and hold a whole
//! row group of them in memory until then.

use parquet::basic::LogicalType;
use parquet::data_type::ByteArray;
use parquet::errors::Result as ParquetResult;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::chunk::{Chunk, Filled, How};
use super::dictionary::Dictionary;
use super::pack;
use super::presence::{PAGE_ROWS, Presence};

/// Names that a column can have.
const MOST_NAMES: usize = 1 << 15;

/// A column.
pub(super) struct Numbers {
    column: ColumnDescPtr,
    is_unsigned: bool,
    /// Of the page that is being made: its values, and a bit for each row that has one.
    values: Vec<i64>,
    present: Presence,
    known: Codes,
    /// Of the chunk: the least and the most, by the column's order.
    range: Option<(i64, i64)>,
    chunk: Chunk,
    indices: Vec<u16>,
}

/// What values can be said by their number.
enum Codes {
    /// Those that have come; none of the rest of the chunk, once they were too many.
    Values(Dictionary, bool),
    Names(Vec<Name>),
}

struct Name {
    text: ByteArray,
    /// The chunk has it.
    is_used: bool,
}

impl Numbers {
    pub(super) fn new(column: ColumnDescPtr, has_names: bool) -> Numbers {
        let may_lack = column.max_def_level() > 0;
        let logical = column.logical_type_ref();
        Numbers {
            is_unsigned: matches!(logical, Some(LogicalType::Integer(kind)) if !kind.is_signed),
            values: Vec::with_capacity(PAGE_ROWS),
            present: Presence::new(may_lack),
            known: match has_names {
                true => Codes::Names(Vec::new()),
                false => Codes::Values(Dictionary::new(), false),
            },
            range: None,
            chunk: Chunk::new(),
            indices: Vec::with_capacity(PAGE_ROWS),
            column,
        }
    }

    /// The value of a row of the page, of which there are [`PAGE_ROWS`].
    #[inline]
    pub(super) fn put(&mut self, row: usize, value: i64) {
        self.present.mark(row);
        self.values.push(value);
    }

    /// The values of so many rows from this one on.
    #[inline]
    pub(super) fn put_all(&mut self, row: usize, values: impl ExactSizeIterator<Item = i64>) {
        self.present.mark_all(row, values.len());
        self.values.extend(values);
    }

    /// The number that a name is put in by; none if the column has no names, or there are too many.
    pub(super) fn name(&mut self, name: &[u8]) -> Option<i64> {
        let Codes::Names(names) = &mut self.known else { return None };
        let known = names.iter().position(|known| known.text.data() == name);
        if known.is_none() && names.len() >= MOST_NAMES {
            return None;
        }
        if known.is_none() {
            names.push(Name { text: name.to_vec().into(), is_used: false });
        }
        Some(known.unwrap_or(names.len() - 1) as i64)
    }

    /// Bytes that wait, with their dictionary.
    pub(super) fn bytes(&self) -> usize {
        let dictionary = match &self.known {
            Codes::Values(dictionary, _) => dictionary.values().len() * 8,
            Codes::Names(names) => names.iter().map(|name| 4 + name.text.len()).sum(),
        };
        self.chunk.bytes() + dictionary
    }

    /// The page has so many rows.
    pub(super) fn end_page(&mut self, rows: usize) -> ParquetResult<()> {
        if rows == 0 {
            return Ok(());
        }
        let mut page = Vec::with_capacity(self.values.len());
        self.present.write(rows, self.values.len(), &mut page);
        let how = self.encode(&mut page);
        let count = self.values.len();
        self.values.clear();
        self.chunk.add(page.into(), rows, count, how).map(drop)
    }

    fn encode(&mut self, page: &mut Vec<u8>) -> How {
        let Some((least, most)) = range(&self.values, self.is_unsigned) else { return How::Plain };
        let order = |value| in_order(value, self.is_unsigned);
        self.range = Some(self.range.map_or((least, most), |(low, high)| {
            (
                if order(least) < order(low) { least } else { low },
                if order(most) > order(high) { most } else { high },
            )
        }));
        self.indices.clear();
        let count = match &mut self.known {
            Codes::Names(names) => {
                for value in &self.values {
                    // A number that nobody was given is the first name's.
                    let number = names.get(*value as usize).map_or(0, |_| *value as u16);
                    names[usize::from(number)].is_used = true;
                    self.indices.push(number);
                }
                names.len()
            }
            Codes::Values(dictionary, is_full) => {
                // Where all are the same one is enough.
                let looked_up = if least == most { 1 } else { self.values.len() };
                let indices = self.values[..looked_up].iter().map(|value| dictionary.index(*value));
                if !*is_full {
                    self.indices.extend(indices.map_while(|index| index));
                    *is_full = self.indices.len() < looked_up;
                }
                if *is_full {
                    pack::differences(&self.values, page);
                    return How::Differences;
                }
                dictionary.values().len()
            }
        };
        let width = pack::width(count.saturating_sub(1) as u64).max(1);
        page.push(width as u8);
        match least == most {
            true => pack::run(self.indices[0], width, self.values.len(), page),
            false => pack::packed(&self.indices, width, page),
        }
        How::Dictionary
    }

    /// What waits is not wanted any more.
    pub(super) fn forget(&mut self) {
        self.values.clear();
        self.present.clear();
        self.range = None;
        self.chunk.forget();
        match &mut self.known {
            Codes::Values(dictionary, is_full) => {
                dictionary.clear();
                *is_full = false;
            }
            Codes::Names(names) => names.iter_mut().for_each(|name| name.is_used = false),
        }
    }

    /// What the row group gets. All pages have been ended.
    pub(super) fn close(&mut self) -> ParquetResult<Filled> {
        let range = self.range.take();
        let missing = Some(self.chunk.missing());
        let mut dictionary = Vec::new();
        let (count, statistics) = match &mut self.known {
            Codes::Values(values, is_full) => {
                let count = values.values().len();
                dictionary.extend(values.values().iter().flat_map(|value| value.to_le_bytes()));
                values.clear();
                *is_full = false;
                let (least, most) = range.unzip();
                (count, Statistics::int64(least, most, None, missing, false))
            }
            Codes::Names(names) => {
                for Name { text, .. } in names.iter() {
                    dictionary.extend((text.len() as u32).to_le_bytes());
                    dictionary.extend(text.data());
                }
                let (least, most) = range_of(names);
                names.iter_mut().for_each(|name| name.is_used = false);
                (names.len(), Statistics::byte_array(least, most, None, missing, false))
            }
        };
        let chunk = std::mem::replace(&mut self.chunk, Chunk::new());
        chunk.close(self.column.clone(), (dictionary, count), statistics)
    }
}

/// The first and the last by their bytes, of those that the chunk has.
fn range_of(names: &[Name]) -> (Option<ByteArray>, Option<ByteArray>) {
    let used = || names.iter().filter(|name| name.is_used).map(|name| &name.text);
    let (least, most) =
        (used().min_by_key(|text| text.data()), used().max_by_key(|text| text.data()));
    (least.cloned(), most.cloned())
}

/// A number that stands where the value does in its column's order.
fn in_order(value: i64, is_unsigned: bool) -> i64 {
    if is_unsigned { value ^ i64::MIN } else { value }
}

fn range(values: &[i64], is_unsigned: bool) -> Option<(i64, i64)> {
    let flip = if is_unsigned { i64::MIN } else { 0 };
    let first = *values.first()? ^ flip;
    let (least, most) = values.iter().fold((first, first), |(least, most), value| {
        let value = value ^ flip;
        (least.min(value), most.max(value))
    });
    Some((least ^ flip, most ^ flip))
}
