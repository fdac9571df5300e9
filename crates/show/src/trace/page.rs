//! The data of the page of events, in the shape that the page wants: few enough columns for a screen, the threads
//! with most events, and numbers for what is left out.
//!
//! The TypeScript side's types are derived from these (see `tests/rendering/generated_types.rs`).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use weigh_schema::amount::show_count;
use weigh_schema::trace::{FollowedNote, TraceNote};

use super::bins::{COLUMNS, Columns};
use super::pairs::{PairBook, PairHistogram};
use super::timeline::Gathered;
use super::timeline::{Lane, MOST_EVENTS};
use crate::document::{Bundle, bundle, document};

const BUNDLE: Bundle = bundle!("trace");

/// So many threads are drawn, and so many processes.
const LANES: usize = 40;
const PROCESSES: usize = 16;

/// All that the page shows.
#[derive(Clone, Debug, Serialize)]
pub struct TracePage {
    /// The command; empty if there was none.
    pub command: String,
    /// Where it ran.
    pub place: String,
    /// How many events, in how long.
    pub summary: String,
    /// What may make the rest wrong, or is not shown.
    pub warnings: Vec<String>,
    /// How long it was, in seconds.
    pub duration: f64,
    /// The events.
    pub events: Vec<EventRow>,
    /// Where each column of time begins, in seconds.
    pub from: Vec<f64>,
    /// Where it ends.
    pub to: Vec<f64>,
    /// The threads that had most events, by process.
    pub lanes: Vec<LaneRow>,
    /// What is drawn of single events.
    pub marks: MarkRows,
    /// What is said of that.
    pub marks_note: String,
    /// Pairs that lasted longest.
    pub spans: SpanRows,
    /// What is said of those.
    pub spans_note: String,
    /// Kinds of pairs.
    pub pairs: Vec<PairRow>,
    /// Events of the processes that had most, over time.
    pub processes: Vec<ProcessHeatRow>,
}

/// An event.
#[derive(Clone, Debug, Serialize)]
pub struct EventRow {
    /// Its name.
    pub name: String,
    /// How many are in the recording.
    pub total: u64,
    /// How many in a second.
    pub per_second: f64,
    /// How many were lost; null where that is not known for it alone.
    pub lost: Option<u64>,
    /// Filter and rule of sampling.
    pub which: String,
}

/// A thread.
#[derive(Clone, Debug, Serialize)]
pub struct LaneRow {
    /// Its process.
    pub tgid: u32,
    /// Itself.
    pub tid: u32,
    /// Its name and number.
    pub label: String,
    /// Its events.
    pub total: u64,
    /// Which events it had, …
    pub events: Vec<usize>,
    /// … and how many of each, by column.
    pub counts: Vec<Vec<u32>>,
}

/// Single events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MarkRows {
    /// The thread, …
    pub lane: Vec<usize>,
    /// … which event, …
    pub event: Vec<usize>,
    /// … and when, in seconds.
    pub at: Vec<f64>,
}

/// Single pairs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SpanRows {
    /// The thread, …
    pub lane: Vec<usize>,
    /// … the kind of pairs, …
    pub pair: Vec<usize>,
    /// … from when …
    pub from: Vec<f64>,
    /// … to when, in seconds.
    pub to: Vec<f64>,
}

/// A kind of pairs.
#[derive(Clone, Debug, Serialize)]
pub struct PairRow {
    /// The one, and the other.
    pub name: String,
    /// How many.
    pub total: u64,
    /// The mean of their times, in seconds.
    pub mean: f64,
    /// The least.
    pub least: f64,
    /// What half of them do not exceed, at most an eighth too large.
    pub p50: f64,
    /// What 99 of 100 do not exceed, at most an eighth too large.
    pub p99: f64,
    /// The greatest.
    pub most: f64,
    /// Buckets: from so many seconds on, …
    pub from: Vec<f64>,
    /// … below so many, …
    pub to: Vec<f64>,
    /// … so many.
    pub count: Vec<u64>,
    /// Over time: rows from so many seconds on, the longest first, …
    pub heat_from: Vec<f64>,
    /// … and how many in each column.
    pub heat: Vec<Vec<u32>>,
}

/// A process over time.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessHeatRow {
    /// Its name and number.
    pub label: String,
    /// Its events.
    pub total: u64,
    /// How many in each column.
    pub counts: Vec<u64>,
}

/// What the names of threads are asked of.
pub type Names<'n> = &'n dyn Fn(u32) -> String;

/// The page as a file.
pub fn render(gathered: &Gathered, note: &TraceNote, names: Names<'_>) -> String {
    let page = page(gathered, note, names);
    let title = match page.command.as_str() {
        "" => "events · weigh".to_string(),
        command => format!("{command} · events · weigh"),
    };
    let instead =
        "This page draws itself with a script. `weigh trace read` prints what it is made of.";
    document(&BUNDLE, &title, instead, env!("CARGO_PKG_VERSION"), &page)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn counted(number: u64) -> String {
    show_count(number as f64)
}

/// The data of the page.
pub fn page(gathered: &Gathered, note: &TraceNote, names: Names<'_>) -> TracePage {
    let columns = gathered.bins.column(gathered.last_ns) + 1;
    let edge = |column: usize| seconds(gathered.bins.width_ns.saturating_mul(column as u64));
    let duration = note.seconds.max(seconds(gathered.last_ns)).max(1e-6);
    let lanes = chosen(gathered);
    let mut place_of = vec![None; gathered.lanes.len()];
    lanes.iter().enumerate().for_each(|(place, lane)| place_of[*lane] = Some(place));
    let events: u64 = gathered.of_events.iter().sum();
    let host = note.origin.host.as_ref();
    TracePage {
        command: note.origin.command.clone(),
        place: host.map_or(String::new(), |host| format!("{}, Linux {}", host.node, host.kernel)),
        summary: format!("{} events in {duration:.3} s", counted(events)),
        warnings: warnings(gathered, note, lanes.len()),
        duration,
        events: event_rows(gathered, note, duration),
        from: (0..columns).map(edge).collect(),
        to: (1..=columns).map(|column| edge(column).min(duration)).collect(),
        lanes: lanes.iter().map(|lane| row(&gathered.lanes[*lane], columns, names)).collect(),
        marks: marks(gathered, &place_of),
        marks_note: match gathered.marks_left_out {
            true => format!("Events are counted in columns of {:.6} s each.", edge(1)),
            false => "Each mark is an event.".to_string(),
        },
        spans: spans(gathered, &place_of),
        spans_note: spans_note(gathered),
        pairs: gathered.pairs.iter().map(|pair| pair_row(pair, columns)).collect(),
        processes: processes(gathered, columns, names),
    }
}

/// The threads with most events, in the order of processes.
fn chosen(gathered: &Gathered) -> Vec<usize> {
    let of = |lane: &usize| &gathered.lanes[*lane];
    let mut lanes: Vec<usize> = (0..gathered.lanes.len()).collect();
    lanes.sort_by_key(|lane| Reverse(of(lane).total));
    lanes.truncate(LANES);
    lanes.sort_by_key(|lane| (of(lane).tgid, of(lane).tid));
    lanes
}

fn warnings(gathered: &Gathered, note: &TraceNote, shown: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    if note.lost() > 0 {
        warnings.push(format!(
            "{} events were lost: rates are too low, and a pair may be of two that do not belong together.",
            counted(note.lost())
        ));
    }
    if note.unwritten_total > 0 {
        warnings.push(format!(
            "The recording ends early: {} events could not be written into it.",
            counted(note.unwritten_total)
        ));
    }
    let threads = gathered.lanes.len() - shown;
    if threads > 0 || gathered.laneless > 0 {
        let all: u64 = gathered.of_events.iter().sum();
        let of_shown: u64 = chosen(gathered).iter().map(|lane| gathered.lanes[*lane].total).sum();
        warnings.push(format!(
            "The {shown} threads with most events are drawn; {} events are of others.",
            counted(all - of_shown)
        ));
    }
    if gathered.pairs_left_out > 0 {
        let left_out = counted(gathered.pairs_left_out);
        warnings.push(format!("{left_out} pairs are of kinds that are not shown."));
    }
    warnings
}

fn event_rows(gathered: &Gathered, note: &TraceNote, duration: f64) -> Vec<EventRow> {
    let is_same = note.events.len() == note.followed.len()
        && note.events.iter().zip(&note.followed).all(|(a, b)| a.name == b.event);
    let which = |followed: &FollowedNote| {
        let parts = [followed.filter.clone().map(|f| format!("if {f}")), followed.sampling.clone()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let row = |(number, event): (usize, &weigh_schema::trace::EventNote)| {
        let total = gathered.of_events.get(number).copied().unwrap_or(0);
        let followed = note.followed.get(number).filter(|_| is_same);
        EventRow {
            name: event.name.clone(),
            total,
            per_second: total as f64 / duration,
            lost: followed.map(FollowedNote::gone),
            which: followed.map(which).unwrap_or_default(),
        }
    };
    note.events.iter().enumerate().map(row).collect()
}

fn named(name: &str, number: u32) -> String {
    if name.is_empty() { number.to_string() } else { format!("{name} {number}") }
}

fn row(lane: &Lane, columns: usize, names: Names<'_>) -> LaneRow {
    LaneRow {
        tgid: lane.tgid,
        tid: lane.tid,
        label: named(&names(lane.tid), lane.tid),
        total: lane.total,
        events: lane.events.iter().map(|(event, _)| *event as usize).collect(),
        counts: lane.events.iter().map(|(_, counts)| counts.0[..columns].to_vec()).collect(),
    }
}

fn marks(gathered: &Gathered, place_of: &[Option<usize>]) -> MarkRows {
    let mut rows = MarkRows::default();
    for mark in &gathered.marks {
        let Some(lane) = place_of[mark.lane] else { continue };
        rows.lane.push(lane);
        rows.event.push((mark.event as usize).min(MOST_EVENTS));
        rows.at.push(seconds(mark.at_ns));
    }
    rows
}

fn spans(gathered: &Gathered, place_of: &[Option<usize>]) -> SpanRows {
    let mut all: Vec<_> = gathered.spans.iter().map(|Reverse(span)| *span).collect();
    all.sort_by_key(|span| (span.from_ns, span.pair));
    let mut rows = SpanRows::default();
    for span in all {
        let lane = gathered.lane_of.get(&span.tid).and_then(|lane| place_of[*lane]);
        let Some(lane) = lane else { continue };
        rows.lane.push(lane);
        rows.pair.push(span.pair);
        rows.from.push(seconds(span.from_ns));
        rows.to.push(seconds(span.from_ns + span.lasts_ns));
    }
    rows
}

fn spans_note(gathered: &Gathered) -> String {
    let (kept, all) = (gathered.spans.len() as u64, gathered.spans_total);
    match all {
        0 => String::new(),
        _ if kept == all => "Each bar below them is a pair, from the one to the other.".to_string(),
        _ => format!(
            "Each bar below them is a pair, from the one to the other: the {} that lasted longest, of {}.",
            counted(kept),
            counted(all)
        ),
    }
}

fn pair_row(pair: &PairBook, columns: usize) -> PairRow {
    let of_buckets = |of: &dyn Fn(u32) -> u64| {
        pair.times.iter().map(|(bucket, _)| seconds(of(bucket))).collect()
    };
    let (least, most) = (pair.over_time.keys().next(), pair.over_time.keys().last());
    // Doublings that nothing lasted are rows too.
    let doublings: Vec<u32> = match (least, most) {
        (Some(least), Some(most)) => (*least..=*most).rev().collect(),
        _ => Vec::new(),
    };
    let none = Columns::default();
    let heat =
        doublings.iter().map(|row| pair.over_time.get(row).unwrap_or(&none).0[..columns].to_vec());
    PairRow {
        name: pair.called.clone(),
        total: pair.total,
        mean: pair.sum_ns as f64 / 1e9 / pair.total.max(1) as f64,
        least: seconds(pair.least_ns),
        p50: seconds(pair.quantile_ns(0.5)),
        p99: seconds(pair.quantile_ns(0.99)),
        most: seconds(pair.most_ns),
        from: of_buckets(&PairHistogram::first),
        to: of_buckets(&|bucket| PairHistogram::first(bucket + 1)),
        count: pair.times.iter().map(|(_, count)| count).collect(),
        heat_from: doublings.iter().map(|power| seconds(1 << power)).collect(),
        heat: heat.collect(),
    }
}

fn processes(gathered: &Gathered, columns: usize, names: Names<'_>) -> Vec<ProcessHeatRow> {
    let mut all: BTreeMap<u32, (u64, Vec<u64>)> = BTreeMap::new();
    for lane in &gathered.lanes {
        let (total, counts) = all.entry(lane.tgid).or_insert_with(|| (0, vec![0; COLUMNS]));
        *total += lane.total;
        for (_, of_event) in &lane.events {
            counts.iter_mut().zip(&of_event.0).for_each(|(sum, n)| *sum += u64::from(*n));
        }
    }
    let mut rows: Vec<ProcessHeatRow> = all
        .into_iter()
        .map(|(tgid, (total, mut counts))| {
            counts.truncate(columns);
            ProcessHeatRow { label: named(&names(tgid), tgid), total, counts }
        })
        .collect();
    rows.sort_by_key(|row| Reverse(row.total));
    rows.truncate(PROCESSES);
    rows
}
