//! Events counted by keys: how many, how many in a second, how their values are spread.
//!
//! A table has so many keys at most, a sixteenth of them if each has a histogram; events of others are counted
//! together.

use std::cmp::Reverse;
use std::collections::HashMap;

use weigh_schema::synthesis::{Rate, Row, Table as Told};

use super::key::Key;
use super::spread::Spread;

const SECOND: u64 = 1_000_000_000;

/// What was counted of a key.
#[derive(Default)]
struct KeyCounts {
    events: u64,
    seconds: Seconds,
    values: Option<Box<Spread>>,
}

/// Events by seconds.
#[derive(Clone, Copy, Default)]
struct Seconds {
    /// The second of the last one, and how many it has.
    second: u64,
    within: u64,
    /// How many the one before had.
    before: u64,
    most: u64,
}

impl Seconds {
    fn add(&mut self, time_ns: u64) {
        let second = (time_ns / SECOND).max(self.second);
        if second > self.second {
            self.before = if second == self.second + 1 { self.within } else { 0 };
            (self.second, self.within) = (second, 0);
        }
        self.within += 1;
        self.most = self.most.max(self.within);
    }

    /// How many the last second had that is over at a time.
    fn last(&self, now_ns: u64) -> u64 {
        match (now_ns / SECOND).checked_sub(self.second) {
            Some(0) => self.before,
            Some(1) => self.within,
            _ => 0,
        }
    }
}

/// What is told of each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// How many.
    Count,
    /// How many in a second.
    Rate,
    /// How the values are spread.
    Values,
}

/// A table.
pub struct Table {
    by: Vec<String>,
    detail: Detail,
    most: usize,
    rows: HashMap<Box<[u8]>, KeyCounts>,
    others: u64,
    without_key: u64,
}

impl Table {
    /// Of so many keys at most.
    pub fn new(by: Vec<String>, detail: Detail, most: usize) -> Table {
        // A histogram may have a thousand buckets.
        let most = if detail == Detail::Values { most.div_ceil(16) } else { most };
        Table { by, detail, most, rows: HashMap::new(), others: 0, without_key: 0 }
    }

    /// One without a key, or without a value.
    pub fn nameless(&mut self) {
        self.without_key += 1;
    }

    /// One more.
    pub fn add(&mut self, key: &[u8], time_ns: u64, value: Option<i128>) {
        let is_full = self.rows.len() >= self.most;
        let row = match self.rows.get_mut(key) {
            Some(row) => row,
            None if !is_full => self.rows.entry(key.into()).or_default(),
            None => {
                self.others += 1;
                return;
            }
        };
        row.events += 1;
        match self.detail {
            Detail::Count => {}
            Detail::Rate => row.seconds.add(time_ns),
            Detail::Values => {
                if let Some(value) = value {
                    row.values.get_or_insert_default().add(value);
                }
            }
        }
    }

    /// The rows with most events, so many at most. It is so late by the events' clock, and they were followed for so
    /// long.
    pub fn told(&self, key: &Key, most: usize, now_ns: u64, seconds: f64) -> Told {
        let mut all: Vec<(&[u8], &KeyCounts)> =
            self.rows.iter().map(|(key, row)| (&**key, row)).collect();
        all.sort_unstable_by_key(|(key, row)| (Reverse(row.events), *key));
        let rest = all.split_off(most.min(all.len()));
        let rate = |row: &KeyCounts| Rate {
            per_second: row.events as f64 / seconds.max(1e-9),
            last: row.seconds.last(now_ns),
            most: row.seconds.most,
        };
        let row = |(bytes, row): (&[u8], &KeyCounts)| Row {
            key: key.read(bytes),
            events_total: row.events,
            rate: (self.detail == Detail::Rate).then(|| rate(row)),
            values: row.values.as_ref().and_then(|values| values.told(1.0)),
        };
        Told {
            by: self.by.clone(),
            rest_keys_total: rest.len() as u64,
            rest_events_total: rest.iter().map(|(_, row)| row.events).sum(),
            rows: all.into_iter().map(row).collect(),
            others_total: self.others,
            without_key_total: self.without_key,
        }
    }
}
