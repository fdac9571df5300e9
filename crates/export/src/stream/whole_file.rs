//! Files that end with something whole, even if the disk is full: what was begun is cut off again.

use std::fs::File;
use std::io::{self, IoSlice, Seek as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// So much is written at once.
const CHUNK: usize = 256 * 1024;
/// Bytes from so many on are written from where they lie; fewer are copied in less time than the kernel takes for one
/// piece more.
const IN_PLACE_BYTES: usize = 512;

/// How long a line is that begins here, with its end.
pub fn line_length(bytes: &[u8]) -> Option<usize> {
    Some(bytes.iter().position(|byte| *byte == b'\n')? + 1)
}

/// Bytes that lie elsewhere, and belong between those that wait.
#[derive(Clone, Copy, Debug)]
pub struct Insert<'b> {
    /// Before which of the bytes that wait, within a piece.
    pub at: usize,
    /// They.
    pub bytes: &'b [u8],
}

/// A file of pieces of a format's own: lines, packets, blocks.
pub struct WholeFile {
    path: PathBuf,
    file: File,
    has_failed: bool,
    /// Bytes that the end of the file takes.
    end_room: u64,
    /// What waits to be written.
    pub pending: Vec<u8>,
    /// How long a piece is that begins here; none where it is not whole.
    length: fn(&[u8]) -> Option<usize>,
}

impl WholeFile {
    /// Makes the file.
    pub fn create(path: &Path, length: fn(&[u8]) -> Option<usize>) -> anyhow::Result<WholeFile> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let path = path.to_path_buf();
        let pending = Vec::new();
        Ok(WholeFile { path, file, has_failed: false, end_room: 0, pending, length })
    }

    /// Always leaves room for an end of so many bytes, where the file system can do that.
    pub fn keep_room(&mut self, bytes: u64) {
        self.end_room = bytes;
    }

    /// Writes the end of the file, also after a failure.
    pub fn write_end(&mut self, end: &[u8]) -> anyhow::Result<()> {
        let mut written = 0;
        let done =
            write_on(&mut self.file, &mut [IoSlice::new(end)], &mut written).and_then(|()| {
                let at = self.file.stream_position()?;
                self.file.set_len(at)
            });
        done.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Has room kept for what waits, so many bytes besides, and the end of the file.
    fn reserve(&mut self, inserted: usize) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        if self.end_room == 0 {
            return Ok(());
        }
        let bytes = (self.pending.len() + inserted) as u64 + self.end_room;
        let at = self.file.stream_position()?;
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, at, bytes) {
            Err(error) if error == rustix::io::Errno::OPNOTSUPP => Ok(()),
            other => Ok(other?),
        }
    }

    /// Puts bytes behind what waits; many are only said to belong there.
    pub fn put<'b>(&mut self, bytes: &'b [u8], inserts: &mut Vec<Insert<'b>>) {
        match bytes.len() < IN_PLACE_BYTES {
            true => self.pending.extend_from_slice(bytes),
            false => inserts.push(Insert { at: self.pending.len(), bytes }),
        }
    }

    /// Writes if that is worth it.
    pub fn write_much(&mut self) -> anyhow::Result<()> {
        if self.pending.len() >= CHUNK { self.write() } else { Ok(()) }
    }

    /// The same, with these between its bytes: they have to be written now, for they lie where they are only until the
    /// caller returns.
    pub fn write_much_with(&mut self, inserts: &[Insert<'_>]) -> anyhow::Result<()> {
        if inserts.is_empty() { self.write_much() } else { self.write_with(inserts) }
    }

    /// Writes what waits. After a failure the file ends with the last piece that is whole, and nothing is
    /// written any more.
    pub fn write(&mut self) -> anyhow::Result<()> {
        self.write_with(&[])
    }

    /// The same, with these between its bytes, in the order of their places: they are written from where they lie.
    pub fn write_with(&mut self, inserts: &[Insert<'_>]) -> anyhow::Result<()> {
        if self.has_failed || self.pending.is_empty() {
            self.pending.clear();
            return Ok(());
        }
        let inserted = inserts.iter().map(|insert| insert.bytes.len()).sum();
        let mut written = 0;
        let result = self.reserve(inserted).and_then(|()| {
            write_on(&mut self.file, &mut slices(&self.pending, inserts), &mut written)
        });
        self.has_failed = result.is_err();
        let result = result.or_else(|error| {
            let surplus = (written - self.whole(written, inserts)) as u64;
            let at = self.file.stream_position()?;
            self.file.set_len(at.saturating_sub(surplus))?;
            self.file.seek_relative(-surplus.cast_signed())?;
            Err(error)
        });
        self.pending.clear();
        result.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// How much of what is written is whole within so many bytes of it.
    fn whole(&self, within: usize, mut inserts: &[Insert<'_>]) -> usize {
        // In the file, and in what waits.
        let (mut end, mut at) = (0, 0);
        while let Some(length) = (self.length)(&self.pending[at..])
            && end + length <= within
            && length > 0
        {
            end += length;
            let mut own = length;
            while let Some((first, others)) = inserts.split_first()
                && first.at - at < own
            {
                own = own.saturating_sub(first.bytes.len());
                inserts = others;
            }
            at += own;
        }
        end
    }
}

/// All that is written, piece by piece.
fn slices<'b>(pending: &'b [u8], inserts: &[Insert<'b>]) -> Vec<IoSlice<'b>> {
    let mut slices = Vec::with_capacity(2 * inserts.len() + 1);
    let mut begin = 0;
    for Insert { at, bytes } in inserts {
        slices.push(IoSlice::new(&pending[begin..*at]));
        slices.push(IoSlice::new(bytes));
        begin = *at;
    }
    slices.push(IoSlice::new(&pending[begin..]));
    slices
}

fn write_on(
    file: &mut impl Write,
    mut slices: &mut [IoSlice<'_>],
    written: &mut usize,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => {
                *written += length;
                IoSlice::advance_slices(&mut slices, length);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces whose first byte says how long they are.
    fn length(bytes: &[u8]) -> Option<usize> {
        bytes.first().map(|length| usize::from(*length))
    }

    fn file(folder: &Path) -> WholeFile {
        let mut file = WholeFile::create(&folder.join("file"), length).unwrap();
        file.pending.extend([3, 1, 1, 6, 2, 9, 2, 4, 7, 5, 8, 4, 4, 4]);
        file
    }

    /// Belong into the second piece, the third (twice) and none.
    const INSERTS: [Insert<'_>; 3] = [
        Insert { at: 5, bytes: b"abc" },
        Insert { at: 7, bytes: b"" },
        Insert { at: 7, bytes: b"de" },
    ];

    #[test]
    fn what_lies_elsewhere_stands_between_what_waits() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(folder.path());
        file.write_with(&INSERTS).unwrap();
        let expected = b"\x03\x01\x01\x06\x02abc\x09\x02de\x04\x07\x05\x08\x04\x04\x04";
        assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), expected);
        assert!(file.pending.is_empty());
        // As many at once as no system takes.
        file.pending.extend([2; 6000]);
        let bytes = [7u8];
        let inserts: Vec<_> = (0..3000).map(|n| Insert { at: 2 * n + 1, bytes: &bytes }).collect();
        file.write_with(&inserts).unwrap();
        let written = std::fs::read(folder.path().join("file")).unwrap();
        assert!(written[expected.len()..].chunks(3).eq([[2, 7, 2]; 3000]));
    }

    #[test]
    fn a_piece_is_whole_with_what_stands_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(folder.path());
        // Of 3, of 6 with 3 of them inserted, of 9 with 2, of 4.
        file.pending = vec![3, 1, 1, 6, 2, 2, 9, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4];
        let ends = [0, 3, 9, 18, 22];
        for within in 0..=22 {
            let whole = ends.iter().copied().filter(|end| *end <= within).max();
            assert_eq!(Some(file.whole(within, &INSERTS)), whole, "{within}");
        }
    }
}
