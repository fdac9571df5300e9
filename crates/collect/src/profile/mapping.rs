//! The memory of a profile, which another process writes to.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::{MembarrierCommand, membarrier};
use weigh_parse::profile::Words;

use super::present::PresentPages;

/// The words of a file that cannot shrink.
pub struct ProfileMapping {
    at: NonNull<AtomicU64>,
    words: usize,
    is_writable: bool,
    /// What may be read; none where all may.
    present: Option<PresentPages>,
}

// SAFETY: the mapping is this value's alone, and is used as atomics from whatever thread has it.
unsafe impl Send for ProfileMapping {}

impl ProfileMapping {
    /// Maps so many words of a file that has them, and keeps them.
    pub fn new(file: &OwnedFd, words: usize) -> io::Result<ProfileMapping> {
        match ProfileMapping::map(file, words, ProtFlags::READ | ProtFlags::WRITE) {
            // It may be sealed, or handed over for reading alone.
            Err(_) => ProfileMapping::map(file, words, ProtFlags::READ),
            mapping => mapping,
        }
    }

    fn map(file: &OwnedFd, words: usize, rights: ProtFlags) -> io::Result<ProfileMapping> {
        let (at, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: a new mapping, where the kernel likes; nothing of this program lies there.
        let map = unsafe { mmap(at, 8 * words, rights, flags, file, 0)? };
        let at = NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let is_writable = rights.contains(ProtFlags::WRITE);
        Ok(ProfileMapping { at, words, is_writable, present: None })
    }

    /// Maps so many words of such a file, of which nobody takes away what was written: to read them, and to make none.
    pub fn of_present(file: OwnedFd, words: usize) -> io::Result<ProfileMapping> {
        let mut mapping = ProfileMapping::map(&file, words, ProtFlags::READ)?;
        mapping.present = Some(PresentPages::new(file, words));
        mapping.refresh();
        Ok(mapping)
    }

    /// Sees what was written since.
    pub fn refresh(&mut self) {
        self.present.iter_mut().for_each(PresentPages::refresh);
    }

    /// Whether words can be stored.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Stores a word, after all that was stored before. Nothing happens where there is none, or it is not writable.
    pub fn store(&self, at: usize, word: u64) {
        if at >= self.words || !self.is_writable {
            return;
        }
        // SAFETY: within the mapping, aligned, mapped for writing; all of it is only ever used as atomics.
        unsafe { self.at.add(at).as_ref() }.store(word, Ordering::Release);
    }
}

impl Words for ProfileMapping {
    fn count(&self) -> usize {
        self.words
    }

    fn load(&self, at: usize) -> u64 {
        let is_there = self.present.as_ref().is_none_or(|present| present.has(at));
        if at >= self.words || !is_there {
            return 0;
        }
        // SAFETY: within the mapping, aligned; it is never read but as atomics, and the file is as long to the end, for it
        // is sealed against shrinking.
        unsafe { self.at.add(at).as_ref() }.load(Ordering::Acquire)
    }
}

impl Drop for ProfileMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), 8 * self.words) };
    }
}

/// A barrier in all threads that run now of programs that have registered for it, as libweigh has.
pub fn barrier_everywhere() {
    // Where a kernel has it not, libweigh could not register either, and makes barriers of its own.
    let _ = membarrier(MembarrierCommand::GlobalExpedited);
    fence(Ordering::SeqCst);
}
