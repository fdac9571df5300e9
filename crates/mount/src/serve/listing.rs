//! An open directory, as far as it has been read.

use std::os::fd::BorrowedFd;

use rustix::fs::{Dir, DirEntry};

use super::answer::Outcome;

/// A directory that is being read.
#[derive(Debug)]
pub struct Listing {
    pub(super) directory: Dir,
    /// What comes next, as the file system below counts.
    pub(super) next: u64,
    /// It was read, and found no room in the last answer.
    pub(super) left: Option<DirEntry>,
}

impl Listing {
    /// Goes on from where the caller is.
    pub(super) fn from(&mut self, offset: u64) -> Outcome<()> {
        if offset != self.next || offset == 0 {
            self.left = None;
            self.directory.seek(offset as i64)?;
            self.next = offset;
        }
        Ok(())
    }

    /// The directory itself.
    pub(super) fn fd(&self) -> Outcome<BorrowedFd<'_>> {
        self.directory.fd()
    }

    fn entry(&mut self) -> Outcome<Option<DirEntry>> {
        match self.left.take() {
            Some(entry) => Ok(Some(entry)),
            None => self.directory.read().transpose(),
        }
    }

    /// Gives entries to `take` until it is full, which it says by refusing one.
    pub(super) fn each(
        &mut self,
        offset: u64,
        mut take: impl FnMut(&DirEntry) -> bool,
    ) -> Outcome<()> {
        self.from(offset)?;
        while let Some(entry) = self.entry()? {
            if !take(&entry) {
                self.left = Some(entry);
                break;
            }
            self.next = entry.offset() as u64;
        }
        Ok(())
    }
}
