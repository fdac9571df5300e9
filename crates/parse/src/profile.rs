//! A process's profile of its own regions, from the words that it shares (`schema::profile` says how they lie).
//!
//! Reads words one by one, for they may change at any moment; emits a [`ProfileSnapshot`]. Refuses a head whose numbers
//! cannot be; takes no index, length or count on trust after that, and waits for nobody: what is being written is looked
//! at a bounded number of times.

mod head;
mod nodes;
mod rings;
mod texts;

use std::sync::Arc;

use weigh_schema::profile::{head as at, metadata, name, node, thread};
use weigh_schema::region::snapshot::{ClockPair, ProfileLosses, ProfileSnapshot, ProfileThread};

pub use head::{MOST_BYTES, ProfileHead, ProfileRefusal, SectionSpan};

/// How often something is looked at that is being written.
const TRIES: usize = 64;

/// Words that another process may write to.
pub trait Words {
    /// How many there are.
    fn count(&self) -> usize;

    /// A word as it is now, read before all that is read later; 0 where there is none.
    fn load(&self, at: usize) -> u64;
}

impl Words for [u64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.get(at).copied().unwrap_or(0)
    }
}

impl Words for Vec<u64> {
    fn count(&self) -> usize {
        self.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.as_slice().load(at)
    }
}

/// Which state of a profile is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// As it stood when the epoch became this one. A barrier in all threads of the process has been since.
    Publish(u64),
    /// As it is: each node whole, but not all of one moment.
    Now,
    /// As it is, and nothing more will come.
    End,
}

/// Reads one profile again and again.
#[derive(Clone, Debug)]
pub struct ProfileReader {
    head: ProfileHead,
    /// Names that are known: they stay.
    names: Arc<Vec<String>>,
    name_bytes: usize,
    names_cut: u64,
    next_phase: u64,
    next_event: u64,
}

impl ProfileReader {
    /// Of words whose head can be.
    pub fn new(words: &dyn Words) -> Result<ProfileReader, ProfileRefusal> {
        Ok(ProfileReader {
            head: ProfileHead::parse(words)?,
            names: Arc::default(),
            name_bytes: 0,
            names_cut: 0,
            next_phase: 0,
            next_event: 0,
        })
    }

    /// What does not change.
    pub fn head(&self) -> &ProfileHead {
        &self.head
    }

    /// How often the program has published, and 1.
    pub fn epoch(words: &dyn Words) -> u64 {
        words.load(at::EPOCH)
    }

    /// Whether the program has ended in order.
    pub fn has_ended(words: &dyn Words) -> bool {
        words.load(at::ENDED) != 0
    }

    /// Reads it. Phases and events are those since the last time; at a publish none.
    pub fn read(&mut self, words: &dyn Words, which: ReadAt) -> ProfileSnapshot {
        let mut lost = losses(words);
        self.read_names(words, &mut lost);
        let threads = self.threads(words, &mut lost);
        let nodes = nodes::read(self, words, which, &mut lost);
        let is_publish = matches!(which, ReadAt::Publish(_));
        let costs = if is_publish { Vec::new() } else { nodes::read_costs(self, words) };
        let phases = if is_publish { Vec::new() } else { self.phases(words, which, &mut lost) };
        let events = if is_publish { Vec::new() } else { self.events(words, which, &mut lost) };
        let metadata = self.metadata(words, &mut lost);
        let snapshot = self.snapshot(words, threads);
        ProfileSnapshot { nodes, costs, phases, events, metadata, lost, ..snapshot }
    }

    /// Phases and events since the last time, without nodes; none if there are none.
    pub fn read_rings(&mut self, words: &dyn Words) -> Option<ProfileSnapshot> {
        let written = |section| words.load(at::USED + section);
        if written(section::PHASES) <= self.next_phase
            && written(section::EVENTS) <= self.next_event
        {
            return None;
        }
        let mut lost = ProfileLosses::default();
        self.read_names(words, &mut lost);
        let threads = self.threads(words, &mut lost);
        let phases = self.phases(words, ReadAt::Now, &mut lost);
        let events = self.events(words, ReadAt::Now, &mut lost);
        Some(ProfileSnapshot { phases, events, lost, ..self.snapshot(words, threads) })
    }

    /// What is read at once, with nothing in it.
    fn snapshot(&self, words: &dyn Words, threads: Vec<ProfileThread>) -> ProfileSnapshot {
        ProfileSnapshot {
            pid: self.head.pid,
            rank: rank(words.load(at::RANK)),
            clock: self.head.clock,
            first: self.head.first,
            last: last_pair(words).unwrap_or(self.head.first),
            epoch: ProfileReader::epoch(words),
            has_ended: ProfileReader::has_ended(words),
            names: Arc::clone(&self.names),
            nodes: Vec::new(),
            costs: Vec::new(),
            threads,
            phases: Vec::new(),
            events: Vec::new(),
            metadata: Vec::new(),
            lost: ProfileLosses::default(),
        }
    }

    /// The first words of a section's records in use.
    fn records(&self, words: &dyn Words, section: usize, length: usize) -> RecordPlaces {
        let span = self.head.sections[section];
        let used = usize::try_from(words.load(at::USED + section)).unwrap_or(usize::MAX);
        RecordPlaces { first: span.first, length, count: used.min(span.records) }
    }

    /// A name's number, if there can be such a name.
    fn name(&self, number: u64) -> Option<usize> {
        usize::try_from(number).ok().filter(|number| *number < self.names.len())
    }

    fn thread(&self, number: u64) -> Option<usize> {
        let most = self.head.sections[section::THREADS].records;
        usize::try_from(number).ok().filter(|number| *number < most)
    }
}

/// Numbers of sections.
mod section {
    pub const NAMES: usize = 0;
    pub const TEXTS: usize = 1;
    pub const NODES: usize = 2;
    pub const THREADS: usize = 3;
    pub const PHASES: usize = 4;
    pub const EVENTS: usize = 5;
    pub const METADATA: usize = 6;
    pub const COSTS: usize = 7;
}

/// Where records lie.
#[derive(Clone, Copy)]
struct RecordPlaces {
    first: usize,
    length: usize,
    count: usize,
}

impl RecordPlaces {
    fn iter(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |number| self.first + number * self.length)
    }
}

fn rank(word: u64) -> Option<u32> {
    u32::try_from(word.checked_sub(1)?).ok()
}

/// The later pair of the clocks; none if it is being written all the time.
fn last_pair(words: &dyn Words) -> Option<ClockPair> {
    settled(words, at::PAIR_SEQUENCE, TRIES, || ClockPair {
        ticks: words.load(at::LAST_TICKS),
        ns: words.load(at::LAST_NS),
    })
    .filter(|pair| pair.ticks != 0)
}

/// What is read while a sequence is even and stays; none if it does not in so many tries.
fn settled<T>(words: &dyn Words, sequence: usize, tries: usize, read: impl Fn() -> T) -> Option<T> {
    for _ in 0..tries {
        let before = words.load(sequence);
        if before.is_multiple_of(2) {
            let found = read();
            if words.load(sequence) == before {
                return Some(found);
            }
        }
        std::hint::spin_loop();
    }
    None
}

fn losses(words: &dyn Words) -> ProfileLosses {
    ProfileLosses {
        nodes: words.load(at::NODES_LOST),
        names: words.load(at::NAMES_LOST),
        threads: words.load(at::THREADS_LOST),
        frames: words.load(at::FRAMES_LOST),
        other_calls: words.load(at::OTHER_CALLS),
        other_ticks: words.load(at::OTHER_TICKS),
        ..ProfileLosses::default()
    }
}

const _: () = {
    use weigh_schema::profile::SECTIONS;
    assert!(SECTIONS[section::NAMES].words == name::LENGTH);
    assert!(SECTIONS[section::NODES].words == node::LENGTH);
    assert!(SECTIONS[section::THREADS].words == thread::LENGTH);
    assert!(SECTIONS[section::METADATA].words == metadata::LENGTH);
    assert!(SECTIONS[section::COSTS].words == weigh_schema::profile::costs::LENGTH);
};

#[cfg(test)]
pub(crate) mod tests;
