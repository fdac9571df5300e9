//! The pages of a column that wait for their row group, as they will stand in the file.

use std::io::{Chain, Read};

use bytes::Bytes;
use bytes::buf::{Buf as _, Reader};
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use snap::raw::Encoder;

/// How the values of a page are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// As they are; so are pages without any.
    Plain,
    /// Which one of the dictionary each is.
    Dictionary,
    /// How much each differs from the one before.
    Differences,
}

impl How {
    fn encoding(self) -> Encoding {
        match self {
            How::Plain => Encoding::PLAIN,
            How::Dictionary => Encoding::RLE_DICTIONARY,
            How::Differences => Encoding::DELTA_BINARY_PACKED,
        }
    }
}

/// Pages of a chunk.
pub(super) struct Chunk {
    pages: Vec<u8>,
    /// How their values are written, each kind once.
    hows: Vec<How>,
    /// None before the first page: that says whether it is worth it.
    is_compressed: Option<bool>,
    rows: usize,
    values: usize,
    uncompressed: usize,
    encoder: Encoder,
}

/// A chunk that is done.
pub(super) struct Filled {
    pub(super) pages: Pages,
    pub(super) closed: ColumnCloseResult,
}

/// Its bytes: the dictionary, which is known last, stands first.
pub(super) struct Pages {
    dictionary: Bytes,
    data: Bytes,
}

impl Chunk {
    /// One without pages.
    pub(super) fn new() -> Chunk {
        Chunk {
            pages: Vec::new(),
            hows: Vec::new(),
            is_compressed: None,
            rows: 0,
            values: 0,
            uncompressed: 0,
            encoder: Encoder::new(),
        }
    }

    /// Bytes that it has.
    pub(super) fn bytes(&self) -> usize {
        self.pages.len()
    }

    /// Rows that have no value.
    pub(super) fn missing(&self) -> u64 {
        (self.rows - self.values) as u64
    }

    /// Its pages are not compressed, unless the first one was.
    pub(super) fn keep_plain(&mut self) {
        self.is_compressed.get_or_insert(false);
    }

    /// One more page, which is given back.
    pub(super) fn add(
        &mut self,
        page: Bytes,
        rows: usize,
        values: usize,
        how: How,
    ) -> ParquetResult<Bytes> {
        self.rows += rows;
        self.values += values;
        if !self.hows.contains(&how) {
            self.hows.push(how);
        }
        let length = page.len();
        let written = Page::DataPage {
            buf: self.compress(&page)?,
            num_values: rows as u32,
            encoding: how.encoding(),
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let mut pages = TrackedWrite::new(std::mem::take(&mut self.pages));
        let spec = write(&mut pages, written, length)?;
        self.pages = pages.into_inner()?;
        self.uncompressed += spec.uncompressed_size;
        Ok(page)
    }

    fn compress(&mut self, page: &Bytes) -> ParquetResult<Bytes> {
        if self.is_compressed == Some(false) {
            return Ok(page.clone());
        }
        let failed = |error: snap::Error| ParquetError::External(Box::new(error));
        let compressed = self.encoder.compress_vec(page).map_err(failed)?;
        // A short page says nothing of those that follow.
        let is_short = page.len() < 256;
        let is_worth_it = is_short || compressed.len() < page.len() - page.len() / 8;
        match *self.is_compressed.get_or_insert(is_worth_it) {
            true => Ok(compressed.into()),
            false => Ok(page.clone()),
        }
    }

    /// What waits is not wanted any more.
    pub(super) fn forget(&mut self) {
        let mut pages = std::mem::take(&mut self.pages);
        pages.clear();
        *self = Chunk { pages, ..Chunk::new() };
    }

    /// Memory of pages that have been written, for the next ones.
    pub(super) fn reuse(&mut self, pages: Pages) {
        if self.pages.is_empty() {
            self.pages = emptied(pages.data);
        }
    }

    /// All of it. The dictionary is values as they are, and how many.
    pub(super) fn close(
        mut self,
        column: ColumnDescPtr,
        (dictionary, count): (Vec<u8>, usize),
        statistics: Statistics,
    ) -> ParquetResult<Filled> {
        let mut encodings = vec![Encoding::RLE];
        encodings.extend(self.hows.iter().map(|how| how.encoding()));
        let mut first = TrackedWrite::new(Vec::new());
        if self.hows.contains(&How::Dictionary) {
            let length = dictionary.len();
            let page = Page::DictionaryPage {
                buf: self.compress(&dictionary.into())?,
                num_values: count as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            self.uncompressed += write(&mut first, page, length)?.uncompressed_size;
            encodings.push(Encoding::PLAIN);
        }
        let dictionary = Bytes::from(first.into_inner()?);
        let data = Bytes::from(self.pages);
        let (before, bytes) = (dictionary.len(), dictionary.len() + data.len());
        let compression = match self.is_compressed {
            Some(true) => Compression::SNAPPY,
            _ => Compression::UNCOMPRESSED,
        };
        let metadata = ColumnChunkMetaData::builder(column)
            .set_encodings(encodings)
            .set_compression(compression)
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(bytes as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_dictionary_page_offset((before > 0).then_some(0))
            .set_data_page_offset(before as i64)
            .set_statistics(statistics)
            .build()?;
        let closed = ColumnCloseResult {
            bytes_written: bytes as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok(Filled { pages: Pages { dictionary, data }, closed })
    }
}

/// The memory of bytes that nobody has any more.
pub(super) fn emptied(mut bytes: Bytes) -> Vec<u8> {
    bytes.truncate(0);
    bytes.into()
}

fn write(
    to: &mut TrackedWrite<Vec<u8>>,
    page: Page,
    uncompressed: usize,
) -> ParquetResult<PageWriteSpec> {
    let mut pages = SerializedPageWriter::new(to);
    let spec = pages.write_page(CompressedPage::new(page, uncompressed))?;
    pages.close()?;
    Ok(spec)
}

impl Length for Pages {
    fn len(&self) -> u64 {
        (self.dictionary.len() + self.data.len()) as u64
    }
}

impl Pages {
    /// Both, without what lies before a place.
    fn from(&self, start: usize) -> (Bytes, Bytes) {
        let before = start.min(self.dictionary.len());
        let behind = (start - before).min(self.data.len());
        (self.dictionary.slice(before..), self.data.slice(behind..))
    }
}

impl ChunkReader for Pages {
    type T = Chain<Reader<Bytes>, Reader<Bytes>>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let (dictionary, data) = self.from(start as usize);
        Ok(dictionary.reader().chain(data.reader()))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let mut bytes = Vec::with_capacity(length);
        self.get_read(start)?.take(length as u64).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}
