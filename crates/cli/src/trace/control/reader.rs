//! One who reads along: when he is waked, and how far he says that he is.
//!
//! He reads the rings by himself. The stream wakes him by a descriptor, and reads, when somebody asks for the
//! register, what he has written of himself into memory that they share: it is believed for nothing but that.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use serde::{Deserialize, Serialize};

use super::WakeBy;

/// If he says nothing about when he is to be waked.
const USUAL: WakeBy = WakeBy { bytes: 64 * 1024, count: 0, ms: 100 };
/// What he tells of himself: bytes that he has passed, records that he has seen and lost.
const TOLD: usize = 3;
/// Bytes of the least record, with its stamp.
const LEAST_RECORD: u64 = 48;

/// One who reads along.
#[derive(Debug)]
pub struct Reader {
    pid: u32,
    /// Which of the stream's buffers he reads, by its place and its name.
    pub buffer: usize,
    name: String,
    wake: WakeBy,
    waker: OwnedFd,
    told: File,
    /// What the stream had written when he came, and when he was waked last.
    first: Written,
    last: Written,
    /// Since when there is something that he was not waked for.
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

/// What the register says of him.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reads {
    /// His process, as he connected.
    pub pid: u32,
    /// The buffer that he reads.
    #[serde(default)]
    pub buffer: String,
    /// When he is waked.
    pub wake: WakeBy,
    /// Bytes that he has passed since he came, and that lie between him and the stream.
    pub position: u64,
    /// See above.
    pub lag: u64,
    /// Records that he has seen.
    pub seen: u64,
    /// Records that he has not, because he was overtaken.
    pub lost: u64,
}

impl Reader {
    /// Takes one in who reads that buffer, of which so much has been written. He is given the two descriptors.
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

    /// How much a CPU may write until the stream has to look whether he is to be waked.
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

    /// The stream has written so much now: wakes him if that is enough.
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
            // Full only if he has not looked for 2^64 times.
            let _ = rustix::io::write(&self.waker, &1u64.to_ne_bytes());
        }
    }

    /// What there is to say of him.
    pub fn reads(&self, written: Written) -> Reads {
        let mut bytes = [0; TOLD * 8];
        // He can not make it shorter.
        let _ = self.told.read_exact_at(&mut bytes, 0);
        let (words, _) = bytes.as_chunks::<8>();
        let [position, seen, lost] = [0, 1, 2].map(|at| u64::from_ne_bytes(words[at]));
        let lag = written.bytes.wrapping_sub(self.first.bytes).saturating_sub(position);
        let buffer = self.name.clone();
        Reads { pid: self.pid, buffer, wake: self.wake, position, lag, seen, lost }
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
        assert!(told.set_len(0).is_err(), "it can not be taken away");
        told.write_all_at(&[0xff; 24], 0).unwrap();
        let reads = reader.reads(Written { bytes: 64, records: 1 });
        assert_eq!((reads.pid, reads.lag, reads.lost), (7, 0, u64::MAX));
        assert_eq!(reads.wake, USUAL);
    }
}
