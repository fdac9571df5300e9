//! A reader of one profile: what it knows of it from one time to the next, and how records are found and read.

use std::sync::Arc;

use weigh_schema::profile::head as at;

use super::head::ProfileHead;
use super::words::Words;

/// How often something is looked at that is being written.
pub(super) const TRIES: usize = 64;

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
    pub(super) head: ProfileHead,
    /// Names that are known: they stay.
    pub(super) names: Arc<Vec<String>>,
    pub(super) name_bytes: usize,
    pub(super) names_cut: u64,
    pub(super) next_phase: u64,
    pub(super) next_event: u64,
}

impl ProfileReader {
    /// The first words of a section's records in use.
    pub(super) fn records(&self, words: &dyn Words, section: usize, length: usize) -> RecordPlaces {
        let span = self.head.sections[section];
        let used = usize::try_from(words.load(at::USED + section)).unwrap_or(usize::MAX);
        RecordPlaces { first: span.first, length, count: used.min(span.records) }
    }

    /// A name's number, if there can be such a name.
    pub(super) fn name(&self, number: u64) -> Option<usize> {
        usize::try_from(number).ok().filter(|number| *number < self.names.len())
    }

    pub(super) fn thread(&self, number: u64) -> Option<usize> {
        let most = self.head.sections[section::THREADS].records;
        usize::try_from(number).ok().filter(|number| *number < most)
    }
}

/// Numbers of sections.
pub(super) mod section {
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
pub(super) struct RecordPlaces {
    first: usize,
    length: usize,
    pub count: usize,
}

impl RecordPlaces {
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |number| self.first + number * self.length)
    }
}

/// What is read while a sequence is even and stays; none if it does not in so many tries.
pub(super) fn settled<T>(
    words: &dyn Words,
    sequence: usize,
    tries: usize,
    read: impl Fn() -> T,
) -> Option<T> {
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
