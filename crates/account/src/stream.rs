//! The buffer of a stream: records with sequence numbers, a policy, and readers, each at its own position.
//!
//! Takes records with their sizes and times; gives each reader what it has not had, and the number of those that it
//! finds no more. A number is never given twice, so each record is had, lost and counted, or still to come.

use std::collections::{BTreeMap, VecDeque};

use weigh_schema::stream::StreamPolicy;

/// A record that is there.
#[derive(Clone, Debug)]
struct BufferedRecord<R> {
    sequence: u64,
    bytes: usize,
    record: R,
}

/// A client that has read at least once.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// The number that it has not had yet.
    next: u64,
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBatch<R> {
    /// Records, each with its number.
    pub records: Vec<(u64, R)>,
    /// Those that were to come before `next`, and are not there any more.
    pub lost: u64,
    /// What it is to ask for the next time.
    pub next: u64,
}

/// Records of one stream.
#[derive(Clone, Debug)]
pub struct StreamBuffer<R> {
    policy: StreamPolicy,
    most_bytes: usize,
    records: VecDeque<BufferedRecord<R>>,
    bytes: usize,
    next: u64,
    readers: BTreeMap<u64, Reader>,
    lost: u64,
    pace: Pace,
}

impl<R: Clone> StreamBuffer<R> {
    /// An empty one; its records have so many bytes together at most.
    pub fn new(policy: StreamPolicy, most_bytes: usize) -> StreamBuffer<R> {
        StreamBuffer {
            policy,
            most_bytes,
            records: VecDeque::new(),
            bytes: 0,
            next: 1,
            readers: BTreeMap::new(),
            lost: 0,
            pace: Pace::default(),
        }
    }

    /// The number that the next record will have.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Takes over what an earlier run of the same stream had counted; records that it had follow by
    /// [`StreamBuffer::restore`], before any other.
    pub fn resume(&mut self, next: u64, lost: u64) {
        (self.next, self.lost) = (next.max(1), lost);
    }

    /// Adds a record of an earlier run, in the order of their numbers. One that does not belong there is left out.
    pub fn restore(&mut self, sequence: u64, record: R, bytes: usize) {
        let is_next = self.records.back().is_none_or(|last| last.sequence < sequence);
        if is_next && (1..self.next).contains(&sequence) && bytes <= self.most_bytes {
            self.records.push_back(BufferedRecord { sequence, bytes, record });
            self.bytes += bytes;
            self.hold_to_bounds();
        }
    }

    /// Adds a record. One that is larger than the buffer is lost to all.
    pub fn write(&mut self, record: R, bytes: usize, at_ns: u64) -> u64 {
        let sequence = self.skip();
        self.pace.take(bytes, at_ns);
        if self.policy.capacity() == 1 {
            self.drop_front(self.records.len());
        }
        if bytes <= self.most_bytes {
            self.records.push_back(BufferedRecord { sequence, bytes, record });
            self.bytes += bytes;
            self.hold_to_bounds();
        }
        sequence
    }

    /// A record that nobody would find any more is not made: its number is used up.
    pub fn skip(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Gives a reader what is there from a number on, 0 or beyond the last: from the oldest on. So many bytes at most, and
    /// one record in any case; or the newest alone.
    pub fn read(
        &mut self,
        reader: u64,
        from: u64,
        at_most_bytes: usize,
        newest: bool,
    ) -> StreamBatch<R> {
        let oldest = self.records.front().map_or(self.next, |record| record.sequence);
        let from = if from == 0 || from > self.next { oldest } else { from };
        let begin = self.records.partition_point(|record| record.sequence < from);
        let count = self.count_within(begin, at_most_bytes, newest);
        let taken = self.records.range(begin..begin + count);
        let next = match begin + count == self.records.len() {
            true => self.next,
            false => self.records[begin + count].sequence,
        };
        let lost = (next - from) - count as u64;
        let skipped = if newest { count.saturating_sub(1) } else { 0 };
        let taken = taken.skip(skipped);
        let records = taken.map(|taken| (taken.sequence, taken.record.clone())).collect();
        self.lost += lost;
        self.readers.insert(reader, Reader { next });
        self.drain();
        StreamBatch { records, lost, next }
    }

    /// Records from a place on that one read takes.
    fn count_within(&self, begin: usize, at_most_bytes: usize, newest: bool) -> usize {
        if newest {
            return self.records.len() - begin;
        }
        let mut bytes = 0usize;
        let fits = |record: &&BufferedRecord<R>| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(record.bytes.max(1));
            is_first || bytes <= at_most_bytes
        };
        self.records.range(begin..).take_while(fits).count()
    }

    /// Whether a record is there that a reader at this number has not had.
    pub fn has_news(&self, from: u64) -> bool {
        let is_anew = from == 0 || from > self.next;
        self.records.back().is_some_and(|newest| is_anew || newest.sequence >= from)
    }

    /// A reader has gone: nothing is kept for it.
    pub fn forget_reader(&mut self, reader: u64) {
        if self.readers.remove(&reader).is_some() && !self.readers.is_empty() {
            self.drain();
        }
    }

    /// The policy from now on; what it has no room for goes.
    pub fn set_policy(&mut self, policy: StreamPolicy) {
        self.policy = policy;
        self.hold_to_bounds();
        self.drain();
    }

    /// The policy.
    pub fn policy(&self) -> StreamPolicy {
        self.policy
    }

    fn hold_to_bounds(&mut self) {
        while self.records.len() > self.policy.capacity() || self.bytes > self.most_bytes {
            self.drop_front(1);
        }
    }

    /// Lets go of what every reader has had.
    fn drain(&mut self) {
        let slowest = self.readers.values().map(|reader| reader.next).min();
        if let Some(slowest) = slowest.filter(|_| self.policy.drains()) {
            self.drop_front(self.records.partition_point(|record| record.sequence < slowest));
        }
    }

    fn drop_front(&mut self, count: usize) {
        self.bytes -= self.records.drain(..count).map(|record| record.bytes).sum::<usize>();
    }

    /// Records that readers did not find, or will not: summed over readers.
    pub fn lost(&self) -> u64 {
        let will_not = self.readers.values().map(|reader| {
            let begin = self.records.partition_point(|record| record.sequence < reader.next);
            (self.next - reader.next) - (self.records.len() - begin) as u64
        });
        self.lost + will_not.sum::<u64>()
    }

    /// Clients that have read, and have not gone.
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Whether this client is one of them.
    pub fn has_reader(&self, reader: u64) -> bool {
        self.readers.contains_key(&reader)
    }

    /// Records that are there.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none is there.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of the records that are there.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that they may have.
    pub fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// The records that are there, each with its number: for a checkpoint.
    pub fn records(&self) -> impl Iterator<Item = (u64, &R)> {
        self.records.iter().map(|record| (record.sequence, &record.record))
    }

    /// Bytes that are written in a second, at the latest rate.
    pub fn bytes_per_second(&self, now_ns: u64) -> Option<f64> {
        Some(self.pace.bytes / self.pace.seconds(now_ns)?)
    }

    /// For how long a reader can stop and lose nothing, at the latest rate.
    pub fn outage_seconds(&self, now_ns: u64) -> Option<f64> {
        let by_bytes = self.most_bytes as f64 / self.pace.bytes.max(1.0);
        let records = by_bytes.floor().min(self.policy.capacity() as f64);
        Some(records * self.pace.seconds(now_ns)?)
    }
}

/// How records come: their size and the time between two, of the latest mostly.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    last_ns: Option<u64>,
    /// Of one record.
    bytes: f64,
    interval_ns: Option<f64>,
}

/// The part that the latest has in an average.
const PART: f64 = 0.2;

impl Pace {
    fn take(&mut self, bytes: usize, at_ns: u64) {
        match self.last_ns.replace(at_ns) {
            None => self.bytes = bytes as f64,
            Some(last) => {
                let interval = at_ns.saturating_sub(last) as f64;
                self.bytes += (bytes as f64 - self.bytes) * PART;
                let mean = self.interval_ns.get_or_insert(interval);
                *mean += (interval - *mean) * PART;
            }
        }
    }

    /// Between two records; it grows while none comes.
    fn seconds(&self, now_ns: u64) -> Option<f64> {
        let since = now_ns.saturating_sub(self.last_ns?) as f64;
        Some(self.interval_ns?.max(since).max(1.0) / 1e9)
    }
}

#[cfg(test)]
mod tests;
