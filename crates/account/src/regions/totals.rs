//! What all profiles of a job hold together.

use std::collections::BTreeMap;

use weigh_schema::profile::NodeKind;
use weigh_schema::region::snapshot::{ProfileLosses, ProfileNode, ProfileSnapshot};
use weigh_schema::region::{RegionCounter, RegionKind, RegionRow, RegionsFound, TOP, UNBOUND};
use weigh_schema::{Quality, byte_text};

use super::flat::{FlatRegions, add};

/// Counters, gauges and events of so many names are told apart.
const COUNTERS: usize = 4_096;

/// Adds up what processes tell.
#[derive(Clone, Debug, Default)]
pub struct RegionTotals {
    found: RegionsFound,
    flat: FlatRegions,
    counters: BTreeMap<(u64, String), RegionCounter>,
}

impl RegionTotals {
    /// Whether there is anything to tell.
    pub fn is_empty(&self) -> bool {
        let found = &self.found;
        found.processes_total + found.executed_total == 0 && found.refused.is_empty()
    }

    /// A process's profile as it was in the end. Its rows are told one by one, by [`RegionTotals::row`].
    pub fn process(&mut self, snapshot: &ProfileSnapshot) {
        self.found.processes_total += 1;
        self.found.cut_short_total += u64::from(!snapshot.has_ended);
        self.profile(snapshot);
    }

    /// The same where the process has executed another program since: that ended the profile, and was no cut. The
    /// process counts with the profile of that program, or by [`RegionTotals::without_another`].
    pub fn executed(&mut self, snapshot: &ProfileSnapshot) {
        self.found.executed_total += 1;
        self.profile(snapshot);
    }

    /// So many processes have executed a program that shares no profile.
    pub fn without_another(&mut self, processes: u64) {
        self.found.processes_total += processes;
    }

    fn profile(&mut self, snapshot: &ProfileSnapshot) {
        let found = &mut self.found;
        let threads = snapshot.lost.threads.saturating_add(snapshot.threads.len() as u64);
        add(&mut found.threads_total, threads);
        add(&mut found.publishes_total, snapshot.epoch.saturating_sub(1));
        for (key, value) in &snapshot.metadata {
            self.metadata(byte_text::shown(key), byte_text::shown(value));
        }
        for node in snapshot.nodes.iter().flatten() {
            self.counter(snapshot, node);
        }
        self.lost(&snapshot.lost);
    }

    /// Processes that told of spans, with their threads. Their rows are told one by one, too.
    pub fn spans(&mut self, processes: u64, threads: u64) {
        self.found.processes_total += processes;
        add(&mut self.found.threads_total, threads);
    }

    /// A row.
    pub fn row(&mut self, row: &RegionRow) {
        self.flat.add(row);
        if row.kind != RegionKind::Thread {
            self.found.rows_total += 1;
            add(&mut self.found.calls_total, row.calls);
            add(&mut self.found.unbalanced_calls_total, row.unbalanced_calls);
            self.found.open_calls_total += row.open_calls;
            self.kernel_costs(row);
        }
    }

    fn kernel_costs(&mut self, row: &RegionRow) {
        let reason = match &row.kernel_costs {
            None => Some(UNBOUND),
            Some(costs) if costs.quality == Quality::Unavailable => costs.reason.as_deref(),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            *self.found.kernel_costs_unavailable.entry(reason.to_string()).or_default() += 1;
        }
    }

    /// So many publishes were read.
    pub fn publishes_read(&mut self, count: u64) {
        self.found.publishes_read_total += count;
    }

    /// A profile was refused.
    pub fn refused(&mut self, why: &str) {
        *self.found.refused.entry(why.to_string()).or_default() += 1;
    }

    /// Something was lost, of which no profile knows.
    pub fn lose(&mut self, what: &str, count: u64) {
        if count > 0 {
            add(self.found.lost.entry(what.to_string()).or_default(), count);
        }
    }

    /// What profiles did not hold. What is counted from read to read is told at each read.
    pub fn lost_at_read(&mut self, lost: &ProfileLosses) {
        self.lose("phases", lost.phases);
        self.lose("events", lost.events);
    }

    fn lost(&mut self, lost: &ProfileLosses) {
        self.lose("places", lost.nodes);
        self.lose("names", lost.names);
        self.lose("threads", lost.threads);
        self.lose("deep_calls", lost.frames);
        self.lose("names_cut", lost.names_cut);
        self.lose("damaged_records", lost.damaged);
        self.lost_at_read(lost);
    }

    fn metadata(&mut self, key: String, value: String) {
        match self.found.metadata.get(&key) {
            None => drop(self.found.metadata.insert(key, value)),
            Some(known) if *known != value && !self.found.metadata_differs.contains(&key) => {
                self.found.metadata_differs.push(key);
            }
            Some(_) => {}
        }
    }

    fn counter(&mut self, snapshot: &ProfileSnapshot, node: &ProfileNode) {
        let Some(kind) = counter_kind(node.kind).filter(|_| node.numbers.calls > 0) else { return };
        let name = snapshot.names.get(node.name).map_or("", String::as_str);
        let key = (node.kind as u64, name.to_string());
        if !self.counters.contains_key(&key) && self.counters.len() >= COUNTERS {
            return self.lose("counters", 1);
        }
        let values = CounterValues::new(node);
        let counter = self.counters.entry(key).or_insert_with(|| RegionCounter {
            name: byte_text::shown(name),
            name_base64: byte_text::base64(name),
            kind: kind.to_string(),
            value: 0.0,
            samples: 0,
            min: values.min,
            max: values.max,
        });
        counter.value = match node.kind {
            NodeKind::Counter => counter.value + values.value,
            _ => values.value,
        };
        add(&mut counter.samples, node.numbers.calls);
        counter.min = counter.min.min(values.min);
        counter.max = counter.max.max(values.max);
    }

    /// All of it.
    pub fn finish(self) -> RegionsFound {
        self.finish_with(TOP).0
    }

    /// All of it, with so many regions by name, and how many there are beside these.
    pub fn finish_with(self, most: usize) -> (RegionsFound, u64) {
        let ranks_total = self.flat.ranks();
        let mut top = self.flat.finish();
        let left_out = top.len().saturating_sub(most) as u64;
        top.truncate(most);
        let counters = self.counters.into_values().collect();
        (RegionsFound { ranks_total, top, counters, ..self.found }, left_out)
    }
}

/// What a counter is called in files; none of what is none.
fn counter_kind(kind: NodeKind) -> Option<&'static str> {
    match kind {
        NodeKind::Counter => Some("counter"),
        NodeKind::Gauge => Some("gauge"),
        NodeKind::Event => Some("event"),
        _ => None,
    }
}

/// A counter's sum, or the last value of a gauge or event, with the least and the greatest.
struct CounterValues {
    value: f64,
    min: f64,
    max: f64,
}

impl CounterValues {
    fn new(node: &ProfileNode) -> CounterValues {
        let numbers = &node.numbers;
        let whole = |word: u64| word.cast_signed() as f64;
        let real = |word: u64| Some(f64::from_bits(word)).filter(|x| x.is_finite()).unwrap_or(0.0);
        let (value, as_number): (u64, fn(u64) -> f64) = match node.kind {
            NodeKind::Counter => (numbers.inclusive, whole),
            _ => (numbers.exclusive, real),
        };
        CounterValues {
            value: as_number(value),
            min: as_number(numbers.min),
            max: as_number(numbers.max),
        }
    }
}

/// The series of a snapshot's counters and gauges, each over all threads: `region:NAME`. At most so many.
pub fn counter_series(snapshot: &ProfileSnapshot, most: usize) -> BTreeMap<String, f64> {
    let mut series = BTreeMap::new();
    for node in snapshot.nodes.iter().flatten() {
        if !matches!(node.kind, NodeKind::Counter | NodeKind::Gauge) || node.numbers.calls == 0 {
            continue;
        }
        let name = snapshot.names.get(node.name).map_or("", String::as_str);
        let name = format!("region:{}", byte_text::shown(name));
        if series.len() < most || series.contains_key(&name) {
            let value = CounterValues::new(node).value;
            let known: &mut f64 = series.entry(name).or_default();
            *known = if node.kind == NodeKind::Counter { *known + value } else { value };
        }
    }
    series
}
