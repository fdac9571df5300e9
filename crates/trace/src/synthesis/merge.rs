//! Records of several CPUs in the order of their times.
//!
//! Takes records as they come, and is told up to when all have come; hands them on, the oldest first. What
//! comes when younger ones have been handed on already is handed on at once, and counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::record::Record;

/// So much waits at most: then the older half is handed on, come what may.
const MOST_BYTES: usize = 64 << 20;
/// A record's time is read before its place is taken: others may come between.
pub const SLACK_NS: u64 = 5_000_000;

/// No machine has more.
const MOST_CPUS: u32 = 1 << 16;

/// A record that waits.
#[derive(Clone, Copy)]
struct PendingRecord {
    time_ns: u64,
    from: usize,
    to: usize,
}

/// Those of a CPU. It writes them in the order of their times, but for what an interrupt does between.
#[derive(Default)]
struct Lane {
    bytes: Vec<u8>,
    held: Vec<PendingRecord>,
    /// So many of these have been handed on.
    gone: usize,
    is_in_order: bool,
    /// The time of the last one, since it was last asked.
    newest: Option<u64>,
}

/// Records that wait for their turn.
#[derive(Default)]
pub struct Merge {
    lanes: Vec<Lane>,
    waiting: usize,
    waiting_bytes: usize,
    /// The lanes that have any, by the time of their next one.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    handed_on_ns: u64,
    late: u64,
}

impl Merge {
    /// One that has come.
    pub fn push(&mut self, record: Record<'_>) {
        let time_ns = record.time_ns();
        let cpu = record.cpu().min(MOST_CPUS) as usize;
        if cpu >= self.lanes.len() {
            self.lanes.resize_with(cpu + 1, Lane::default);
        }
        self.lanes[cpu].push(record.bytes(), time_ns);
        self.waiting += 1;
        self.waiting_bytes += record.bytes().len();
        self.late += u64::from(time_ns < self.handed_on_ns);
    }

    /// Hands on what has its turn. `all_ns`: all that happened until then has come; none: there is more
    /// than was taken, of some CPUs, and each has come to its last one. Returns up to when all was handed on.
    pub fn hand_on(&mut self, all_ns: Option<u64>, mut visit: impl FnMut(Record<'_>)) -> u64 {
        let newest = self.lanes.iter_mut().filter_map(|lane| lane.newest.take()).min();
        let until = match all_ns {
            Some(u64::MAX) => u64::MAX,
            Some(all) => all.saturating_sub(SLACK_NS),
            None => newest.unwrap_or_default().saturating_sub(SLACK_NS),
        };
        let mut at_least = if self.waiting_bytes > MOST_BYTES { self.waiting / 2 } else { 0 };
        self.next.clear();
        for (cpu, lane) in self.lanes.iter_mut().enumerate() {
            lane.put_in_order();
            self.next.extend(lane.next_ns().map(|time_ns| Reverse((time_ns, cpu))));
        }
        while let Some(Reverse((time_ns, cpu))) = self.next.pop()
            && (time_ns <= until || at_least > 0)
        {
            // Up to the next one of another CPU they are all of this one.
            let other = self.next.peek().map_or((u64::MAX, usize::MAX), |Reverse(other)| *other);
            let lane = &mut self.lanes[cpu];
            while let Some(held) = lane.held.get(lane.gone).copied()
                && (held.time_ns, cpu) <= other
                && (held.time_ns <= until || at_least > 0)
            {
                if let Some(record) = lane.bytes.get(held.from..held.to).and_then(Record::new) {
                    visit(record);
                }
                self.handed_on_ns = held.time_ns.max(self.handed_on_ns);
                self.waiting -= 1;
                self.waiting_bytes -= held.to - held.from;
                at_least = at_least.saturating_sub(1);
                lane.gone += 1;
            }
            self.next.extend(lane.next_ns().map(|time_ns| Reverse((time_ns, cpu))));
        }
        self.lanes.iter_mut().for_each(Lane::forget);
        if until != u64::MAX {
            self.handed_on_ns = until.max(self.handed_on_ns);
        }
        self.handed_on_ns
    }

    /// How many came too late.
    pub fn late(&self) -> u64 {
        self.late
    }
}

impl Lane {
    fn push(&mut self, record: &[u8], time_ns: u64) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(record);
        let is_younger = self.held.last().is_none_or(|last| last.time_ns <= time_ns);
        self.is_in_order = is_younger && (self.is_in_order || self.held.is_empty());
        self.held.push(PendingRecord { time_ns, from, to: self.bytes.len() });
        self.newest = self.newest.max(Some(time_ns));
    }

    /// In the order of coming where times are the same.
    fn put_in_order(&mut self) {
        if !self.is_in_order {
            self.held[self.gone..].sort_by_key(|held| held.time_ns);
            self.is_in_order = true;
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.held.get(self.gone).map(|held| held.time_ns)
    }

    /// Those that were handed on have no room any more, once they are more than the others.
    fn forget(&mut self) {
        if self.gone == self.held.len() {
            self.held.clear();
            self.bytes.clear();
            self.gone = 0;
        } else if self.gone > self.held.len() / 2 {
            self.held.drain(..self.gone);
            let first = self.held.iter().map(|held| held.from).min().unwrap_or_default();
            self.bytes.drain(..first);
            for held in &mut self.held {
                held.from -= first;
                held.to -= first;
            }
            self.gone = 0;
        }
    }
}
