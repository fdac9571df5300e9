//! Spans of OpenTelemetry as regions: added up by their paths of names, from span to parent, within a process.
//!
//! Reads spans in the order in which they end, children before parents mostly; emits rows of regions. A span whose parent is
//! not there (another process's, or not exported) begins a path. Holds a bounded number of spans, names and places: the trace
//! that has been silent longest is added up first, and what finds no place is `(other)`, and counted.

use std::collections::{BTreeMap, HashMap};

use weigh_schema::Quality;
use weigh_schema::profile::OTHER_NAME;
use weigh_schema::region::span::SpanRecord;
use weigh_schema::region::{RegionKind, RegionRow};

/// How much a table holds.
#[derive(Clone, Copy, Debug)]
pub struct SpanBounds {
    /// So many spans are held until their trace is added up.
    pub spans: usize,
    /// So many names.
    pub names: usize,
    /// So many places in call trees.
    pub places: usize,
}

impl Default for SpanBounds {
    fn default() -> SpanBounds {
        SpanBounds { spans: 200_000, names: 16_384, places: 32_768 }
    }
}

/// So many spans above one another.
const DEPTH: usize = 64;
/// Paths of all rows have so many bytes at most.
const PATH_BYTES: usize = 32 << 20;

/// A trace of one process.
type TraceKey = (u32, u128);
/// A process, thread, and the place of the parent: its number, and 1; 0: none; and the name.
type PlaceKey = (u32, u32, usize, u32);

struct HeldSpan {
    id: u64,
    parent: u64,
    thread: u32,
    name: u32,
    begun_ns: u64,
    ended_ns: u64,
}

#[derive(Default)]
struct Trace {
    spans: Vec<HeldSpan>,
    /// When its last span came, by the number of spans until then.
    last: u64,
}

#[derive(Clone, Default)]
struct PlaceTimes {
    /// Names in its path.
    depth: usize,
    calls: u64,
    inclusive_ns: u64,
    exclusive_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

/// Spans of all processes of a job.
#[derive(Default)]
pub struct SpanTable {
    bounds: SpanBounds,
    names: Vec<String>,
    by_name: HashMap<String, u32>,
    traces: HashMap<TraceKey, Trace>,
    held: usize,
    taken: u64,
    places: Vec<(PlaceKey, PlaceTimes)>,
    by_key: HashMap<PlaceKey, usize>,
    lost_places: u64,
    lost_names: u64,
}

/// What a table holds in the end.
#[derive(Debug, Default, PartialEq)]
pub struct SpanRows {
    /// Parents before what is in them, by process and thread.
    pub rows: Vec<RegionRow>,
    /// Processes, and their threads, as far as they told them.
    pub processes: u64,
    /// The same of threads.
    pub threads: u64,
    /// Rows that were left out because their paths are too long.
    pub left_out: u64,
    /// Spans that found no place of their own.
    pub lost_places: u64,
    /// Spans whose names found no room.
    pub lost_names: u64,
}

impl SpanTable {
    /// One that holds so much.
    pub fn new(bounds: SpanBounds) -> SpanTable {
        SpanTable { bounds, ..SpanTable::default() }
    }

    /// Spans that have come, and those whose traces are not added up yet.
    pub fn taken_and_held(&self) -> (u64, usize) {
        (self.taken, self.held)
    }

    /// Adds up the traces that have had no span since so many had come.
    pub fn add_up_silent(&mut self, since: u64) {
        let silent = self.traces.iter().filter(|(_, trace)| trace.last <= since);
        let keys: Vec<TraceKey> = silent.map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.add_up(key));
    }

    /// Takes a span in, of that process.
    pub fn add(&mut self, process: u32, span: &SpanRecord<'_>) {
        let name = self.name(span.name);
        self.taken += 1;
        let trace = self.traces.entry((process, span.trace)).or_default();
        trace.last = self.taken;
        trace.spans.push(HeldSpan {
            id: span.id,
            parent: span.parent,
            thread: span.thread,
            name,
            begun_ns: span.begun_ns,
            ended_ns: span.ended_ns,
        });
        self.held += 1;
        if self.held > self.bounds.spans {
            self.add_up_oldest();
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        if self.names.len() >= self.bounds.names && name != OTHER_NAME {
            self.lost_names += 1;
            return self.name(OTHER_NAME);
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_string());
        self.by_name.insert(name.to_string(), number);
        number
    }

    /// A quarter of the traces: to look for the oldest at each span would take long.
    fn add_up_oldest(&mut self) {
        let mut lasts: Vec<(u64, TraceKey)> =
            self.traces.iter().map(|(k, t)| (t.last, *k)).collect();
        lasts.sort_unstable();
        lasts.truncate(lasts.len().div_ceil(4));
        lasts.into_iter().for_each(|(_, key)| self.add_up(key));
    }

    fn add_up(&mut self, key: TraceKey) {
        let Some(Trace { spans, .. }) = self.traces.remove(&key) else { return };
        self.held -= spans.len();
        let by_id: HashMap<u64, usize> = spans.iter().enumerate().map(|(i, s)| (s.id, i)).collect();
        let parent_of = |span: &HeldSpan| {
            by_id.get(&span.parent).copied().filter(|_| span.parent != 0 && span.parent != span.id)
        };
        let mut inside: Vec<Vec<(u64, u64)>> = vec![Vec::new(); spans.len()];
        for span in &spans {
            if let Some(parent) = parent_of(span) {
                inside[parent].push((span.begun_ns, span.ended_ns));
            }
        }
        let mut known: Vec<Option<usize>> = vec![None; spans.len()];
        for at in 0..spans.len() {
            // From the span upwards, to what has a place already; a circle ends at the greatest depth.
            let mut way = vec![at];
            while let Some(parent) = parent_of(&spans[way[way.len() - 1]])
                && known[way[way.len() - 1]].is_none()
                && way.len() < DEPTH
            {
                way.push(parent);
            }
            let mut above = 0;
            for step in way.into_iter().rev() {
                let place = known[step].unwrap_or_else(|| self.place(key.0, &spans[step], above));
                known[step] = Some(place);
                above = place + 1;
            }
            let span = &spans[at];
            let own = exclusive(span, &mut inside[at]);
            if let Some((_, place)) = known[at].and_then(|place| self.places.get_mut(place)) {
                place.add(span.ended_ns - span.begun_ns, own);
            }
        }
    }

    fn place(&mut self, process: u32, span: &HeldSpan, above: usize) -> usize {
        let key = (process, span.thread, above, span.name);
        if let Some(place) = self.by_key.get(&key) {
            return *place;
        }
        if self.places.len() >= self.bounds.places || self.depth(above) >= DEPTH {
            self.lost_places += 1;
            let other = self.name(OTHER_NAME);
            let key = (process, 0, 0, other);
            return self.by_key.get(&key).copied().unwrap_or_else(|| self.new_place(key));
        }
        self.new_place(key)
    }

    /// Names in the path of the place above.
    fn depth(&self, above: usize) -> usize {
        above.checked_sub(1).map_or(0, |place| self.places[place].1.depth)
    }

    fn new_place(&mut self, key: PlaceKey) -> usize {
        let depth = self.depth(key.2) + 1;
        self.places.push((key, PlaceTimes { depth, ..PlaceTimes::default() }));
        self.by_key.insert(key, self.places.len() - 1);
        self.places.len() - 1
    }

    /// All of it.
    pub fn finish(mut self) -> SpanRows {
        self.add_up_silent(self.taken);
        self.rows()
    }

    /// What is added up.
    pub fn rows(&self) -> SpanRows {
        let mut threads: Vec<(u32, u32)> = self.places.iter().map(|(k, _)| (k.0, k.1)).collect();
        threads.sort_unstable();
        threads.dedup();
        let by_process: BTreeMap<u32, u64> =
            threads.iter().map(|(process, _)| (*process, 0)).collect();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for at in 0..self.places.len() {
            let path = self.path(at);
            bytes += path.iter().map(String::len).sum::<usize>();
            if bytes <= PATH_BYTES {
                rows.push(self.row(at, path));
            }
        }
        let left_out = (self.places.len() - rows.len()) as u64;
        rows.sort_by(|a, b| (a.process, a.thread, &a.path).cmp(&(b.process, b.thread, &b.path)));
        SpanRows {
            rows,
            processes: by_process.len() as u64,
            threads: threads.len() as u64,
            left_out,
            lost_places: self.lost_places,
            lost_names: self.lost_names,
        }
    }

    fn name_of(&self, name: u32) -> String {
        self.names.get(name as usize).cloned().unwrap_or_default()
    }

    fn path(&self, at: usize) -> Vec<String> {
        let (_, _, mut above, name) = self.places[at].0;
        let mut path = vec![self.name_of(name)];
        while let Some(((_, _, next, name), _)) =
            above.checked_sub(1).and_then(|above| self.places.get(above))
        {
            path.push(self.name_of(*name));
            above = *next;
        }
        path.reverse();
        path
    }

    fn row(&self, at: usize, path: Vec<String>) -> RegionRow {
        let ((process, thread, _, name), place) = self.places[at].clone();
        let seconds = |ns: u64| ns as f64 / 1e9;
        let of_calls = |ns| (place.calls > 0).then(|| seconds(ns));
        RegionRow {
            name: self.name_of(name),
            path,
            kind: RegionKind::Region,
            process,
            thread,
            calls: place.calls,
            inclusive_seconds: seconds(place.inclusive_ns),
            exclusive_seconds: seconds(place.exclusive_ns),
            min_seconds: of_calls(place.min_ns),
            max_seconds: of_calls(place.max_ns),
            quality: Quality::Exact,
            ..RegionRow::default()
        }
    }
}

impl PlaceTimes {
    fn add(&mut self, ns: u64, own_ns: u64) {
        self.min_ns = if self.calls == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.calls += 1;
        self.inclusive_ns = self.inclusive_ns.saturating_add(ns);
        self.exclusive_ns = self.exclusive_ns.saturating_add(own_ns);
    }
}

/// What of a span's time no span inside of it has. Those may overlap, and go on after its end.
fn exclusive(span: &HeldSpan, inside: &mut [(u64, u64)]) -> u64 {
    inside.sort_unstable();
    let (mut own, mut at) = (0, span.begun_ns);
    for (begun, ended) in inside.iter() {
        let (begun, ended) = ((*begun).clamp(at, span.ended_ns), (*ended).clamp(at, span.ended_ns));
        own += begun - at;
        at = ended;
    }
    own + (span.ended_ns - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: u64, parent: u64, name: &str, begun_ns: u64, ended_ns: u64) -> SpanRecord<'_> {
        SpanRecord { trace: 7, id, parent, name, begun_ns, ended_ns, ..SpanRecord::default() }
    }

    fn rows(spans: &[SpanRecord<'_>]) -> Vec<(Vec<String>, u64, f64, f64)> {
        let mut table = SpanTable::default();
        spans.iter().for_each(|span| table.add(5, span));
        let made = table.finish();
        let row = |row: RegionRow| {
            (row.path, row.calls, row.inclusive_seconds * 1e9, row.exclusive_seconds * 1e9)
        };
        made.rows.into_iter().map(row).collect()
    }

    fn path(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn children_that_overlap_are_taken_off_their_parent_once() {
        let spans = [
            span(2, 1, "load", 100, 400),
            span(3, 1, "load", 300, 600),
            span(4, 3, "read", 350, 360),
            span(5, 1, "later", 900, 1500),
            span(1, 0, "main", 0, 1000),
        ];
        let expected = [
            (path(&["main"]), 1, 1000.0, 400.0),
            (path(&["main", "later"]), 1, 600.0, 600.0),
            (path(&["main", "load"]), 2, 600.0, 590.0),
            (path(&["main", "load", "read"]), 1, 10.0, 10.0),
        ];
        let found = rows(&spans);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((&found.0, found.1), (&expected.0, expected.1));
            assert!((found.2 - expected.2).abs() < 1e-3 && (found.3 - expected.3).abs() < 1e-3);
        }
    }

    #[test]
    fn a_span_whose_parent_is_elsewhere_begins_a_path_and_a_circle_ends() {
        let found = rows(&[span(2, 99, "handle", 5, 8)]);
        assert_eq!(found[0].0, path(&["handle"]));
        let found = rows(&[span(1, 2, "a", 5, 8), span(2, 1, "b", 5, 8)]);
        let calls: u64 = found.iter().map(|row| row.1).sum();
        assert_eq!(calls, 2, "{found:?}");
    }

    #[test]
    fn a_chain_that_is_told_from_its_top_has_a_bounded_depth() {
        let mut table = SpanTable::default();
        (1..=5000).for_each(|id| table.add(5, &span(id, id - 1, "deeper", 1, 10_000 - id)));
        let made = table.finish();
        assert!(made.rows.iter().all(|row| row.path.len() <= DEPTH), "{}", made.rows.len());
        assert_eq!(made.rows.iter().map(|row| row.calls).sum::<u64>(), 5000);
        assert!(made.lost_places > 0);
    }

    #[test]
    fn what_is_silent_is_added_up_and_what_comes_later_counts_too() {
        let mut table = SpanTable::default();
        let of = |trace, span: SpanRecord<'static>| SpanRecord { trace, ..span };
        table.add(5, &of(1, span(2, 1, "inner", 10, 17)));
        table.add(5, &of(2, span(9, 0, "other", 10, 13)));
        table.add_up_silent(1);
        assert_eq!(table.taken_and_held(), (2, 1));
        let calls = |table: &SpanTable| table.rows().rows.iter().map(|row| row.calls).sum::<u64>();
        assert_eq!(calls(&table), 1);
        table.add(5, &of(1, span(1, 0, "outer", 0, 30)));
        table.add_up_silent(3);
        assert_eq!((calls(&table), table.taken_and_held()), (3, (3, 0)));
        assert_eq!(table.finish().rows.len(), 3);
    }

    #[test]
    fn more_than_is_held_is_added_up_and_names_are_bounded() {
        let mut table = SpanTable::default();
        let count = SpanBounds::default().spans as u64 + 10;
        for id in 1..=count {
            let name = format!("name {}", id % (SpanBounds::default().names as u64 + 7));
            table.add(5, &SpanRecord { trace: u128::from(id % 50), ..span(id, 0, &name, 1, 2) });
        }
        assert!(table.held <= SpanBounds::default().spans);
        let made = table.finish();
        assert_eq!(made.rows.iter().map(|row| row.calls).sum::<u64>(), count);
        assert_eq!(made.rows.len(), SpanBounds::default().names + 1);
        assert!(made.lost_names > 0);
    }
}
