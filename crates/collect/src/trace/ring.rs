//! Rings as `weigh_schema::ring` lays them out, read where they lie: no record is copied.
//!
//! Made from a descriptor of the array alone, by any process that was given one: it needs no privileges.
//! What the array says of itself is checked, and nothing is read beyond what the kernel has mapped.

use std::cell::OnceCell;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use weigh_schema::ring::{ALIGNMENT, LINE, Layout, MAGIC, MOST_RECORD, STAMP, stamp, step, word};

use super::memory::{Access, Memory};

/// Where a record says how long it is, behind its beginning; no record is shorter than that.
const SIZE: usize = 4;

/// Bytes behind a record that are fetched while it is looked at: another processor wrote them.
const AHEAD: usize = 1024;

/// What is at a position.
#[derive(Debug, PartialEq, Eq)]
pub enum RingItem<'r> {
    /// A record, and where the next one begins. A reader that is not the rings' owner asks
    /// [`Rings::has_overtaken`] when it has read it.
    Record(&'r [u8], u64),
    /// Nothing yet, or one that is still being written.
    Pending,
    /// The ring has gone on beyond it: it begins again, at the latest at this position.
    Overtaken(u64),
    /// What cannot be.
    Broken,
}

/// Rings to read.
pub struct Rings {
    array: OwnedFd,
    layout: Layout,
    key: u64,
    /// The first line of each.
    lines: Vec<Piece>,
    /// All of each, mapped when the first record is looked for: to map a large ring takes as long as to read it. None
    /// where that failed.
    pub(super) pieces: Vec<OnceCell<Option<Piece>>>,
}

impl Rings {
    /// Maps what they say of themselves; refuses what is no array of rings.
    pub fn map(array: BorrowedFd<'_>) -> io::Result<Rings> {
        let first = Memory::map(array, LINE, 0, Access::Read)?;
        let layout = Layout::new(first.get(word::RINGS), first.get(word::BYTES));
        match layout {
            Some(layout) if first.get(word::MAGIC) == MAGIC => {
                let line = |ring| Piece::map(array, layout.word(ring, 0), LINE);
                let lines = (0..layout.rings).map(line).collect::<io::Result<_>>()?;
                let pieces = (0..layout.rings).map(|_| OnceCell::new()).collect();
                let array = array.try_clone_to_owned()?;
                Ok(Rings { array, layout, key: first.get(word::KEY), lines, pieces })
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no array of rings")),
        }
    }

    /// How they lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// How many bytes were ever reserved in a ring: where the next record will begin.
    pub fn head(&self, ring: usize) -> u64 {
        let line = self.lines.get(ring);
        let head = line.and_then(|line| line.word(self.layout.word(ring, word::HEAD)));
        head.map_or(0, |head| head.load(Ordering::Acquire))
    }

    fn piece(&self, ring: usize) -> Option<&Piece> {
        let (at, bytes) = (self.layout.word(ring, 0), self.layout.element());
        let map = || Piece::map(self.array.as_fd(), at, bytes).ok();
        self.pieces.get(ring)?.get_or_init(map).as_ref()
    }

    /// What is at a position of a ring, of which this was its head not long ago.
    pub fn record(&self, ring: usize, at: u64, head: u64) -> RingItem<'_> {
        let there = head.wrapping_sub(at);
        if there == 0 {
            return RingItem::Pending;
        }
        // A head that is behind the position is no head.
        if !at.is_multiple_of(ALIGNMENT as u64) || there > u64::MAX / 2 {
            return RingItem::Broken;
        }
        if there > self.layout.bytes as u64 {
            return RingItem::Overtaken(head);
        }
        let Some(piece) = self.piece(ring) else { return RingItem::Broken };
        let place = self.layout.stamp(ring, at) - piece.first;
        piece.memory.prefetch(place + AHEAD);
        let expected = stamp(at, self.key);
        let word = piece.memory.word(place);
        if word.is_none_or(|word| word.load(Ordering::Acquire) != expected) {
            return RingItem::Pending;
        }
        let record = place + STAMP;
        let size = piece.memory.bytes(record + SIZE, 4).and_then(|size| size.try_into().ok());
        let size = size.map_or(0, u32::from_le_bytes) as usize;
        if !(SIZE + 4..=MOST_RECORD).contains(&size) {
            return RingItem::Broken;
        }
        match piece.memory.bytes(record, size) {
            Some(record) => RingItem::Record(record, at.wrapping_add(step(size) as u64)),
            None => RingItem::Broken,
        }
    }

    /// Whether a record that began there may have been written over until now.
    pub fn has_overtaken(&self, ring: usize, at: u64) -> bool {
        std::sync::atomic::fence(Ordering::Acquire);
        self.head(ring).wrapping_sub(at) > self.layout.kept() as u64
    }
}

/// A part of the array, from this byte of it on.
pub(super) struct Piece {
    memory: Memory,
    first: usize,
}

impl Piece {
    fn map(array: BorrowedFd<'_>, at: usize, bytes: usize) -> io::Result<Piece> {
        let page = rustix::param::page_size();
        let first = at / page * page;
        let memory = Memory::map(array, at - first + bytes, first as u64, Access::Read)?;
        Ok(Piece { memory, first })
    }

    /// The word at this byte of the array.
    fn word(&self, at: usize) -> Option<&AtomicU64> {
        self.memory.word(at.checked_sub(self.first)?)
    }
}
