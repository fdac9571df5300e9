//! A reader along: when it is waked, and how far it says that it is.
//!
//! It reads the rings by itself. The stream wakes it by a descriptor. For the register the stream reads what the reader
//! has written of itself into memory that both share; that is believed for nothing else.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::wire::{ReaderEntry, WakeBy};

/// If it does not say when it is to be waked.
const USUAL: WakeBy = WakeBy { bytes: 64 * 1024, count: 0, ms: 100 };
/// What it says of itself: bytes that it has passed, records that it has seen and lost.
const TOLD: usize = 3;
/// Bytes of the least record, with its stamp.
const LEAST_RECORD: u64 = 48;

/// One who reads along.
#[derive(Debug)]
pub struct Reader {
    pid: u32,
    /// Which of the stream's buffers it reads, by its place and its name.
    pub buffer: usize,
    name: String,
    wake: WakeBy,
    waker: OwnedFd,
    told: File,
    /// What the stream had written when the reader came, and when it was waked last.
    first: Written,
    last: Written,
    /// Since when there is something that it was not waked for.
    since: Option<Instant>,
}

/// How much a stream has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes.
    pub bytes: u64,
    /// Records.
    pub records: u64,
}

impl Written {
    /// Up to these positions, with so many records.
    pub fn of(positions: &[u64], records: u64) -> Written {
        let bytes = positions.iter().fold(0, |sum: u64, one| sum.wrapping_add(*one));
        Written { bytes, records }
    }
}

impl Reader {
    /// A reader of that buffer, of which so much has been written. It is given the two descriptors.
    pub fn new(
        pid: u32,
        (buffer, name): (usize, String),
        wake: WakeBy,
        written: Written,
    ) -> io::Result<(Reader, [OwnedFd; 2])> {
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let told = memfd_create(c"weigh-reader", flags)?;
        ftruncate(&told, (TOLD * 8) as u64)?;
        fcntl_add_seals(&told, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let given = [waker.as_fd().try_clone_to_owned()?, told.as_fd().try_clone_to_owned()?];
        let wake = if wake == WakeBy::default() { USUAL } else { wake };
        let (told, since) = (File::from(told), None);
        let (first, last) = (written, written);
        Ok((Reader { pid, buffer, name, wake, waker, told, first, last, since }, given))
    }

    /// How much a CPU may write until the stream has to look whether the reader is to be waked.
    pub fn watermark(&self) -> u64 {
        let WakeBy { bytes, count, .. } = self.wake;
        let by_count = if count == 0 { u64::MAX } else { (count - 1).saturating_mul(LEAST_RECORD) };
        by_count.min(if bytes == 0 { u64::MAX } else { bytes })
    }

    /// When it has to be looked at the latest.
    pub fn look_at(&self) -> Option<Instant> {
        match self.wake.ms {
            0 => None,
            ms => Some(self.since? + Duration::from_millis(ms)),
        }
    }

    /// The stream has written so much now: wakes the reader if that is enough.
    pub fn tell(&mut self, written: Written, now: Instant) {
        let bytes = written.bytes.wrapping_sub(self.last.bytes);
        let records = written.records.wrapping_sub(self.last.records);
        if bytes == 0 {
            return;
        }
        let since = *self.since.get_or_insert(now);
        let WakeBy { bytes: most_bytes, count, ms } = self.wake;
        let is_enough = most_bytes > 0 && bytes >= most_bytes
            || count > 0 && records >= count
            || ms > 0 && now - since >= Duration::from_millis(ms);
        if is_enough {
            self.last = written;
            self.since = None;
            // Full only if it has not looked for 2^64 times.
            let _ = rustix::io::write(&self.waker, &1u64.to_ne_bytes());
        }
    }

    /// What the register says of it.
    pub fn reads(&self, written: Written) -> ReaderEntry {
        let mut bytes = [0; TOLD * 8];
        // The reader cannot make it shorter.
        let _ = self.told.read_exact_at(&mut bytes, 0);
        let (words, _) = bytes.as_chunks::<8>();
        let [position, seen, lost] = [0, 1, 2].map(|at| u64::from_ne_bytes(words[at]));
        let lag = written.bytes.wrapping_sub(self.first.bytes).saturating_sub(position);
        let buffer = self.name.clone();
        ReaderEntry { pid: self.pid, buffer, wake: self.wake, position, lag, seen, lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(given: &OwnedFd) -> bool {
        rustix::io::read(given, &mut [0; 8]).is_ok()
    }

    #[test]
    fn each_is_waked_by_his_own_rule() {
        let now = Instant::now();
        let at = |bytes, records| Written { bytes, records };
        let start = at(1000, 10);
        let new = |wake| Reader::new(1, (0, "main".into()), wake, start).unwrap();
        let (mut each, [each_fd, _]) = new(WakeBy { count: 1, ..WakeBy::default() });
        let (mut bulk, [bulk_fd, _]) = new(WakeBy { bytes: 500, ..WakeBy::default() });
        let (mut late, [late_fd, _]) = new(WakeBy { ms: 20, ..WakeBy::default() });
        assert_eq!((each.watermark(), bulk.watermark(), late.watermark()), (0, 500, u64::MAX));
        for reader in [&mut each, &mut bulk, &mut late] {
            reader.tell(start, now);
            reader.tell(at(1064, 11), now);
        }
        assert_eq!([&each_fd, &bulk_fd, &late_fd].map(woken), [true, false, false]);
        let later = now + Duration::from_millis(20);
        assert_eq!((bulk.look_at(), late.look_at()), (None, Some(later)));
        for reader in [&mut each, &mut bulk, &mut late] {
            reader.tell(at(1500, 20), later);
        }
        assert_eq!([&each_fd, &bulk_fd, &late_fd].map(woken), [true, true, true]);
        assert_eq!(late.look_at(), None);
    }

    #[test]
    fn what_he_tells_of_himself_is_believed_for_nothing_else() {
        let (buffer, nothing) = ((0, "main".into()), Written::default());
        let (reader, [_, told]) = Reader::new(7, buffer, WakeBy::default(), nothing).unwrap();
        let told = File::from(told);
        assert!(told.set_len(0).is_err(), "it cannot be taken away");
        told.write_all_at(&[0xff; 24], 0).unwrap();
        let reads = reader.reads(Written { bytes: 64, records: 1 });
        assert_eq!((reads.pid, reads.lag, reads.lost), (7, 0, u64::MAX));
        assert_eq!(reads.wake, USUAL);
    }
}
