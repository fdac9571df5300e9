//! A process's profile of its own regions, from the words that it shares (`schema::profile` says how they lie).
//!
//! Reads words one by one, for they may change at any moment; emits a [`ProfileSnapshot`]. Refuses a head whose numbers
//! cannot be; takes no index, length or count on trust after that, and waits for nobody: what is being written is looked
//! at a bounded number of times.

mod costs;
mod head;
mod nodes;
mod reader;
mod rings;
mod texts;
mod words;

use std::sync::Arc;

use weigh_schema::profile::{head as at, metadata, name, node, thread};
use weigh_schema::region::snapshot::{ClockPair, ProfileLosses, ProfileSnapshot, ProfileThread};

pub use head::{MOST_BYTES, ProfileHead, ProfileRefusal, SectionSpan};
pub use reader::{ProfileReader, ReadAt};
use reader::{TRIES, section, settled};
pub use words::Words;

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

    /// Keeps no names: they are read again.
    pub fn forget_names(&mut self) {
        (self.names, self.name_bytes, self.names_cut) = Default::default();
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
        let costs = if is_publish { Vec::new() } else { costs::read(self, words) };
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
