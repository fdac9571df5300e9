//! The bytes of a Parquet file: in memory where it is small, else read where they are asked for.
//!
//! A table has a hundred columns, and the Parquet library opens, seeks, reads and closes for each: of a short run's
//! recording that is more than the rest of its reading.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{ChunkReader, Length};

/// A file of no more than this is read at once.
const SMALL_BYTES: u64 = 256 * 1024;

/// A file, or all that is in it.
pub(crate) enum ParquetSource {
    Memory(Bytes),
    File(File),
}

impl ParquetSource {
    /// Reads a small file.
    pub(crate) fn new(file: File) -> io::Result<ParquetSource> {
        let length = file.metadata()?.len();
        if length > SMALL_BYTES {
            return Ok(ParquetSource::File(file));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        file.take(SMALL_BYTES).read_to_end(&mut bytes)?;
        Ok(ParquetSource::Memory(bytes.into()))
    }

    /// The same bytes once more.
    pub(crate) fn try_clone(&self) -> io::Result<ParquetSource> {
        Ok(match self {
            ParquetSource::Memory(bytes) => ParquetSource::Memory(bytes.clone()),
            ParquetSource::File(file) => ParquetSource::File(file.try_clone()?),
        })
    }

    /// As many bytes as there is room for, from that place on; none if they are not there.
    pub(crate) fn read_exact_at(&self, room: &mut [u8], at: u64) -> Option<()> {
        match self {
            ParquetSource::Memory(bytes) => {
                let from = usize::try_from(at).ok()?;
                room.copy_from_slice(bytes.get(from..from.checked_add(room.len())?)?);
                Some(())
            }
            ParquetSource::File(file) => file.read_exact_at(room, at).ok(),
        }
    }
}

impl Length for ParquetSource {
    fn len(&self) -> u64 {
        match self {
            ParquetSource::Memory(bytes) => bytes.len() as u64,
            ParquetSource::File(file) => file.len(),
        }
    }
}

impl ChunkReader for ParquetSource {
    type T = Part;

    fn get_read(&self, start: u64) -> ParquetResult<Part> {
        Ok(match self {
            ParquetSource::Memory(bytes) => Part::Memory(bytes.get_read(start)?),
            ParquetSource::File(file) => Part::File(file.get_read(start)?),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        match self {
            ParquetSource::Memory(bytes) => bytes.get_bytes(start, length),
            ParquetSource::File(file) => file.get_bytes(start, length),
        }
    }
}

/// What follows a place in it.
pub(crate) enum Part {
    Memory(bytes::buf::Reader<Bytes>),
    File(BufReader<File>),
}

impl Read for Part {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Part::Memory(bytes) => bytes.read(room),
            Part::File(file) => file.read(room),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_and_a_large_one_have_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        for length in [0u64, 1000, SMALL_BYTES, SMALL_BYTES + 1] {
            let text: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let path = dir.path().join("file");
            std::fs::write(&path, &text).unwrap();
            let source = ParquetSource::new(File::open(&path).unwrap()).unwrap();
            assert_eq!(matches!(source, ParquetSource::Memory(_)), length <= SMALL_BYTES);
            assert_eq!(Length::len(&source), length);
            let mut rest = Vec::new();
            source.get_read(length / 2).unwrap().read_to_end(&mut rest).unwrap();
            assert_eq!(rest, text[length as usize / 2..]);
            assert!(source.get_bytes(length, 1).is_err());
            let (mut room, mut again) = ([0; 10], [0; 10]);
            let found = source.read_exact_at(&mut room, 500);
            assert_eq!(found.is_some(), length >= 510);
            assert_eq!(source.try_clone().unwrap().read_exact_at(&mut again, 500), found);
            assert_eq!(room, again);
            assert_eq!(source.read_exact_at(&mut room, u64::MAX), None);
        }
    }
}
