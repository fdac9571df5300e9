//! Phases and events, which lie in rings: what is new since the last read.

use weigh_schema::profile::{event, head as at, phase};
use weigh_schema::region::snapshot::{ProfileEvent, ProfileLosses, ProfilePhase};

use super::reader::{ProfileReader, ReadAt, section};
use super::words::Words;

/// A ring as it is read.
struct Ring<'a> {
    words: &'a dyn Words,
    first: usize,
    length: usize,
    records: u64,
    written: u64,
    /// Whether nobody writes any more.
    is_final: bool,
}

/// What stands at a place.
enum Record<T> {
    Whole(T),
    /// It is being written, or that was not finished.
    Unfinished,
    /// A later one has taken its place.
    Overwritten,
}

impl Ring<'_> {
    /// Shows what is new from `next` on, and moves that on; returns how many records are lost.
    fn take<T>(&self, next: &mut u64, read: impl Fn(usize) -> T, mut emit: impl FnMut(T)) -> u64 {
        let from = (*next).max(self.written.saturating_sub(self.records));
        let mut lost = from - *next;
        *next = from;
        while *next < self.written {
            match self.record(*next, &read) {
                Record::Whole(record) => emit(record),
                Record::Unfinished if !self.is_final => break,
                _ => lost += 1,
            }
            *next += 1;
        }
        lost
    }

    fn record<T>(&self, number: u64, read: &impl Fn(usize) -> T) -> Record<T> {
        let place = self.first + (number % self.records) as usize * self.length;
        let (stamp, expected) = (self.words.load(place), number.wrapping_add(1));
        if stamp == 0 || stamp < expected {
            return Record::Unfinished;
        }
        let found = read(place);
        match stamp == expected && self.words.load(place) == stamp {
            true => Record::Whole(found),
            false => Record::Overwritten,
        }
    }
}

impl ProfileReader {
    fn ring<'a>(
        &self,
        words: &'a dyn Words,
        section: usize,
        length: usize,
        which: ReadAt,
    ) -> Option<Ring<'a>> {
        let span = self.head.sections[section];
        let is_final = which == ReadAt::End;
        let (records, written) = (span.records as u64, words.load(at::USED + section));
        let ring = Ring { words, first: span.first, length, records, written, is_final };
        (records > 0).then_some(ring)
    }

    pub(super) fn phases(
        &mut self,
        words: &dyn Words,
        which: ReadAt,
        lost: &mut ProfileLosses,
    ) -> Vec<ProfilePhase> {
        let mut found = Vec::new();
        let Some(ring) = self.ring(words, section::PHASES, phase::LENGTH, which) else {
            return found;
        };
        let read = |place: usize| {
            let word = |at: usize| words.load(place + at);
            Some(ProfilePhase {
                name: self.name(word(phase::NAME))?,
                thread: self.thread(word(phase::THREAD))?,
                iteration: word(phase::ITERATION),
                begun: word(phase::BEGUN),
                ended: word(phase::ENDED),
            })
        };
        let mut next = self.next_phase;
        let (mut damaged, emit) = (0, &mut found);
        lost.phases += ring.take(&mut next, read, |record| match record {
            Some(phase) => emit.push(phase),
            None => damaged += 1,
        });
        lost.damaged += damaged;
        self.next_phase = next;
        found
    }

    pub(super) fn events(
        &mut self,
        words: &dyn Words,
        which: ReadAt,
        lost: &mut ProfileLosses,
    ) -> Vec<ProfileEvent> {
        let mut found = Vec::new();
        let Some(ring) = self.ring(words, section::EVENTS, event::LENGTH, which) else {
            return found;
        };
        let read = |place: usize| {
            let word = |at: usize| words.load(place + at);
            Some(ProfileEvent {
                name: self.name(word(event::NAME))?,
                thread: self.thread(word(event::THREAD))?,
                at: word(event::AT),
                value: f64::from_bits(word(event::VALUE)),
            })
        };
        let mut next = self.next_event;
        let (mut damaged, emit) = (0, &mut found);
        lost.events += ring.take(&mut next, read, |record| match record {
            Some(event) => emit.push(event),
            None => damaged += 1,
        });
        lost.damaged += damaged;
        self.next_event = next;
        found
    }
}
