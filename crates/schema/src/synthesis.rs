//! What `weigh trace` found in several events together: latencies, pairs, rates, the most frequent,
//! histograms. What other software builds on, as JSON.
//!
//! Every number is exact for the events that were looked at; how many were not, because they were lost,
//! is told with it.

use serde::{Deserialize, Serialize};

use crate::zero::is_zero;

/// The schema of a report.
pub const REPORT: &str = "weigh.synthesis/1";

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SynthesisReport {
    /// [`REPORT`].
    pub schema: String,
    /// How long events were followed.
    pub seconds: f64,
    /// Events that were looked at.
    pub events_total: u64,
    /// Events that came too late to be put into the order of time.
    pub late_total: u64,
    /// Reports before this one that were not written, as their reader was too slow (`--every`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reports_missed_total: u64,
    /// How often the stream has changed itself (`--when`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub switches_total: u64,
    /// The last of these changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<SwitchNote>,
    /// For each thing that was asked for.
    pub found: Vec<SynthesisResult>,
}

/// A change that a stream has made to itself, or could not make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchNote {
    /// When, in seconds since events are followed.
    pub at_seconds: f64,
    /// The condition and its change, as they were written.
    pub rule: String,
    /// Whether the change is in force since; else it is not any more.
    pub is_on: bool,
    /// How many there were in the second before.
    pub per_second: f64,
    /// Why it could not be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What was found for one thing that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SynthesisResult {
    /// As it was asked for.
    pub asked: String,
    /// Events of those it looks at that were lost, of which it knows nothing.
    pub lost_total: u64,
    /// Of which of them not every one was taken, and by what rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampled: Vec<String>,
    /// What was found.
    #[serde(flatten)]
    pub what: What,
}

/// Kinds of things that are found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// The time between two events of the same key.
    Latency(Pairs),
    /// Events that are followed by another, or not.
    Sequence(Pairs),
    /// How many events there are in a second.
    Rate(Table),
    /// The most frequent.
    Top(Table),
    /// How values are spread.
    Histogram(Table),
}

/// First events and second ones of the same key. Each first one is one of `pairs`, `overwritten`, `unanswered`,
/// `waiting`, `not_kept`, or it has no key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pairs {
    /// First events.
    pub first_total: u64,
    /// Second events.
    pub second_total: u64,
    /// First ones that a second one followed, in time.
    pub pairs_total: u64,
    /// First ones that another of the same key followed before any second one did.
    pub overwritten_total: u64,
    /// First ones that no second one followed in time.
    pub unanswered_total: u64,
    /// First ones that nothing had followed yet when it ended.
    pub waiting_total: u64,
    /// First ones for which there was no room.
    pub not_kept_total: u64,
    /// First and second ones whose key could not be had.
    pub without_key_total: u64,
    /// Second ones that nobody waited for.
    pub unmatched_total: u64,
    /// The time between the two, in seconds.
    pub seconds: Option<Distribution>,
    /// What counters of the CPU have counted between the two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterDifference>,
}

/// What a counter of the CPU has counted between two events. Each pair is one of `pairs`, `other_cpu`, `absent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterDifference {
    /// The first one's field.
    pub counter: String,
    /// Pairs of which it is known.
    pub pairs_total: u64,
    /// Pairs whose second one happened on another CPU.
    pub other_cpu_total: u64,
    /// Pairs of which one lacks the count.
    pub absent_total: u64,
    /// All that was counted between them.
    pub sum: u64,
    /// How that is spread.
    pub values: Option<Distribution>,
}

/// Rows for keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What the keys are made of.
    pub by: Vec<String>,
    /// The rows, those with most events first.
    pub rows: Vec<Row>,
    /// Keys that have a row of their own which is not told, and their events.
    pub rest_keys_total: u64,
    /// Their events.
    pub rest_events_total: u64,
    /// Events of keys for which there was no room: then a row may lack events that came before it was made.
    pub others_total: u64,
    /// Events that lack the key, or the value.
    pub without_key_total: u64,
}

/// What was found for a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The key.
    pub key: Vec<KeyPart>,
    /// Its events.
    pub events_total: u64,
    /// How many there were in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How its values are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Distribution>,
}

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyPart {
    /// True or false.
    Bool(bool),
    /// A number.
    Unsigned(u64),
    /// A number below 0.
    Signed(i64),
    /// A text, a constant's name, an address.
    Text(String),
}

/// Events in a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// On average.
    pub per_second: f64,
    /// In the last second that is over.
    pub last: u64,
    /// In the second that had most.
    pub most: u64,
}

/// How values are spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The value that half of them do not exceed, at most a sixteenth too large.
    pub p50: f64,
    /// The value that 99 of 100 do not exceed, at most a sixteenth too large.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
    /// How many there are from a value on up to the next bucket.
    pub buckets: Vec<Bucket>,
}

/// Values of about the same size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// The least of them that there may be.
    pub from: f64,
    /// How many.
    pub count: u64,
}
