//! Memory that a program of the kernel's could have written, and such as none would have.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, memfd_create};
use weigh_schema::ring::{LINE, MAGIC, MOST_RECORD, stamp, step, word};

use super::*;

/// A key as any other.
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

/// The three arrays, as files.
struct Made {
    key: u64,
    layout: Layout,
    files: [File; 3],
    /// Where the next record of each ring goes.
    heads: Vec<u64>,
}

impl Made {
    fn new(rings: usize) -> Made {
        Made::with_key(rings, KEY)
    }

    fn with_key(rings: usize, key: u64) -> Made {
        let layout = Layout { rings, bytes: 4096 };
        let page = rustix::param::page_size();
        let files = [layout.all(), layout.consumers(), 2 * page].map(|bytes| {
            let file = File::from(memfd_create("ring", MemfdFlags::CLOEXEC).unwrap());
            file.set_len(bytes.next_multiple_of(page) as u64).unwrap();
            file
        });
        let made = Made { key, layout, files, heads: vec![0; rings] };
        for ring in 0..rings {
            made.put(ring, word::MAGIC, MAGIC);
            made.put(ring, word::RINGS, rings as u64);
            made.put(ring, word::BYTES, 4096);
            made.put(ring, word::KEY, key);
        }
        made
    }

    fn put(&self, ring: usize, word: usize, value: u64) {
        let place = self.layout.word(ring, word) as u64;
        self.files[0].write_all_at(&value.to_le_bytes(), place).unwrap();
    }

    fn reader(&self) -> std::io::Result<Reader> {
        let [rings, consumers, doorbell] =
            [0, 1, 2].map(|file: usize| OwnedFd::from(self.files[file].try_clone().unwrap()));
        Reader::of(ReaderFds { rings, consumers, doorbell })
    }

    /// A record of so many bytes, which says that it has so many.
    fn write(&mut self, ring: usize, bytes: usize, says: u32) {
        let at = self.heads[ring];
        let mut record = vec![at as u8; bytes];
        record[4..8].copy_from_slice(&says.to_le_bytes());
        let place = self.layout.stamp(ring, at) as u64;
        self.files[0].write_all_at(&record, place + 8).unwrap();
        self.files[0].write_all_at(&stamp(at, self.key).to_le_bytes(), place).unwrap();
        self.heads[ring] += step(bytes) as u64;
        self.put(ring, word::HEAD, self.heads[ring]);
    }

    /// What the record at a position says of its size.
    fn put_size(&self, ring: usize, at: u64, size: u32) {
        let place = self.layout.stamp(ring, at) as u64 + 12;
        self.files[0].write_all_at(&size.to_le_bytes(), place).unwrap();
    }

    fn read(&self, ring: usize) -> u64 {
        let mut word = [0; 8];
        self.files[1].read_exact_at(&mut word, self.layout.consumer(ring) as u64).unwrap();
        u64::from_le_bytes(word)
    }
}

fn lengths(reader: &mut Reader) -> Vec<usize> {
    let mut lengths = Vec::new();
    while !reader.drain(|record| lengths.push(record.len())).1 {}
    lengths
}

#[test]
fn records_come_in_their_order_and_over_the_end_of_the_ring() {
    let mut made = Made::new(2);
    let mut reader = made.reader().unwrap();
    let mut all = 0;
    for round in 0..100 {
        made.write(0, 1000 + round, 1000 + round as u32);
        made.write(1, 40, 40);
        made.write(0, 41, 41);
        assert_eq!(lengths(&mut reader), [1000 + round, 41, 40]);
        all += 3;
        assert_eq!([made.read(0), made.read(1)], [made.heads[0], made.heads[1]]);
    }
    assert_eq!((all, reader.broken(), reader.waiting()), (300, 0, 0));
    // Another owner goes on where this one was.
    made.write(1, 48, 48);
    assert_eq!(lengths(&mut made.reader().unwrap()), [48]);
}

#[test]
fn what_is_not_written_yet_is_waited_for() {
    let mut made = Made::new(1);
    let mut reader = made.reader().unwrap();
    made.put(0, word::HEAD, step(40) as u64);
    assert_eq!(lengths(&mut reader), [0usize; 0]);
    assert_eq!(reader.waiting(), step(40) as u64);
    made.write(0, 40, 40);
    assert_eq!(lengths(&mut reader), [40]);
}

#[test]
fn what_can_not_be_is_passed_over_and_counted() {
    for says in [0, 7, MOST_RECORD as u32 + 1, u32::MAX] {
        let mut made = Made::new(1);
        let mut reader = made.reader().unwrap();
        made.write(0, 40, says);
        assert_eq!((lengths(&mut reader).len(), reader.broken()), (0, 1), "{says}");
        made.write(0, 40, 40);
        assert_eq!(lengths(&mut reader), [40]);
    }
    for head in [1 << 40, u64::MAX, u64::MAX / 2 + 7] {
        let made = Made::new(1);
        let mut reader = made.reader().unwrap();
        made.put(0, word::HEAD, head);
        assert_eq!((lengths(&mut reader).len(), reader.broken() > 0), (0, true), "{head}");
    }
    for (word, value) in [(word::MAGIC, 1), (word::RINGS, 0), (word::BYTES, 5000)] {
        let made = Made::new(1);
        made.put(0, word, value);
        assert!(made.reader().is_err(), "{word}");
    }
    let no_map = || File::open("/dev/null").map(OwnedFd::from).unwrap();
    let fds = ReaderFds { rings: no_map(), consumers: no_map(), doorbell: no_map() };
    assert!(Reader::new(fds).is_err());
}

#[test]
fn a_follower_finds_that_he_was_overtaken() {
    let mut made = Made::new(1);
    let rings = Rings::map(made.files[0].as_fd()).unwrap();
    (0..70).for_each(|_| made.write(0, 40, 40));
    let first =
        |rings: &Rings| matches!(rings.record(0, 0, rings.head(0)), RingItem::Record(_, 48));
    assert!(first(&rings) && !rings.has_overtaken(0, 0));
    (0..20).for_each(|_| made.write(0, 40, 40));
    assert!(!first(&rings) && rings.has_overtaken(0, 0));
    assert_eq!(rings.record(0, 0, rings.head(0)), RingItem::Overtaken(90 * 48));
}

/// What a writer without the key would put where the stamps of the next round will be.
fn guess(layout: Layout, place: usize, at: u64) -> u64 {
    let offset = (place - LINE) as u64 % layout.bytes as u64;
    let round = at / layout.bytes as u64 + 1;
    stamp(round * layout.bytes as u64 + offset, 0)
}

#[test]
fn what_a_record_holds_is_no_stamp_of_the_next_one() {
    // With a key that all know it would be.
    for (key, found) in [(0, true), (KEY, false)] {
        let mut made = Made::with_key(1, key);
        let (layout, mut reader) = (made.layout, made.reader().unwrap());
        // One round, and its end lies where no record of the next one begins.
        for _ in 0..4 {
            let at = made.heads[0];
            made.write(0, 1000, 1000);
            for word in (layout.stamp(0, at) + 16..layout.stamp(0, at) + 1008).step_by(8) {
                let guessed = guess(layout, word, at).to_le_bytes();
                made.files[0].write_all_at(&guessed, word as u64).unwrap();
            }
        }
        assert_eq!(lengths(&mut reader), [1000; 4]);
        (0..2).for_each(|_| made.write(0, 40, 40));
        assert_eq!(lengths(&mut reader), [40, 40]);
        // Room for one more, of which nothing has been written yet.
        made.put(0, word::HEAD, made.heads[0] + step(40) as u64);
        lengths(&mut reader);
        assert_eq!(reader.positions()[0] != made.heads[0], found, "{key}");
    }
}

/// A record: its position twice, and between them guesses.
fn fill(memory: &Memory, layout: Layout, at: u64, bytes: usize) {
    let record = layout.stamp(0, at) + 8;
    let words = bytes / 8;
    for word in 2..words - 1 {
        memory.set(record + word * 8, guess(layout, record + word * 8, at));
    }
    memory.set(record, (bytes as u64) << 32);
    memory.set(record + 8, at);
    memory.set(record + (words - 1) * 8, !at);
}

/// Whether it is one, and whole.
fn is_whole(record: &[u8]) -> bool {
    let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
    record.len() >= 48 && word(8) == !word(record.len() - 8) && word(0) >> 32 == record.len() as u64
}

#[test]
fn no_record_is_read_half_written_while_they_are_written_as_fast_as_can_be() {
    let made = Made::new(1);
    let (layout, mut reader) = (made.layout, made.reader().unwrap());
    let mut follower = crate::trace::Follower::new(made.files[0].as_fd(), vec![0]).unwrap();
    let memory = Memory::map(made.files[0].as_fd(), layout.all(), 0, Access::Write).unwrap();
    let read = Memory::map(made.files[1].as_fd(), layout.consumers(), 0, Access::Read).unwrap();
    let is_over = &std::sync::atomic::AtomicBool::new(false);
    let seen = &std::sync::atomic::AtomicU64::new(0);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let (mut at, mut records) = (0u64, 0u64);
            while !is_over.load(Ordering::Relaxed) {
                let bytes = 48 + (records % 23 * 8) as usize;
                let next = at + step(bytes) as u64;
                // Half of them give room back.
                let taken = next + records % 2 * 128;
                if taken - read.get(0) > layout.bytes as u64 {
                    std::thread::yield_now();
                    continue;
                }
                let head = memory.word(layout.word(0, word::HEAD)).unwrap();
                head.store(taken, Ordering::SeqCst);
                fill(&memory, layout, at, bytes);
                head.store(next, Ordering::SeqCst);
                let place = memory.word(layout.stamp(0, at)).unwrap();
                place.store(stamp(at, KEY), Ordering::Release);
                (at, records) = (next, records + 1);
            }
            records
        });
        let along = scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let found = follower.drain(|record| assert!(is_whole(record), "{record:?}")).0;
                seen.fetch_add(found, Ordering::Relaxed);
                follower.give_up();
                std::thread::yield_now();
            }
        });
        // So many, or as many as a busy machine comes to.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let is_enough = |taken| taken >= 100_000 && seen.load(Ordering::Relaxed) > 0;
        let mut taken = 0;
        while !is_enough(taken) && std::time::Instant::now() < until {
            taken += reader.drain(|record| assert!(is_whole(record), "{record:?}")).0;
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        along.join().unwrap();
        let along = seen.load(Ordering::Relaxed);
        taken += reader.drain(|record| assert!(is_whole(record), "{record:?}")).0;
        assert_eq!((taken, reader.broken()), (written, 0));
        assert!(along > 0 && along <= written);
        written
    });
    assert!(written > 100, "{written}");
}

/// In these records the lowest byte of their position stands for their time.
fn time_of(record: &[u8]) -> u64 {
    record.get(8).copied().map_or(0, u64::from)
}

fn in_order(reader: &mut Reader, until_ns: u64) -> (Vec<usize>, bool) {
    let mut lengths = Vec::new();
    let (records, is_all) =
        reader.drain_in_order(until_ns, time_of, |run| lengths.extend(run.iter().map(|r| r.len())));
    assert_eq!(records, lengths.len() as u64);
    (lengths, is_all)
}

#[test]
fn records_of_all_rings_are_shown_by_their_times_and_younger_ones_wait() {
    let mut made = Made::new(3);
    for _ in 0..3 {
        // At 0, 48 and 96; at 0, 64 and 128.
        made.write(0, 40, 40);
        made.write(2, 56, 56);
    }
    let mut reader = made.reader().unwrap();
    assert_eq!(in_order(&mut reader, 64), (vec![40, 56, 40, 56], true));
    assert_eq!([0, 1, 2].map(|ring| made.read(ring)), [96, 0, 128]);
    assert_eq!(in_order(&mut reader, 64), (Vec::new(), true));
    assert_eq!(in_order(&mut reader, u64::MAX), (vec![40, 56], true));
    assert_eq!(in_order(&mut reader, u64::MAX), (Vec::new(), true));
}

#[test]
fn of_a_ring_that_is_more_than_half_full_nothing_waits() {
    let mut made = Made::new(2);
    (0..50).for_each(|_| made.write(1, 40, 40));
    let mut reader = made.reader().unwrap();
    // 2,400 of 4,096 bytes; the first happened at 0.
    assert!(in_order(&mut reader, 0).0.len() > 8);
    let mut made = Made::new(2);
    (0..40).for_each(|_| made.write(1, 40, 40));
    assert_eq!(in_order(&mut made.reader().unwrap(), 0), (vec![40], true));
}

#[test]
fn room_that_was_given_back_is_the_next_record_s() {
    let mut made = Made::new(1);
    made.write(0, 400, 400);
    // Of 400 bytes that it had reserved the first used 40.
    made.put_size(0, 0, 40);
    made.heads[0] = step(40) as u64;
    made.put(0, word::HEAD, made.heads[0]);
    let mut reader = made.reader().unwrap();
    assert_eq!(lengths(&mut reader), [40]);
    made.write(0, 56, 56);
    assert_eq!((lengths(&mut reader), reader.broken()), (vec![56], 0));
}

#[test]
fn a_mark_is_passed_when_all_before_it_was_shown_or_passed_over() {
    let mut made = Made::new(1);
    let mut reader = made.reader().unwrap();
    assert!(!reader.has_passed_mark(), "there is none yet");
    made.write(0, 40, 3);
    made.write(0, 40, 40);
    reader.mark();
    assert!(!reader.has_passed_mark());
    assert_eq!((lengths(&mut reader).len(), reader.broken()), (0, 1));
    assert!(reader.has_passed_mark());
    // One that is not whole yet is neither lost nor taken.
    made.put(0, word::HEAD, made.heads[0] + step(40) as u64);
    reader.mark();
    lengths(&mut reader);
    assert!(!reader.has_passed_mark());
    made.write(0, 40, 40);
    assert_eq!(lengths(&mut reader), [40]);
    assert!(reader.has_passed_mark());
}

#[test]
fn who_reads_along_goes_on_behind_damage_when_the_owner_has_passed_it() {
    let mut made = Made::new(1);
    let mut follower = crate::trace::Follower::new(made.files[0].as_fd(), vec![0]).unwrap();
    made.write(0, 40, 40);
    made.write(0, 40, 3);
    let mut seen = 0;
    follower.drain(|_| seen += 1);
    assert_eq!((seen, follower.is_overtaken()), (1, true));
    // An owner that is behind says nothing of it yet.
    assert!(!follower.between(&[0], |_, _| ()));
    assert!(follower.is_overtaken());
    let head = made.heads[0];
    assert!(follower.between(&[head], |_, _| ()));
    follower.resume(&[head]);
    made.write(0, 56, 56);
    follower.drain(|record| assert_eq!(record.len(), 56));
    assert_eq!((follower.is_overtaken(), follower.positions()[0]), (false, made.heads[0]));
}

#[test]
fn a_ring_is_mapped_when_there_is_something_in_it() {
    let mut made = Made::new(3);
    let mut reader = made.reader().unwrap();
    let mapped = |reader: &Reader| -> Vec<bool> {
        reader.rings.pieces.iter().map(|piece| piece.get().is_some()).collect()
    };
    assert!(lengths(&mut reader).is_empty());
    assert_eq!(mapped(&reader), [false; 3]);
    made.write(1, 40, 40);
    assert_eq!(lengths(&mut reader), [40]);
    assert_eq!(mapped(&reader), [false, true, false]);
}
