//! Opens Parquet files that anybody may have written, or damaged.
//!
//! Reads a file's own description of itself; emits a reader whose chunks lie within the file and whose pages grow to
//! no more than their compression can give. Refuses all else. The Parquet library panics on some kinds of damage:
//! [`guarded`] makes an error of it, without a word on standard error.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use parquet::basic::Compression;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader as _, Length as _};
use parquet::file::serialized_reader::SerializedFileReader;

use crate::error::KeepError;
use crate::page_header::PageHeader;
use crate::parquet_source::ParquetSource;

/// Snappy copies 64 bytes by a tag of three, at most.
const MOST_GROWTH: u64 = 24;
/// What a page may have in any case.
const SMALL_PAGE_BYTES: u64 = 4096;
/// Rows for each byte of the file: a table of weigh's has a time or a number in each row.
const MOST_ROWS_PER_BYTE: u64 = 64;
/// Of a header: nearly all are shorter than the first, and those with long bounds of values than the second.
const HEADER_BYTES: [usize; 2] = [256, 64 * 1024];

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Opens a file, and looks whether what it says of itself can be.
pub(crate) fn open(
    path: &Path,
    file: File,
) -> Result<SerializedFileReader<ParquetSource>, KeepError> {
    let source = ParquetSource::new(file).map_err(|e| KeepError::read(path, e))?;
    let pages = source.try_clone().map_err(|e| KeepError::read(path, e))?;
    let reader = guarded(path, || SerializedFileReader::new(source))?;
    match wrong(reader.metadata(), &pages, pages.len()) {
        Some(reason) => Err(KeepError::damaged(path, reason)),
        None => Ok(reader),
    }
}

/// Calls the Parquet library. What it worked on is not used again after it has panicked.
pub(crate) fn guarded<T>(
    path: &Path,
    call: impl FnOnce() -> ParquetResult<T>,
) -> Result<T, KeepError> {
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                before(info);
            }
        }));
    });
    let was_guarded = IS_GUARDED.replace(true);
    let called = catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(was_guarded);
    match called {
        Ok(result) => result.map_err(|e| KeepError::from_reading(path, e)),
        Err(_) => Err(KeepError::damaged(path, "the Parquet library gave up on it")),
    }
}

/// What cannot be of what a file says of itself.
fn wrong(said: &ParquetMetaData, file: &ParquetSource, length: u64) -> Option<&'static str> {
    let mut rows = 0u64;
    for group in said.row_groups() {
        let Ok(of_group) = u64::try_from(group.num_rows()) else {
            return Some("its number of rows is negative");
        };
        rows = rows.saturating_add(of_group);
        for column in group.columns() {
            let is_plain = column.column_descr().max_rep_level() == 0;
            if is_plain && column.num_values() != group.num_rows() {
                return Some("a column has another number of rows than its group");
            }
            if let Some(reason) = wrong_chunk(column, file, length) {
                return Some(reason);
            }
        }
    }
    match u64::try_from(said.file_metadata().num_rows()) {
        Err(_) => Some("its number of rows is negative"),
        Ok(all) if all != rows => Some("its number of rows is not that of its groups"),
        Ok(all) if all > length.saturating_mul(MOST_ROWS_PER_BYTE) => {
            Some("it says that it has more rows than it can hold")
        }
        Ok(_) => None,
    }
}

fn wrong_chunk(
    column: &ColumnChunkMetaData,
    file: &ParquetSource,
    length: u64,
) -> Option<&'static str> {
    let from = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let bounds = (u64::try_from(from), u64::try_from(column.compressed_size()));
    let (Ok(from), Ok(bytes)) = bounds else { return Some("a column begins before the file") };
    let Some(end) = from.checked_add(bytes).filter(|end| *end <= length) else {
        return Some("a column ends behind the file");
    };
    let growth = match column.compression() {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => MOST_GROWTH,
        _ => return Some("it is compressed in a way that weigh does not read"),
    };
    let (mut at, mut left) = (from, column.num_values());
    while at < end && left > 0 {
        let header = header_at(file, at, end)?;
        let Some(header) = header else { return Some("a page has no header") };
        if header.uncompressed > SMALL_PAGE_BYTES.max(header.compressed.saturating_mul(growth)) {
            return Some("a page says that it holds more than it can");
        }
        left -= header.values.unwrap_or(0);
        at = at.saturating_add(header.bytes).saturating_add(header.compressed);
    }
    None
}

/// The header that lies there; nothing if the file cannot be read, which is met again when it is read.
fn header_at(file: &ParquetSource, at: u64, end: u64) -> Option<Option<PageHeader>> {
    let left = usize::try_from(end - at).unwrap_or(usize::MAX);
    for room in HEADER_BYTES {
        let mut bytes = vec![0; room.min(left)];
        file.read_exact_at(&mut bytes, at)?;
        if let Some(header) = PageHeader::read(&bytes) {
            return Some(Some(header));
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_is_an_error_and_weighs_own_are_told() {
        let refused = guarded(Path::new("x"), || -> ParquetResult<()> { panic!("not shown") });
        assert!(matches!(refused, Err(KeepError::Damaged { .. })), "{refused:?}");
        assert!(!IS_GUARDED.get());
    }
}
