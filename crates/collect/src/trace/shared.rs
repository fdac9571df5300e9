//! An array of the kernel's, mapped here too: words that programs and weigh read and write at any time.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// The array.
pub(super) struct Shared {
    words: NonNull<AtomicU64>,
    bytes: usize,
}

impl Shared {
    /// Maps its one value.
    pub(super) fn new(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Shared> {
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the kernel likes; nothing of this program lies there.
        let mapping = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, map, 0)?
        };
        let words = NonNull::new(mapping.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared { words, bytes })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so long, aligned to a page, and lives as long as `self`; programs
        // write it at any time, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.bytes / 8) }
    }

    /// The word at this byte; 0 beyond the end.
    pub(super) fn get(&self, place: usize) -> u64 {
        self.words().get(place / 8).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Sets it.
    pub(super) fn set(&self, place: usize, value: u64) {
        if let Some(word) = self.words().get(place / 8) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), self.bytes) };
    }
}
