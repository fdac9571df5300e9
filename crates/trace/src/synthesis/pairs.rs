//! First events and second ones of the same key, at most so long apart.
//!
//! Takes them in the order of their times; emits pairs, and first ones that nothing followed. First ones that
//! wait are so many at most; what becomes of each is counted.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use weigh_schema::synthesis::Pairs as Told;

use super::spread::Spread;

/// First events that are kept as a whole have so many bytes at most.
const MOST_BYTES: usize = 64 << 20;

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// A first one that waits.
struct Waiting {
    serial: u64,
    time_ns: u64,
    record: Option<Box<[u8]>>,
    flow: u64,
    /// Older ones of the same key, where each waits for itself, the oldest first.
    before: VecDeque<Waiting>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.record.as_ref().map_or(0, |record| record.len())
    }
}

/// What becomes of first ones.
pub enum Outcome {
    /// A second one followed.
    Followed {
        /// How much later.
        after_ns: u64,
        /// The first one, if it was kept.
        record: Option<Box<[u8]>>,
        /// What joins the two.
        flow: u64,
    },
    /// None followed until then.
    NotFollowed {
        /// The end of its time.
        until_ns: u64,
        /// How long that was.
        after_ns: u64,
        /// The first one, if it was kept.
        record: Option<Box<[u8]>>,
    },
}

/// Pairs of events.
pub struct Pairs {
    within_ns: Option<u64>,
    /// Each first one waits for itself; else the last of its key does.
    is_each: bool,
    most: usize,
    waiting: HashMap<Rc<[u8]>, Waiting>,
    held: usize,
    held_bytes: usize,
    /// Those whose time will end, the first to end first; some have been answered.
    ends: VecDeque<(u64, u64, Rc<[u8]>)>,
    serial: u64,
    spread: Spread,
    told: Told,
}

impl Pairs {
    /// So far apart, so many that wait.
    pub fn new(within_ns: Option<u64>, is_each: bool, most: usize) -> Pairs {
        Pairs {
            within_ns,
            is_each,
            most,
            waiting: HashMap::new(),
            held: 0,
            held_bytes: 0,
            ends: VecDeque::new(),
            serial: 0,
            spread: Spread::default(),
            told: Told::default(),
        }
    }

    /// One without a key.
    pub fn nameless(&mut self, is_first: bool) {
        let total = if is_first { &mut self.told.first_total } else { &mut self.told.second_total };
        *total += 1;
        self.told.without_key_total += 1;
    }

    /// A first one.
    pub fn first(&mut self, key: &[u8], time_ns: u64, record: Option<&[u8]>, flow: u64) {
        self.told.first_total += 1;
        let is_full = self.held >= self.most || self.held_bytes >= MOST_BYTES;
        let known = self.waiting.get_mut(key);
        if is_full && (self.is_each || known.is_none()) {
            self.told.not_kept_total += 1;
            return;
        }
        self.serial += 1;
        let record = record.map(Box::from);
        let mut waiting =
            Waiting { serial: self.serial, time_ns, record, flow, before: VecDeque::new() };
        self.held_bytes += waiting.bytes();
        match known {
            Some(last) if self.is_each => {
                self.held += 1;
                waiting.before = std::mem::take(&mut last.before);
                let older = std::mem::replace(last, waiting);
                last.before.push_back(older);
            }
            Some(last) => {
                self.told.overwritten_total += 1;
                self.held_bytes -= last.bytes();
                *last = waiting;
            }
            None => {
                self.held += 1;
                self.waiting.insert(key.into(), waiting);
            }
        }
        self.note_end(key, time_ns);
    }

    /// The time of the one that came last will end.
    fn note_end(&mut self, key: &[u8], time_ns: u64) {
        if let Some(within) = self.within_ns
            && let Some((key, _)) = self.waiting.get_key_value(key)
        {
            self.ends.push_back((time_ns.saturating_add(within), self.serial, Rc::clone(key)));
            self.forget_answered();
        }
    }

    /// A second one.
    pub fn second(&mut self, key: &[u8], time_ns: u64, mut out: impl FnMut(Outcome)) {
        self.told.second_total += 1;
        let Some((key, mut last)) = self.waiting.remove_entry(key) else {
            self.told.unmatched_total += 1;
            return;
        };
        // One that came too late may be older than who waits.
        if last.time_ns > time_ns {
            self.told.unmatched_total += 1;
            self.waiting.insert(key, last);
            return;
        }
        for waiting in std::mem::take(&mut last.before).into_iter().chain([last]) {
            self.held -= 1;
            self.held_bytes -= waiting.bytes();
            self.told.pairs_total += 1;
            let after_ns = time_ns.saturating_sub(waiting.time_ns);
            self.spread.add(after_ns.into());
            out(Outcome::Followed { after_ns, record: waiting.record, flow: waiting.flow });
        }
    }

    /// Nothing older than that will come.
    pub fn pass(&mut self, now_ns: u64, mut out: impl FnMut(Outcome)) {
        while self.ends.front().is_some_and(|(end, ..)| *end < now_ns) {
            let Some((until_ns, serial, key)) = self.ends.pop_front() else { return };
            let Some(waiting) = self.take(&key, serial) else { continue };
            self.held -= 1;
            self.held_bytes -= waiting.bytes();
            self.told.unanswered_total += 1;
            let after_ns = until_ns - waiting.time_ns;
            out(Outcome::NotFollowed { until_ns, after_ns, record: waiting.record });
        }
    }

    /// Takes the one of this number away, if it still waits.
    fn take(&mut self, key: &[u8], serial: u64) -> Option<Waiting> {
        let last = self.waiting.get_mut(key)?;
        if let Ok(place) = last.before.binary_search_by_key(&serial, |old| old.serial) {
            return last.before.remove(place);
        }
        if last.serial != serial {
            return None;
        }
        let (key, mut last) = self.waiting.remove_entry(key)?;
        if let Some(mut older) = last.before.pop_back() {
            older.before = std::mem::take(&mut last.before);
            self.waiting.insert(key, older);
        }
        Some(last)
    }

    /// Ends of those that were answered are let go of before they are more than those that are needed.
    fn forget_answered(&mut self) {
        if self.ends.len() <= 2 * self.held + 1024 {
            return;
        }
        let waiting = &self.waiting;
        self.ends.retain(|(_, serial, key)| {
            waiting.get(key).is_some_and(|last| {
                let is_older =
                    || last.before.binary_search_by_key(serial, |old| old.serial).is_ok();
                last.serial == *serial || is_older()
            })
        });
    }

    /// A first one that no second one can follow any more.
    pub fn unwatched(&mut self) {
        self.told.first_total += 1;
        self.told.unanswered_total += 1;
    }

    /// No second one will come: none waits any more.
    pub fn end(&mut self) {
        self.told.unanswered_total += self.held as u64;
        self.waiting.clear();
        self.ends.clear();
        (self.held, self.held_bytes) = (0, 0);
    }

    /// What has become of all.
    pub fn told(&self) -> Told {
        let waiting_total = self.held as u64;
        Told { waiting_total, seconds: self.spread.told(SECOND), ..self.told.clone() }
    }
}
