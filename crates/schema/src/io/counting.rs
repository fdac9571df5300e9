//! What is counted of a file and process as things are done with it, for ptrace: as `collect/bpf/io/access_rules.h`
//! has it in C.

use super::called::Deed;
use super::field::Field;
use super::field::bucket;
use super::pattern::Cursor;
use super::transfer::Transfer;
use super::usage::Use;

/// A sync after less than this is a small one.
pub(super) const SMALL_SYNC: u64 = 64 << 10;
/// What O_DIRECT wants its places and sizes to be multiples of.
pub(super) const DIRECT_BLOCK: u64 = 4096;

/// Bytes that were moved, and by how many calls.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// How.
    pub transfer: Transfer,
    /// Read (0) or written (1).
    pub direction: usize,
    /// By so many calls.
    pub calls: u64,
    /// So many bytes.
    pub bytes: u64,
    /// Where in the file, if that is known.
    pub from: Option<u64>,
    /// Of what goes past the page cache: the length that has to be a multiple of 4096.
    pub direct: Option<u64>,
}

/// One call, from outside.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// When it began, in nanoseconds since the following began.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// Its number, for the slowest one.
    pub number: u64,
}

impl Span {
    /// How long it took.
    pub fn time_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.began_ns)
    }
}

/// What is kept of a file and process while it is in use.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    /// What it adds up to.
    pub used: Use,
    cursors: [Cursor; 2],
    unsynced: u64,
}

impl Counting {
    /// Adds to a number.
    pub fn add(&mut self, field: Field, more: u64) {
        let numbers = &mut self.used.numbers;
        numbers.set(field, numbers.get(field) + more);
    }

    /// Counts one more.
    pub fn count(&mut self, field: Field) {
        self.add(field, 1);
    }

    /// When it was used, and whether that was the slowest call.
    pub fn timed(&mut self, span: &Span) {
        let numbers = &mut self.used.numbers;
        // 0 stands for none.
        let first = numbers.get(Field::First).min(span.began_ns.max(1));
        let last = numbers.get(Field::Last).max(span.ended_ns.max(1));
        numbers.set(Field::First, first);
        numbers.set(Field::Last, last);
        self.used.slowest =
            self.used.slowest.max((span.time_ns(), span.number, span.ended_ns.max(1)));
    }

    /// Bytes were moved.
    pub fn moved(&mut self, moved: &Moved) {
        let (kind, which) = (moved.transfer as usize, moved.direction & 1);
        let numbers = &mut self.used.numbers;
        numbers.bytes[kind][which] += moved.bytes;
        numbers.calls[kind][which] += moved.calls;
        if which == 1 {
            self.unsynced += moved.bytes;
        }
        if let Some(from) = moved.from {
            self.used.places.add(which, from, moved.bytes);
        }
        if moved.transfer == Transfer::Mapped {
            return;
        }
        numbers.sizes[which][bucket(moved.bytes)] += moved.calls;
        if let Some(from) = moved.from {
            let direction = &mut self.used.directions[which];
            self.cursors[which].place(numbers, direction, which, from, moved.bytes);
        }
        if let Some(length) = moved.direct {
            self.count(Field::Direct);
            if moved.from.is_some_and(|from| !(from | length).is_multiple_of(DIRECT_BLOCK)) {
                self.count(Field::Unaligned);
            }
        }
    }

    /// Something else was done, or a call of this kind has failed. What a read or write moved is for
    /// [`Counting::moved`]; here is its time.
    pub fn did(&mut self, deed: Deed, time_ns: u64) {
        let (field, time) = match deed {
            Deed::Read(_) => return self.add(Field::ReadTime, time_ns),
            Deed::Write(_) => return self.add(Field::WriteTime, time_ns),
            Deed::Sync => {
                self.synced();
                return self.add(Field::SyncTime, time_ns);
            }
            Deed::Close => return self.count(Field::Closes),
            Deed::Fill | Deed::Path => return,
            Deed::Open => (Field::Opens, Field::MetadataTime),
            Deed::Seek => (Field::Seeks, Field::MetadataTime),
            Deed::Truncate => (Field::Truncates, Field::MetadataTime),
            Deed::Map => (Field::Maps, Field::MetadataTime),
            Deed::Metadata => (Field::Metadata, Field::MetadataTime),
        };
        self.count(field);
        self.add(time, time_ns);
    }

    /// What was written is on its way to the device.
    pub fn synced(&mut self) {
        self.count(Field::Syncs);
        if (1..SMALL_SYNC).contains(&self.unsynced) {
            self.count(Field::SmallSyncs);
        }
        self.unsynced = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Numbers, SIZES, bucket_start};

    fn written(bytes: u64) -> Moved {
        let transfer = Transfer::Positioned;
        Moved { transfer, direction: 1, calls: 1, bytes, from: Some(0), direct: Some(bytes) }
    }

    #[test]
    fn sizes_are_in_the_buckets_of_the_schema() {
        for bytes in [0, 1, 2, 3, 4, 1023, 1024, 1 << 40] {
            let found = bucket(bytes);
            assert!(bucket_start(found) <= bytes, "{bytes}");
            assert!(found == SIZES - 1 || bytes < bucket_start(found + 1), "{bytes}");
        }
    }

    #[test]
    fn a_small_sync_is_one_after_little() {
        let mut kept = Counting::default();
        kept.did(Deed::Sync, 5);
        kept.moved(&written(4096));
        kept.did(Deed::Sync, 5);
        kept.moved(&written(SMALL_SYNC));
        kept.did(Deed::Sync, 5);
        let of = |field| kept.used.numbers.get(field);
        assert_eq!((of(Field::Syncs), of(Field::SmallSyncs), of(Field::SyncTime)), (3, 1, 15));
        assert_eq!((of(Field::Direct), of(Field::Unaligned)), (2, 0));
        kept.moved(&written(4095));
        assert_eq!(kept.used.numbers.get(Field::Unaligned), 1);
    }

    #[test]
    fn what_moves_in_memory_has_a_place_and_no_order() {
        let mut kept = Counting::default();
        kept.moved(&Moved { transfer: Transfer::Mapped, direct: None, ..written(4096) });
        let mut expected = Numbers::default();
        expected.bytes[Transfer::Mapped as usize][1] = 4096;
        expected.calls[Transfer::Mapped as usize][1] = 1;
        assert_eq!(kept.used.numbers, expected);
        assert_eq!(kept.used.places.used().collect::<Vec<_>>(), [(0, 4096, 0, 4096)]);
    }

    #[test]
    fn the_slowest_call_and_the_times_between_which_it_was_used_are_kept() {
        let mut kept = Counting::default();
        for (began_ns, ended_ns, number) in [(10, 20, 1), (30, 60, 2), (70, 75, 3)] {
            kept.timed(&Span { began_ns, ended_ns, number });
        }
        let of = |field| kept.used.numbers.known(field);
        assert_eq!((of(Field::First), of(Field::Last)), (Some(10), Some(75)));
        assert_eq!(kept.used.slowest, (30, 2, 60));
    }
}
