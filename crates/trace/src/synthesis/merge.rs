//! Records of several CPUs in the order of their times.
//!
//! Takes records as they come, and is told up to when all have come; hands them on, the oldest first. What
//! comes when younger ones have been handed on already is handed on at once, and counted.

use crate::record::Record;

/// So much waits at most: then the older half is handed on, come what may.
const MOST_BYTES: usize = 64 << 20;
/// A record's time is read before its place is taken: others may come between.
pub const SLACK_NS: u64 = 5_000_000;

/// No machine has more.
const MOST_CPUS: u32 = 1 << 16;

/// A record that waits.
#[derive(Clone, Copy)]
struct Held {
    time_ns: u64,
    from: usize,
    to: usize,
}

/// Records that wait for their turn.
#[derive(Default)]
pub struct Merge {
    bytes: Vec<u8>,
    held: Vec<Held>,
    /// The time of the last one of each CPU, since it was last asked.
    newest: Vec<Option<u64>>,
    handed_on_ns: u64,
    late: u64,
}

impl Merge {
    /// One that has come.
    pub fn push(&mut self, record: Record<'_>) {
        let (from, time_ns) = (self.bytes.len(), record.time_ns());
        self.bytes.extend(record.bytes());
        self.held.push(Held { time_ns, from, to: self.bytes.len() });
        let cpu = record.cpu().min(MOST_CPUS) as usize;
        if cpu >= self.newest.len() {
            self.newest.resize(cpu + 1, None);
        }
        self.newest[cpu] = self.newest[cpu].max(Some(time_ns));
        self.late += u64::from(time_ns < self.handed_on_ns);
    }

    /// Hands on what has its turn. `all_ns`: all that happened until then has come; none: there is more
    /// than was taken, of some CPUs, and each has come to its last one. Returns up to when all was handed on.
    pub fn hand_on(&mut self, all_ns: Option<u64>, mut visit: impl FnMut(Record<'_>)) -> u64 {
        let newest = self.newest.iter_mut().filter_map(Option::take).min();
        let until = match all_ns {
            Some(u64::MAX) => u64::MAX,
            Some(all) => all.saturating_sub(SLACK_NS),
            None => newest.unwrap_or_default().saturating_sub(SLACK_NS),
        };
        // In the order of coming where times are the same.
        self.held.sort_by_key(|held| held.time_ns);
        let mut ready = self.held.partition_point(|held| held.time_ns <= until);
        if self.bytes.len() > MOST_BYTES {
            ready = ready.max(self.held.len() / 2);
        }
        for held in &self.held[..ready] {
            if let Some(record) = self.bytes.get(held.from..held.to).and_then(Record::new) {
                visit(record);
            }
            self.handed_on_ns = held.time_ns.max(self.handed_on_ns);
        }
        self.keep(ready);
        if until != u64::MAX {
            self.handed_on_ns = until.max(self.handed_on_ns);
        }
        self.handed_on_ns
    }

    /// The first ones are gone.
    fn keep(&mut self, ready: usize) {
        let mut bytes = Vec::new();
        self.held.drain(..ready);
        for held in &mut self.held {
            let from = bytes.len();
            bytes.extend(&self.bytes[held.from..held.to]);
            (held.from, held.to) = (from, bytes.len());
        }
        if self.held.is_empty() {
            // Its room is used again.
            self.bytes.clear();
        } else {
            self.bytes = bytes;
        }
    }

    /// How many came too late.
    pub fn late(&self) -> u64 {
        self.late
    }
}
