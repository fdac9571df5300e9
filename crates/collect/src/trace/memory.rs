//! The one value of an array of the kernel's, mapped here too: words that others write at any time.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// Whether it is written here as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Memory that others have, too.
pub(super) struct Memory {
    begin: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and to no thread; its words are read and written atomically.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps so many bytes, from this one on. The kernel refuses to map more than there are.
    pub(super) fn map(
        of: BorrowedFd<'_>,
        bytes: usize,
        from: u64,
        access: Access,
    ) -> io::Result<Memory> {
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let rights = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a new mapping, where the kernel likes; nothing of this program lies there.
        let mapping = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, of, from)?
        };
        let begin = NonNull::new(mapping.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory { begin, bytes })
    }

    /// The word at this byte, which is a multiple of 8; none beyond the end.
    pub(super) fn word(&self, place: usize) -> Option<&AtomicU64> {
        let fits = place.is_multiple_of(8) && place.checked_add(8)? <= self.bytes;
        // SAFETY: it lies within the mapping, which lives as long as `self` and begins at a page, so it is
        // aligned; others may write it, but this side only does so by atomic operations.
        fits.then(|| unsafe { self.begin.add(place).cast::<AtomicU64>().as_ref() })
    }

    /// The word at this byte; 0 beyond the end.
    pub(super) fn get(&self, place: usize) -> u64 {
        self.word(place).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Sets it, where it may be written.
    pub(super) fn set(&self, place: usize, value: u64) {
        if let Some(word) = self.word(place) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Has the processor fetch some lines from this byte on.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn prefetch(&self, place: usize) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in 0..4 {
            let at = self.begin.as_ptr().wrapping_add(place + line * weigh_schema::ring::LINE);
            // SAFETY: nothing is read: what is not mapped is not fetched.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>()) }
        }
    }

    /// Other processors find out by themselves what is read next.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn prefetch(&self, _: usize) {}

    /// Some bytes; none beyond the end. What they are may change if the writer breaks the
    /// protocol: then it is nonsense, of the same length.
    pub(super) fn bytes(&self, place: usize, length: usize) -> Option<&[u8]> {
        let fits = place.checked_add(length)? <= self.bytes;
        // SAFETY: they lie within the mapping, which lives as long as `self`; programs write there only before
        // the stamp that the caller has seen, or after it has said that it has read them.
        fits.then(|| unsafe { std::slice::from_raw_parts(self.begin.as_ptr().add(place), length) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.begin.as_ptr().cast(), self.bytes) };
    }
}
