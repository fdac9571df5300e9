//! The side of a stream that reads. It is made from descriptors alone, by a process that needs no privileges: the
//! owner of the rings, which says how far it has read, so that what lies behind that may be written again.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use weigh_schema::ring::{Layout, SLOP};

use super::memory::{Access, Memory};
use super::ring::{RingItem, Rings};

/// So much is shown of a ring at once: the reader has other things to do as well.
const AT_ONCE: u64 = 256 * 1024;
/// The same of all rings together, where they are shown in the order of their times.
const IN_ORDER_AT_ONCE: u64 = 1024 * 1024;
/// So many records are shown in order together, and no more: short ones are still in a processor's first cache then.
const RUN: usize = 64;
/// After so many bytes it is said that their place is free.
const STRIDE: u64 = 64 * 1024;

/// The descriptors that rings are read by.
#[derive(Debug)]
pub struct ReaderFds {
    /// The array of rings.
    pub rings: OwnedFd,
    /// The array of how far each has been read.
    pub consumers: OwnedFd,
    /// What wakes who reads.
    pub doorbell: OwnedFd,
}

/// The owner of rings.
pub struct Reader {
    rings: Rings,
    consumers: Memory,
    doorbell: Doorbell,
    /// Its position in each.
    at: Vec<u64>,
    broken: u64,
    /// Where the heads were at [`Reader::mark`].
    marked: Vec<u64>,
}

impl Reader {
    /// Maps what the descriptors stand for. Goes on where the last owner was. Refuses what is no map of the
    /// kernel's: a file could be cut short while it is read.
    pub fn new(fds: ReaderFds) -> io::Result<Reader> {
        for fd in [&fds.rings, &fds.consumers, &fds.doorbell] {
            let is = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
            if is.as_bytes() != b"anon_inode:bpf-map" {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no map"));
            }
        }
        Reader::of(fds)
    }

    fn of(fds: ReaderFds) -> io::Result<Reader> {
        let rings = Rings::map(fds.rings.as_fd())?;
        let layout = rings.layout();
        let consumers = Memory::map(fds.consumers.as_fd(), layout.consumers(), 0, Access::Write)?;
        let doorbell = Doorbell::new(fds.doorbell)?;
        let at = (0..layout.rings).map(|ring| consumers.get(layout.consumer(ring))).collect();
        Ok(Reader { rings, consumers, doorbell, at, broken: 0, marked: Vec::new() })
    }

    /// How the rings lie.
    pub fn layout(&self) -> Layout {
        self.rings.layout()
    }

    /// Its position in each ring.
    pub fn positions(&self) -> &[u64] {
        &self.at
    }

    /// Ready when a watermark was crossed, until [`Reader::drain`].
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.doorbell.fd.as_fd()
    }

    /// Whether a watermark was crossed since [`Reader::drain`].
    pub fn is_rung(&self) -> bool {
        self.doorbell.is_rung()
    }

    /// How often what was read could not be: the rest of that ring was passed over then.
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// Remembers what was reserved until now: all of which the counts tell that were read before.
    pub fn mark(&mut self) {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.marked = self.heads();
    }

    /// Whether all of that has been shown, or passed over.
    pub fn has_passed_mark(&self) -> bool {
        let mut each = self.at.iter().zip(&self.marked);
        !self.marked.is_empty() && each.all(|(at, head)| at >= head)
    }

    fn heads(&self) -> Vec<u64> {
        (0..self.at.len()).map(|ring| self.rings.head(ring)).collect()
    }

    /// Bytes that were reserved and have not been shown yet, of all rings.
    pub fn waiting(&self) -> u64 {
        let each = self.at.iter().enumerate();
        each.map(|(ring, at)| self.rings.head(ring).wrapping_sub(*at)).sum()
    }

    /// Shows the records that are there, where they lie, ring by ring, but not too many at once; returns how many,
    /// and whether that was all. For what is left nobody is waked.
    pub fn drain(&mut self, mut visit: impl FnMut(&[u8])) -> (u64, bool) {
        // First: it rings again for what comes from now on.
        self.doorbell.has_been_heard();
        let drained = (0..self.at.len()).map(|ring| self.drain_one(ring, &mut visit));
        drained.fold((0, true), |(sum, all), (records, is_all)| (sum + records, all && is_all))
    }

    /// Shows the records of all rings in the order of their times, where they lie, as far as each ring keeps to it: some
    /// of one ring at a time, whose place is free when `visit` has returned. Those that are younger than `until_ns` stay
    /// for the next time, unless a ring is more than half full. As [`Reader::drain`] otherwise.
    pub fn drain_in_order(
        &mut self,
        until_ns: u64,
        time_of: impl Fn(&[u8]) -> u64,
        mut visit: impl FnMut(&[&[u8]]),
    ) -> (u64, bool) {
        self.doorbell.has_been_heard();
        let heads = self.heads();
        let half = self.rings.layout().bytes as u64 / 2;
        // A ring is looked at for the time of its first record: nothing is as old as that is to be.
        let mut next = Vec::with_capacity(heads.len());
        for (ring, head) in heads.iter().enumerate() {
            next.push(self.show_run(ring, *head, None, &time_of, &mut |_: &[&[u8]]| {}).0);
        }
        let (mut records, mut bytes) = (0, 0);
        while let Some((ring, other_ns)) = first_of(&next) {
            let is_full =
                heads.iter().zip(&self.at).any(|(head, at)| head.saturating_sub(*at) > half);
            if bytes >= IN_ORDER_AT_ONCE || next[ring] > until_ns && !is_full {
                return (records, bytes < IN_ORDER_AT_ONCE);
            }
            let last_ns = if is_full { other_ns } else { other_ns.min(until_ns) };
            let before = self.at[ring];
            let (next_ns, shown) =
                self.show_run(ring, heads[ring], Some(last_ns), &time_of, &mut visit);
            next[ring] = next_ns;
            records += shown;
            bytes += self.at[ring].wrapping_sub(before);
        }
        (records, true)
    }

    /// Shows a ring's records up to one that is younger, but not too many at once. Returns the time of the next, as late as
    /// can be if there is none, and how many were shown.
    fn show_run(
        &mut self,
        ring: usize,
        head: u64,
        last_ns: Option<u64>,
        time_of: &impl Fn(&[u8]) -> u64,
        visit: &mut impl FnMut(&[&[u8]]),
    ) -> (u64, u64) {
        let room = if last_ns.is_some() { RUN } else { 0 };
        let (mut at, mut run) = (self.at[ring], Vec::with_capacity(room));
        let first = at;
        let next_ns = loop {
            if is_beyond(at, head) {
                break u64::MAX;
            }
            match self.rings.record(ring, at, head) {
                RingItem::Record(record, next) => {
                    let time_ns = time_of(record).min(u64::MAX - 1);
                    let is_long = run.len() >= RUN || at.wrapping_sub(first) >= STRIDE;
                    if last_ns.is_none_or(|last| time_ns > last) || is_long {
                        break time_ns;
                    }
                    run.push(record);
                    at = next;
                }
                RingItem::Pending => break u64::MAX,
                // Nobody overtakes the owner who keeps to what is agreed on.
                RingItem::Overtaken(_) | RingItem::Broken => {
                    self.broken += 1;
                    at = self.rings.head(ring);
                    break u64::MAX;
                }
            }
        };
        let records = run.len() as u64;
        if records > 0 {
            visit(&run);
        }
        if at != first {
            self.tell(ring, at);
            self.at[ring] = at;
        }
        (next_ns, records)
    }

    fn drain_one(&mut self, ring: usize, visit: &mut impl FnMut(&[u8])) -> (u64, bool) {
        let layout = self.rings.layout();
        let (mut at, mut records) = (self.at[ring], 0);
        let (first, most) = (at, AT_ONCE.min(layout.bytes as u64));
        let mut told = at;
        let mut head = self.rings.head(ring);
        let is_all = loop {
            if at.wrapping_sub(first) >= most {
                break false;
            }
            if is_beyond(at, head) {
                head = self.rings.head(ring);
            }
            match self.rings.record(ring, at, head) {
                RingItem::Record(record, next) => {
                    visit(record);
                    records += 1;
                    at = next;
                }
                // Of a damaged ring no more is shown than there was at first: what is missing of that is counted.
                RingItem::Pending
                    if at == head && self.broken == 0 && self.rings.head(ring) != head =>
                {
                    head = self.rings.head(ring);
                }
                RingItem::Pending => break true,
                // Nobody overtakes the owner who keeps to what is agreed on.
                RingItem::Overtaken(_) | RingItem::Broken => {
                    self.broken += 1;
                    at = self.rings.head(ring);
                    break true;
                }
            }
            if at.wrapping_sub(told) >= STRIDE {
                self.tell(ring, at);
                told = at;
            }
        };
        self.tell(ring, at);
        self.at[ring] = at;
        (records, is_all)
    }

    fn tell(&self, ring: usize, at: u64) {
        if let Some(word) = self.consumers.word(self.rings.layout().consumer(ring)) {
            word.store(at, Ordering::Release);
        }
    }
}

/// Whether a record ends behind where the head was: the record before it still had room then that it has given back, and
/// of which this one has taken a part.
fn is_beyond(at: u64, head: u64) -> bool {
    (1..=SLOP as u64).contains(&at.wrapping_sub(head))
}

/// The ring with the oldest record, and up to when its records are older than those of all others; none if there is none.
fn first_of(next: &[u64]) -> Option<(usize, u64)> {
    let (ring, first) = next.iter().enumerate().min_by_key(|(_, time)| **time)?;
    let others = next.iter().enumerate().filter(|(other, _)| *other != ring);
    let other = others.map(|(_, time)| *time).min().unwrap_or(u64::MAX);
    (*first != u64::MAX).then_some((ring, other))
}

/// A ring of the kernel's that nothing is read from: what is put into it wakes.
struct Doorbell {
    fd: OwnedFd,
    /// A page that this side writes: up to where it was read.
    consumer: Memory,
    /// A page that the kernel writes: up to where it was written.
    producer: Memory,
}

impl Doorbell {
    fn new(fd: OwnedFd) -> io::Result<Doorbell> {
        let page = rustix::param::page_size();
        let consumer = Memory::map(fd.as_fd(), page, 0, Access::Write)?;
        let producer = Memory::map(fd.as_fd(), page, page as u64, Access::Read)?;
        Ok(Doorbell { fd, consumer, producer })
    }

    fn is_rung(&self) -> bool {
        let words = self.consumer.word(0).zip(self.producer.word(0));
        words.is_some_and(|(heard, rung)| {
            heard.load(Ordering::Relaxed) != rung.load(Ordering::Relaxed)
        })
    }

    fn has_been_heard(&self) {
        if let (Some(consumer), Some(producer)) = (self.consumer.word(0), self.producer.word(0)) {
            let rung = producer.load(Ordering::Acquire);
            if consumer.load(Ordering::Relaxed) != rung {
                // What is read from now on was written before it rings again.
                consumer.swap(rung, Ordering::SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests;
