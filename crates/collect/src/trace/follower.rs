//! A reader that is not the rings' owner: nothing waits for it, and it may be overtaken.

use std::io;
use std::os::fd::BorrowedFd;

use weigh_schema::ring::Layout;

use super::ring::{RingItem, Rings};

/// So much is shown of a ring at once.
const AT_ONCE: u64 = 256 * 1024;

/// One who reads along.
pub struct Follower {
    rings: Rings,
    at: Vec<u64>,
    overtaken: Vec<bool>,
    /// A record is looked at in here: in the ring it may be written over meanwhile.
    record: Vec<u8>,
}

impl Follower {
    /// Maps rings, to read from these positions on; refuses what is none, and other numbers of them.
    pub fn new(rings: BorrowedFd<'_>, at: Vec<u64>) -> io::Result<Follower> {
        let rings = Rings::map(rings)?;
        if at.len() != rings.layout().rings {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let overtaken = vec![false; at.len()];
        Ok(Follower { rings, at, overtaken, record: Vec::new() })
    }

    /// How the rings lie.
    pub fn layout(&self) -> Layout {
        self.rings.layout()
    }

    /// Its position in each.
    pub fn positions(&self) -> &[u64] {
        &self.at
    }

    /// Bytes that were reserved and have not been shown.
    pub fn waiting(&self) -> u64 {
        let each = self.at.iter().enumerate();
        each.map(|(ring, at)| self.rings.head(ring).wrapping_sub(*at)).sum()
    }

    /// Whether it was overtaken in any ring: it stays where it is until [`Follower::resume`].
    pub fn is_overtaken(&self) -> bool {
        self.overtaken.contains(&true)
    }

    /// Shows the records that are there, ring by ring, each whole; returns how many, and whether that was all.
    pub fn drain(&mut self, mut visit: impl FnMut(&[u8])) -> (u64, bool) {
        let (mut records, mut is_all) = (0, true);
        for ring in 0..self.at.len() {
            let limit = self.at[ring].wrapping_add(AT_ONCE);
            while self.at[ring] < limit && !self.overtaken[ring] {
                let Some(next) = self.take(ring, self.at[ring]) else { break };
                visit(&self.record);
                self.at[ring] = next;
                records += 1;
            }
            is_all &= self.at[ring] < limit;
        }
        (records, is_all)
    }

    /// A copy of the record at a position, if there is one, and where the next begins.
    fn take(&mut self, ring: usize, at: u64) -> Option<u64> {
        let next = match self.rings.record(ring, at, self.rings.head(ring)) {
            RingItem::Record(record, next) => {
                self.record.clear();
                self.record.extend_from_slice(record);
                next
            }
            RingItem::Pending => return None,
            RingItem::Overtaken(_) | RingItem::Broken => {
                self.overtaken[ring] = true;
                return None;
            }
        };
        self.overtaken[ring] = self.rings.has_overtaken(ring, at);
        (!self.overtaken[ring]).then_some(next)
    }

    /// Shows what lies between its position and those of others, with whether it is still ahead; in rings where
    /// it was overtaken nothing. False if it cannot all be read (any more).
    pub fn between(&mut self, others: &[u64], mut visit: impl FnMut(&[u8], bool)) -> bool {
        for (ring, other) in others.iter().take(self.at.len()).enumerate() {
            let at = self.at[ring];
            self.overtaken[ring] |= self.rings.has_overtaken(ring, at);
            if self.overtaken[ring] && *other < at {
                // It has met what cannot be read, and they have not yet.
                return false;
            }
            if self.overtaken[ring] {
                continue;
            }
            let (mut from, to) = (at.min(*other), at.max(*other));
            while from < to {
                let Some(next) = self.take(ring, from) else {
                    // The reader itself was not overtaken, or the next look will find it.
                    self.overtaken[ring] = false;
                    return false;
                };
                visit(&self.record, at < *other);
                from = next;
            }
        }
        true
    }

    /// Where it was overtaken it goes on at these positions.
    pub fn resume(&mut self, others: &[u64]) {
        for (ring, other) in others.iter().take(self.at.len()).enumerate() {
            if std::mem::take(&mut self.overtaken[ring]) {
                self.at[ring] = *other;
            }
        }
    }

    /// The same where no position is given: at the end of what was written. Whether it was overtaken.
    pub fn give_up(&mut self) -> bool {
        let was = self.is_overtaken();
        let heads: Vec<u64> = (0..self.at.len()).map(|ring| self.rings.head(ring)).collect();
        self.resume(&heads);
        was
    }
}
