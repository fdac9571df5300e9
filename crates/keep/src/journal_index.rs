//! Where in a journal samples of which times are, so that an interval of a long one is read without the rest.
//!
//! Grows as the journal is followed; emits the parts of the file that an interval is in ([`JournalParts`]), which are
//! read apart from that.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::KeepError;
use crate::sample_scan::{SampleVisit, scan_lines};

/// A block of the journal is so long at least.
const BLOCK_BYTES: u64 = 64 * 1024;

/// Whole lines of a journal, and the times of their samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JournalBlock {
    /// Its first byte.
    from: u64,
    first_ns: i64,
    last_ns: i64,
}

/// The blocks of a journal that have samples, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalIndex {
    blocks: Vec<JournalBlock>,
}

impl JournalIndex {
    /// A line that begins at this byte has samples of this time.
    pub(crate) fn push(&mut self, line_at: u64, time_ns: i64) {
        match self.blocks.last_mut() {
            Some(block) if line_at < block.from + BLOCK_BYTES => {
                block.first_ns = block.first_ns.min(time_ns);
                block.last_ns = block.last_ns.max(time_ns);
            }
            _ => {
                let (first_ns, last_ns) = (time_ns, time_ns);
                self.blocks.push(JournalBlock { from: line_at, first_ns, last_ns });
            }
        }
    }

    /// The bytes that may hold samples of the interval, up to `end`.
    pub(crate) fn parts(&self, interval: &RangeInclusive<i64>, end: u64) -> Vec<Range<u64>> {
        let ends = self.blocks.iter().skip(1).map(|block| block.from).chain([end]);
        let mut parts: Vec<Range<u64>> = Vec::new();
        for (block, end) in self.blocks.iter().zip(ends) {
            if block.last_ns < *interval.start() || block.first_ns > *interval.end() {
                continue;
            }
            match parts.last_mut() {
                Some(part) if part.end == block.from => part.end = end,
                _ => parts.push(block.from..end),
            }
        }
        parts
    }
}

/// Parts of a journal, to be read for the samples of an interval.
#[derive(Clone, Debug)]
pub struct JournalParts {
    pub(crate) path: PathBuf,
    /// Shared: closing a descriptor of the journal would take back the lock that says that somebody watches.
    pub(crate) file: Arc<File>,
    pub(crate) parts: Vec<Range<u64>>,
    pub(crate) interval: RangeInclusive<i64>,
}

impl JournalParts {
    /// Shows the samples of the interval to `visit`.
    pub fn scan(&self, visit: &mut SampleVisit<'_>) -> Result<(), KeepError> {
        for part in &self.parts {
            let reader = PartReader { file: &self.file, part: part.clone() };
            let lines = BufReader::with_capacity(BLOCK_BYTES as usize, reader);
            scan_lines(&self.path, lines, &self.interval, visit)?;
        }
        Ok(())
    }

    /// Where the last of them ends: as long as no sample of the interval has come, at the same byte.
    pub fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// Bytes that are read for it.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.end - part.start).sum()
    }
}

/// Reads a part of a file, wherever others read in it.
struct PartReader<'a> {
    file: &'a File,
    part: Range<u64>,
}

impl Read for PartReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.part.end - self.part.start).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..wanted], self.part.start)?;
        self.part.start += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_in_the_blocks_that_meet_it() {
        let mut index = JournalIndex::default();
        assert!(index.parts(&(i64::MIN..=i64::MAX), 0).is_empty());
        // A line of 1 kB each millisecond; one of them is told late.
        for line in 0..1000 {
            let time = if line == 500 { 3 } else { line };
            index.push(line as u64 * 1000, time);
        }
        let end = 1_000_000;
        assert_eq!(index.parts(&(i64::MIN..=i64::MAX), end)[0], 0..end);
        assert_eq!(index.parts(&(990..=2000), end)[0], 990_000..end);
        let first = index.parts(&(3..=3), end);
        assert_eq!(first.len(), 2, "{first:?}");
        assert!(first[0].start == 0 && first[1].contains(&500_000));
        assert!(first.iter().all(|part| part.end - part.start < BLOCK_BYTES + 1000));
        assert!(index.parts(&(1000..=2000), end).is_empty());
    }
}
