//! What `collect` hands to `account`: what was done with one file by one process, names, ends.

use serde::{Deserialize, Serialize};

use crate::quality::Mechanism;

use super::called::{Called, Untold};
use super::field::{FIELDS, Field, Fold, SIZES};
use super::object::{FileId, Object};
use super::offset_histogram::OffsetHistogram;
use super::transfer::Transfer;

/// So many stretches of a file are remembered in each direction.
pub const SEEN: usize = 4;
/// So many strides are counted in each direction.
pub const STRIDES: usize = 4;

/// Who used a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// The process, in the initial PID namespace.
    pub pid: u32,
    /// The thread; 0 stands for all of the process together.
    pub tid: u32,
}

/// Bytes of a file, from the first to before the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretch {
    /// The first.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
}

/// What is remembered of the reads, or of the writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// What was read or written: stretches that do not touch each other.
    pub seen: Vec<Stretch>,
    /// The commonest distances between the beginnings of accesses, and how often each; one that gave
    /// its place to another is counted from when it came back.
    pub strides: Vec<(i64, u64)>,
}

/// Everything that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Bytes by kind of transfer: read, written.
    pub bytes: [[u64; 2]; Transfer::ALL.len()],
    /// Calls by kind of transfer.
    pub calls: [[u64; 2]; Transfer::ALL.len()],
    /// Calls by size: see [`super::bucket_start`].
    pub sizes: [[u64; SIZES]; 2],
    fields: [u64; FIELDS.len()],
}

impl Default for Numbers {
    fn default() -> Numbers {
        let mut fields = [0; FIELDS.len()];
        for field in FIELDS.iter().filter(|field| field.fold() == Fold::Least) {
            fields[*field as usize] = u64::MAX;
        }
        Numbers { bytes: [[0; 2]; 8], calls: [[0; 2]; 8], sizes: [[0; SIZES]; 2], fields }
    }
}

impl Numbers {
    /// How many numbers of 64 bits it is in the BPF programs.
    pub const WORDS: usize = 4 * Transfer::ALL.len() + 2 * SIZES + FIELDS.len();

    /// From the numbers of the BPF programs, in their order; none if they are too few.
    pub fn from_words(words: &[u64]) -> Option<Numbers> {
        let mut words = words.get(..Numbers::WORDS)?.iter().copied();
        let mut next = || words.next().unwrap_or(0);
        let mut numbers = Numbers::default();
        numbers.words_mut().for_each(|number| *number = next());
        // They begin at zero there.
        if numbers.get(Field::Placed) == 0 {
            numbers.set(Field::Lowest, u64::MAX);
        }
        for field in [Field::First, Field::WrittenFirst] {
            if numbers.get(field) == 0 {
                numbers.set(field, u64::MAX);
            }
        }
        Some(numbers)
    }

    /// The numbers as they are, one by one: in the order of the BPF programs.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let moved = self.bytes.iter().chain(&self.calls).flatten();
        moved.chain(self.sizes.iter().flatten()).chain(&self.fields).copied()
    }

    /// The same, to be changed.
    pub fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let moved = self.bytes.iter_mut().chain(&mut self.calls).flatten();
        moved.chain(self.sizes.iter_mut().flatten()).chain(&mut self.fields)
    }

    /// A number as it is kept: times in nanoseconds.
    pub fn get(&self, field: Field) -> u64 {
        self.fields[field as usize]
    }

    /// Puts a number in its place.
    pub fn set(&mut self, field: Field, number: u64) {
        self.fields[field as usize] = number;
    }

    /// A number, unless it stands for none.
    pub fn known(&self, field: Field) -> Option<u64> {
        Some(self.get(field)).filter(|n| field.fold() != Fold::Least || *n != u64::MAX)
    }

    /// Takes in what was counted elsewhere.
    pub fn fold(&mut self, other: &Numbers) {
        let sum = |to: &mut u64, from: &u64| *to = to.saturating_add(*from);
        let pairs = |to: &mut [[u64; 2]; 8], from: &[[u64; 2]; 8]| {
            to.iter_mut().flatten().zip(from.iter().flatten()).for_each(|(to, from)| sum(to, from));
        };
        pairs(&mut self.bytes, &other.bytes);
        pairs(&mut self.calls, &other.calls);
        let sizes = self.sizes.iter_mut().flatten().zip(other.sizes.iter().flatten());
        sizes.for_each(|(to, from)| sum(to, from));
        for field in FIELDS {
            let (mine, theirs) = (self.get(*field), other.get(*field));
            self.set(
                *field,
                match field.fold() {
                    Fold::Sum => mine.saturating_add(theirs),
                    Fold::Greatest => mine.max(theirs),
                    Fold::Least => mine.min(theirs),
                },
            );
        }
    }

    /// Bytes of calls in one direction: without what is mapped.
    pub fn bytes_by_calls(&self, direction: usize) -> u64 {
        let of = |transfer: &Transfer| self.bytes[*transfer as usize][direction];
        Transfer::ALL.iter().filter(|t| **t != Transfer::Mapped).map(of).sum()
    }

    /// Calls in one direction: without what is mapped.
    pub fn calls_of(&self, direction: usize) -> u64 {
        let of = |transfer: &Transfer| self.calls[*transfer as usize][direction];
        Transfer::ALL.iter().filter(|t| **t != Transfer::Mapped).map(of).sum()
    }

    /// Calls that move nothing.
    pub fn other_calls(&self) -> u64 {
        let fields = [Field::Opens, Field::Closes, Field::Seeks, Field::Metadata, Field::Syncs];
        let more = [Field::Truncates, Field::Maps, Field::Failed];
        fields.iter().chain(&more).map(|field| self.get(*field)).sum()
    }

    /// Bytes that devices read and wrote.
    pub fn bytes_of_devices(&self) -> [u64; 2] {
        [self.get(Field::DeviceRead), self.get(Field::DeviceWritten)]
    }

    /// Whether there is anything that is known later than calls: what devices did, what was read ahead.
    pub fn has_later(&self) -> bool {
        let ahead = self.get(Field::AheadUnused) | self.get(Field::AheadDoubts);
        ahead > 0 || self.bytes_of_devices() != [0, 0]
    }

    /// Time in all calls, in nanoseconds.
    pub fn time_ns(&self) -> u64 {
        Field::TIMES.iter().map(|field| self.get(*field)).sum()
    }
}

/// The mechanisms that have counted, where several do in one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources(u8);

impl Sources {
    /// The kernel side.
    pub const BPF: Sources = Sources(1);
    /// A library in the programs.
    pub const PRELOAD: Sources = Sources(2);
    /// A tracer.
    pub const PTRACE: Sources = Sources(4);

    /// Adds mechanisms that have counted besides.
    pub fn join(&mut self, more: Sources) {
        self.0 |= more.0;
    }

    /// Whether a library in the programs is among them.
    pub fn has_preload(self) -> bool {
        self.0 & Sources::PRELOAD.0 != 0
    }

    /// In words; none where one mechanism counts all.
    pub fn mechanisms(self) -> Vec<Mechanism> {
        let known = [
            (Sources::PRELOAD, Mechanism::Preload),
            (Sources::BPF, Mechanism::Bpf),
            (Sources::PTRACE, Mechanism::Ptrace),
        ];
        known.iter().filter(|(source, _)| self.0 & source.0 != 0).map(|(_, name)| *name).collect()
    }
}

/// What one process did with one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// The file.
    pub file: FileId,
    /// Who did it.
    pub who: Who,
    /// What the file is.
    pub object: Object,
    /// Whether it had no name any more when this was told.
    pub is_deleted: bool,
    /// The numbers.
    pub numbers: Numbers,
    /// Reads and writes.
    pub directions: [Direction; 2],
    /// Where in the file.
    pub places: OffsetHistogram,
    /// The call that took longest: its time, its number, and when it ended.
    pub slowest: (u64, u64, u64),
    /// The mechanisms that counted this.
    pub sources: Sources,
}

impl Use {
    /// Whether nothing was done by the process itself: devices write later what it wrote, and what was read
    /// ahead for it waits.
    pub fn is_of_later_alone(&self) -> bool {
        self.numbers.known(Field::First).is_none() && self.numbers.has_later()
    }
}

/// A file, and what people call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The file.
    pub file: FileId,
    /// What it is.
    pub object: Object,
    /// Path, or addresses.
    pub name: String,
}

/// A process, as it is told at its end or while it lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// In the initial PID namespace.
    pub pid: u32,
    /// Who started it.
    pub parent: u32,
    /// The kernel's name for it.
    pub name: String,
    /// When it began and ended, in nanoseconds since the following began.
    pub started_ns: u64,
    /// 0 while it lives.
    pub ended_ns: u64,
    /// Calls that name a file by its path and open nothing: stat, unlink, rename and their like.
    pub path_calls: u64,
    /// Time in them.
    pub path_ns: u64,
    /// Opens that failed.
    pub failed_opens: u64,
    /// Calls of 32-bit programs that are not in the numbers: it is not known what they did.
    pub foreign_calls: u64,
    /// Whether it read or wrote unseen, or may have: by requests that no call tells of (io_uring, AIO), in a program that
    /// weigh's library was not in, after the agent was lost. Of what it read and wrote a lower bound is known.
    pub moves_unseen: bool,
}

/// One thing that the kernel side tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A file is called so: for the first time, or by another name than before.
    Named(Named),
    /// A file has lost its last name.
    Unlinked(FileId),
    /// A process is done with a file, for now: what it did since this was told last.
    Used(Box<Use>),
    /// A process has ended.
    Ended(Process),
    /// What a process asked for since this was told last, by who does not learn of its end.
    Asked(Process),
    /// One call, where each is wanted.
    Called(Called),
}

/// How much was seen, and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Threads that were followed.
    pub threads: u64,
    /// Those of them that have not ended.
    pub living: u64,
    /// Processes for which there was no room.
    pub lost_processes: u64,
    /// Threads for which there was no room: their calls are missing.
    pub lost_threads: u64,
    /// Names that could not be told.
    pub lost_names: u64,
    /// AIO requests that could not be remembered.
    pub lost_requests: u64,
    /// Calls whose file found no room: they are in the rest.
    pub rest_calls: u64,
    /// Calls whose numbers could not be added up at all.
    pub lost_calls: u64,
    /// Pages of which it is not known whether, or for whom, a device read or wrote them.
    pub lost_pages: u64,
    /// Pages that came into the page cache, of which it is not known whether they were used.
    #[serde(default)]
    pub lost_ahead: u64,
    /// Calls that were counted, and could not be told one by one.
    pub untold: Untold,
    /// Calls of processes that the job's owner may not look at: in the rest, without their files.
    pub apart_calls: u64,
    /// Times that a file was mapped shared and writable.
    #[serde(default)]
    pub shared_maps: u64,
    /// Those of them whose file is in memory (tmpfs).
    #[serde(default)]
    pub memory_maps: u64,
    /// Pages that came by mapped memory, of files with less storage than their size: holes may be among them.
    #[serde(default)]
    pub sparse_fills: u64,
    /// Requests of io_uring of which no result tells all that they moved.
    #[serde(default)]
    pub hidden_requests: u64,
    /// Calls of splice, tee, vmsplice and io_submit, which the kernel's own sums leave out; none where they are not
    /// looked at.
    #[serde(default)]
    pub uncounted_calls: Option<u64>,
    /// Calls that may have freed space of a file system; none where they are not looked at.
    #[serde(default)]
    pub freeing_calls: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_words_in_their_order_and_add_up() {
        let words: Vec<u64> = (1..=Numbers::WORDS as u64).collect();
        let mut numbers = Numbers::from_words(&words).expect("enough");
        assert_eq!(numbers.bytes[0], [1, 2]);
        assert_eq!(numbers.calls[0], [17, 18]);
        assert_eq!(numbers.sizes[0][0], 33);
        assert_eq!(numbers.get(Field::ReadTime), 33 + 2 * SIZES as u64);
        assert!(Numbers::from_words(&words[1..]).is_none());
        let (lowest, highest) = (numbers.get(Field::Lowest), numbers.get(Field::Highest));
        numbers.fold(&numbers.clone());
        assert_eq!(numbers.bytes[0], [2, 4]);
        assert_eq!((numbers.get(Field::Lowest), numbers.get(Field::Highest)), (lowest, highest));
        let blank = Numbers::from_words(&vec![0; Numbers::WORDS]).expect("enough");
        assert_eq!(blank, Numbers::default());
        assert_eq!(blank.known(Field::Lowest), None);
    }
}
