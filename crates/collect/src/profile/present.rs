//! Which pages of a file in memory have been written: a page that has not is not read through a mapping, for that would
//! make it, and the reader would pay for it.
//!
//! Reads where the file has data. Only of a file that is sealed against later writes by others does a page that is there stay.

use std::os::fd::OwnedFd;

use rustix::fs::{SeekFrom, seek};

/// Words of a page.
const PAGE_WORDS: usize = 4096 / 8;

/// The pages of a file that were there when it was last looked at.
pub struct PresentPages {
    file: OwnedFd,
    pages: Vec<bool>,
}

impl PresentPages {
    /// Of a file with so many words; none of them is known to be there yet.
    pub fn new(file: OwnedFd, words: usize) -> PresentPages {
        PresentPages { file, pages: vec![false; words.div_ceil(PAGE_WORDS)] }
    }

    /// Whether a word may be read.
    pub fn has(&self, word: usize) -> bool {
        self.pages.get(word / PAGE_WORDS).is_some_and(|is_there| *is_there)
    }

    /// Looks again. What the kernel does not tell is not there.
    pub fn refresh(&mut self) {
        let page_bytes = 8 * PAGE_WORDS as u64;
        let mut at = 0;
        // Each turn goes on by a page at least, whatever is written meanwhile.
        while let Ok(data) = seek(&self.file, SeekFrom::Data(at)) {
            let hole = seek(&self.file, SeekFrom::Hole(data)).unwrap_or(data);
            let (first, end) = (data / page_bytes, hole.div_ceil(page_bytes));
            let end = self.pages.len().min(usize::try_from(end).unwrap_or(usize::MAX));
            let first = end.min(usize::try_from(first).unwrap_or(usize::MAX));
            self.pages[first..end].fill(true);
            at = hole.max(at + page_bytes);
        }
    }
}
