//! A ring of the kernel's (`BPF_MAP_TYPE_RINGBUF`), read where it lies: no record is copied.
//!
//! The kernel maps the ring's data twice in a row, so that no record is broken by the ring's end.
//! Reads the producer's position and each record's head; emits the records; moves the consumer's
//! position on, after which their place may be written again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::MapHandle;
use rustix::mm::{MapFlags, ProtFlags};

/// A record's head: its length, with two bits; then where its page is, which only the kernel needs.
const HEAD: usize = 8;
/// It is still being written.
const BUSY: u32 = 1 << 31;
/// It was given up.
const DISCARDED: u32 = 1 << 30;
/// So much is shown at once: whoever reads has other things to do as well.
const AT_ONCE: u64 = 256 * 1024;
/// After so many bytes the kernel is told that their place is free.
const STRIDE: u64 = 64 * 1024;

/// A ring.
pub(super) struct Ring {
    map: MapHandle,
    bytes: usize,
    page: usize,
    /// A page that only weigh writes.
    consumer: NonNull<AtomicU64>,
    /// A page that only the kernel writes, and the data, twice.
    producer: NonNull<AtomicU64>,
}

impl Ring {
    /// Maps a ring of so many bytes.
    pub(super) fn new(map: MapHandle, bytes: usize) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let consumer = map_part(map.as_fd(), page, 0, ProtFlags::READ | ProtFlags::WRITE)?;
        match map_part(map.as_fd(), page + 2 * bytes, page as u64, ProtFlags::READ) {
            Ok(producer) => Ok(Ring { map, bytes, page, consumer, producer }),
            Err(error) => {
                unmap(consumer, page);
                Err(error)
            }
        }
    }

    /// Shows the records that are there, but not too many at once; returns how many, and whether that
    /// was all.
    pub(super) fn drain(&mut self, visit: &mut impl FnMut(&[u8])) -> (u64, bool) {
        // SAFETY: both are the first words of mappings that live as long as `self`, aligned to a page;
        // who else writes them does so by atomic operations.
        let (consumer, producer) = unsafe { (self.consumer.as_ref(), self.producer.as_ref()) };
        let (mut at, mut records) = (consumer.load(Ordering::Relaxed), 0);
        let (mut told, limit) = (at, at + AT_ONCE.min(self.bytes as u64));
        let mut end = producer.load(Ordering::Acquire);
        while at < limit {
            if at >= end {
                end = producer.load(Ordering::Acquire);
                if at >= end {
                    break;
                }
            }
            let Some((record, length)) = self.record(at) else { break };
            if let Some(record) = record {
                visit(record);
                records += 1;
            }
            at += length as u64;
            if at - told >= STRIDE {
                consumer.store(at, Ordering::Release);
                told = at;
            }
        }
        consumer.store(at, Ordering::Release);
        (records, at < limit)
    }

    /// The record at a position below the producer's, unless it was given up, and how far it is to the
    /// next; none if it is still being written.
    fn record(&self, at: u64) -> Option<(Option<&[u8]>, usize)> {
        let place = (at % self.bytes as u64) as usize;
        // SAFETY: `place` lies within the first copy of the data, which begins a page behind the
        // producer's position; heads are aligned to 8 bytes, and the kernel sets them atomically.
        let head = unsafe {
            let data = self.producer.as_ptr().cast::<u8>().add(self.page);
            let head = data.add(place).cast::<AtomicU32>();
            (*head).load(Ordering::Acquire)
        };
        if head & BUSY != 0 {
            return None;
        }
        let length = (head & !DISCARDED) as usize;
        let whole = (length + HEAD).next_multiple_of(8);
        // The kernel makes none that long; nothing is read beyond the mapping whatever it says.
        if head & DISCARDED != 0 || whole > self.bytes {
            return Some((None, whole));
        }
        // SAFETY: it begins within the first copy and is no longer than one, so it ends within the
        // second; the kernel does not write there until the consumer's position has passed it, which
        // is moved only when no record is borrowed any more.
        let record = unsafe {
            let data = self.producer.as_ptr().cast::<u8>().add(self.page);
            std::slice::from_raw_parts(data.add(place + HEAD), length)
        };
        Some((Some(record), whole))
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        unmap(self.consumer, self.page);
        unmap(self.producer, self.page + 2 * self.bytes);
    }
}

fn map_part(
    map: BorrowedFd<'_>,
    bytes: usize,
    offset: u64,
    rights: ProtFlags,
) -> io::Result<NonNull<AtomicU64>> {
    // SAFETY: a new mapping, where the kernel likes; nothing of this program lies there.
    let mapping = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, map, offset)?
    };
    NonNull::new(mapping.cast()).ok_or(io::ErrorKind::OutOfMemory.into())
}

fn unmap(mapping: NonNull<AtomicU64>, bytes: usize) {
    // SAFETY: mapped by `map_part` with this length, and nothing borrows from it any more.
    let _ = unsafe { rustix::mm::munmap(mapping.as_ptr().cast(), bytes) };
}
