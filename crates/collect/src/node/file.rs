//! A file of `/proc` or `/sys` that stays open and is read from its beginning at each tick.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::error::NodeError;
use crate::procfs::ProcError;

/// How the kernel gives out a file's text, by which its end is known without another read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileShape {
    /// All in one read, if there is room.
    OneRecord,
    /// As `OneRecord`, and a few numbers: for `/proc/sys` the kernel clears as much memory as is asked for.
    Small,
    /// In records of at most [`LONGEST`] bytes, as many as fit into a page.
    ShortRecords,
    /// Until a read gives nothing.
    AnyRecords,
}

/// The longest record of a file of short ones.
const LONGEST: usize = 512;
/// A seq_file fills its buffer of at least one page before it gives out anything.
const PAGE: usize = 4096;
/// Longer than any small file.
const SMALL: usize = 128;
/// No file that is read here is longer.
const MOST: usize = 4 << 20;

/// Memory that all files are read into, one after the other.
pub(super) struct ReadBuffer(Vec<u8>);

impl Default for ReadBuffer {
    fn default() -> ReadBuffer {
        ReadBuffer(vec![0; 2 * PAGE])
    }
}

/// An open file.
pub(super) struct KernelFile {
    path: PathBuf,
    file: File,
    shape: FileShape,
}

impl KernelFile {
    /// Opens it.
    pub fn open(path: PathBuf, shape: FileShape) -> Result<KernelFile, NodeError> {
        match File::open(&path) {
            Ok(file) => Ok(KernelFile { path, file, shape }),
            Err(source) => Err(ProcError::Read { path, source }.into()),
        }
    }

    /// Its text, from the beginning to the end.
    pub fn read<'b>(&self, buffer: &'b mut ReadBuffer) -> Result<&'b [u8], NodeError> {
        self.read_first(buffer, MOST)
    }

    /// So many bytes of its text, or a few less: the kernel writes no more lines than that takes.
    pub fn read_first<'b>(
        &self,
        ReadBuffer(buffer): &'b mut ReadBuffer,
        bytes: usize,
    ) -> Result<&'b [u8], NodeError> {
        let most = bytes.min(MOST);
        let mut filled = 0;
        loop {
            let small = if self.shape == FileShape::Small && filled == 0 { SMALL } else { most };
            let end = buffer.len().min(most).min(small);
            let room = end - filled;
            let count = self.read_at(&mut buffer[filled..end], filled)?;
            filled += count;
            if self.is_end(count, room) || (filled >= most && most < MOST) {
                return Ok(&buffer[..filled]);
            }
            if filled >= MOST {
                return Err(NodeError::TooLong { path: self.path.clone(), bytes: MOST });
            }
            if buffer.len() - filled < PAGE {
                buffer.resize((buffer.len() * 2).min(MOST), 0);
            }
        }
    }

    fn read_at(&self, room: &mut [u8], offset: usize) -> Result<usize, NodeError> {
        loop {
            match self.file.read_at(room, offset as u64) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => {
                    return read.map_err(|source| {
                        ProcError::Read { path: self.path.clone(), source }.into()
                    });
                }
            }
        }
    }

    fn is_end(&self, count: usize, room: usize) -> bool {
        match self.shape {
            _ if count == 0 => true,
            FileShape::OneRecord | FileShape::Small => count < room,
            FileShape::ShortRecords => count < room && count + LONGEST <= PAGE,
            FileShape::AnyRecords => false,
        }
    }

    /// Says that it does not hold what it should.
    pub fn holds_no(&self, what: &'static str) -> NodeError {
        ProcError::Parse { path: self.path.clone(), what }.into()
    }
}

/// The names in a folder, sorted; none where there is no folder.
pub(super) fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The first line of a small file, if there is one.
pub(super) fn first_line(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let line = text.split(|byte| *byte == b'\n').next().filter(|line| !line.is_empty())?;
    Some(weigh_schema::byte_text::keep(line))
}
