//! Events and pairs as they come: counted in columns of time, and as far as there is room kept for themselves.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::bins::{Bins, Columns};
use super::pairs::PairBook;

/// So many threads are counted each for itself; later ones together.
const MOST_LANES: usize = 512;
/// So many events of each are told apart.
pub(super) const MOST_EVENTS: usize = 64;
/// So many single events are kept.
const MOST_MARKS: usize = 20_000;
/// So many single pairs.
const MOST_SPANS: usize = 5_000;
/// So many kinds of pairs.
const MOST_PAIRS: usize = 32;

/// A thread's events.
pub(super) struct Lane {
    pub(super) tgid: u32,
    pub(super) tid: u32,
    pub(super) total: u64,
    /// Of each event, in columns of time.
    pub(super) events: Vec<(u32, Columns)>,
}

/// An event that is drawn for itself.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) lane: usize,
    pub(super) event: u32,
    pub(super) at_ns: u64,
}

/// A pair that is drawn for itself: the shortest is the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) lasts_ns: u64,
    pub(super) from_ns: u64,
    pub(super) tid: u32,
    pub(super) pair: usize,
}

/// Where and when something happened.
#[derive(Clone, Copy, Debug)]
pub struct Happened {
    /// Which event.
    pub event: u32,
    /// Since the beginning.
    pub at_ns: u64,
    /// Its process.
    pub tgid: u32,
    /// Its thread.
    pub tid: u32,
}

/// What has come.
#[derive(Default)]
pub struct Gathered {
    pub(super) bins: Bins,
    pub(super) lanes: Vec<Lane>,
    pub(super) lane_of: HashMap<u32, usize>,
    /// Events of threads that have no lane.
    pub(super) laneless: u64,
    pub(super) of_events: Vec<u64>,
    pub(super) last_ns: u64,
    pub(super) marks: Vec<Mark>,
    pub(super) marks_left_out: bool,
    pub(super) spans: BinaryHeap<Reverse<Span>>,
    pub(super) spans_total: u64,
    pub(super) pairs: Vec<PairBook>,
    pair_of: HashMap<String, usize>,
    pub(super) pairs_left_out: u64,
}

impl Gathered {
    /// Takes an event.
    pub fn event(&mut self, happened: Happened) {
        let Happened { event, at_ns, tgid, tid } = happened;
        self.reach(at_ns);
        let number = event as usize;
        if number >= self.of_events.len() {
            self.of_events.resize(number + 1, 0);
        }
        self.of_events[number] += 1;
        let Some(lane) = self.lane(tgid, tid) else {
            self.laneless += 1;
            return;
        };
        let column = self.bins.column(at_ns);
        self.lanes[lane].count(event.min(MOST_EVENTS as u32), column);
        if !self.marks_left_out {
            self.marks.push(Mark { lane, event, at_ns });
            if self.marks.len() > MOST_MARKS {
                self.marks_left_out = true;
                self.marks = Vec::new();
            }
        }
    }

    /// Takes a pair, by what it is called; it began in this thread.
    pub fn pair(&mut self, called: &str, tid: u32, from_ns: u64, to_ns: u64) {
        self.reach(to_ns);
        let known = self.pair_of.get(called).copied();
        let pair = match known {
            Some(pair) => pair,
            None if self.pairs.len() >= MOST_PAIRS => {
                self.pairs_left_out += 1;
                return;
            }
            None => {
                self.pair_of.insert(called.to_string(), self.pairs.len());
                self.pairs.push(PairBook::new(called));
                self.pairs.len() - 1
            }
        };
        let lasts_ns = to_ns.saturating_sub(from_ns);
        self.pairs[pair].add(self.bins.column(to_ns), lasts_ns);
        self.spans_total += 1;
        self.spans.push(Reverse(Span { lasts_ns, from_ns, tid, pair }));
        if self.spans.len() > MOST_SPANS {
            self.spans.pop();
        }
    }

    /// Columns reach as far as that.
    fn reach(&mut self, at_ns: u64) {
        self.last_ns = self.last_ns.max(at_ns);
        while self.bins.is_behind(at_ns) {
            self.bins.double();
            let of_lanes = self.lanes.iter_mut().flat_map(|lane| &mut lane.events);
            of_lanes.for_each(|(_, columns)| columns.fold());
            self.pairs.iter_mut().for_each(PairBook::fold);
        }
    }

    pub(super) fn lane(&mut self, tgid: u32, tid: u32) -> Option<usize> {
        if let Some(lane) = self.lane_of.get(&tid) {
            return Some(*lane);
        }
        if self.lanes.len() >= MOST_LANES {
            return None;
        }
        self.lanes.push(Lane { tgid, tid, total: 0, events: Vec::new() });
        self.lane_of.insert(tid, self.lanes.len() - 1);
        Some(self.lanes.len() - 1)
    }
}

impl Lane {
    fn count(&mut self, event: u32, column: usize) {
        self.total += 1;
        let place = self.events.iter().position(|(known, _)| *known == event);
        let place = place.unwrap_or_else(|| {
            self.events.push((event, Columns::default()));
            self.events.len() - 1
        });
        self.events[place].1.add(column);
    }
}
