//! Regions in the shape that the page wants: the call tree and phases by column, each name once.
//!
//! Reads the lines of the tree, the flat list, phases and samples of a program's own counters; emits at most so many of
//! each as a page can carry, and says how many there are.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use weigh_schema::Quality;
use weigh_schema::recording::SampleRow;
use weigh_schema::region::{
    FlatRegion, PhaseRow, RegionCounter, RegionKind, RegionRow, RegionsFound,
};

use super::columns::{Texts, seconds_since};
use super::series::{SeriesRows, SeriesSamples};
use crate::regions::{RegionLine, added_up, cost_words, losses};

/// A page carries so many places of the call tree, regions by name, and phases.
const ROWS: usize = 10_000;
/// So many series of counters, each of one process.
const COUNTER_SERIES: usize = 64;
/// Of a job that runs, or was cut short.
const SO_FAR: &str =
    "as far as they were read: of processes that run now and then, of others at their end";
/// The metric of a program's own counter begins so.
const PREFIX: &str = "region:";

/// All that the page shows of regions.
#[derive(Clone, Debug, Serialize)]
pub struct RegionsPage {
    /// Of how many processes and threads the numbers are.
    pub scope: String,
    /// Names, each once; other columns point here.
    pub texts: Vec<String>,
    /// The call tree.
    pub tree: RegionTree,
    /// Regions by name, those first that took most time by themselves.
    pub flat: Vec<FlatRegion>,
    /// How many there are in all.
    pub flat_total: u64,
    /// Phases over time.
    pub phases: PhaseBands,
    /// Counters, gauges and events by name.
    pub counters: Vec<RegionCounter>,
    /// Their samples, of each process.
    pub counter_series: Vec<CounterSeries>,
    /// Series that are not on the page.
    pub counter_series_left_out: u64,
    /// What programs said of themselves.
    pub metadata: BTreeMap<String, String>,
    /// The keys of which processes said different things.
    pub metadata_differs: Vec<String>,
    /// What is not whole, and what was lost.
    pub notes: Vec<String>,
}

/// The call tree by column, parents before what is in them; over all threads.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RegionTree {
    /// Places that are not on the page.
    pub left_out: u64,
    /// How deep each lies, from 0.
    pub depth: Vec<u32>,
    /// Its name, as an index into `texts`.
    pub name: Vec<u32>,
    /// What it is.
    pub kind: Vec<RegionKind>,
    /// Threads that it is added up over.
    pub threads: Vec<u64>,
    /// Calls that have ended.
    pub calls: Vec<u64>,
    /// Their time.
    pub inclusive: Vec<f64>,
    /// The same without that of regions inside.
    pub exclusive: Vec<f64>,
    /// The standard error of the inclusive time; null where all calls were timed.
    pub error: Vec<Option<f64>>,
    /// The shortest call; null where none has ended.
    pub least: Vec<Option<f64>>,
    /// The longest.
    pub most: Vec<Option<f64>>,
    /// Calls that were open at the end.
    pub open_calls: Vec<u64>,
    /// Their time until then.
    pub open: Vec<f64>,
    /// Calls that were not ended by themselves.
    pub unbalanced: Vec<u64>,
    /// How far the times can be trusted.
    pub quality: Vec<Quality>,
    /// What system calls cost in the kernel, of those that have an account of them.
    pub kernel_costs: Vec<KernelCostsRow>,
}

/// What the system calls of a place in the call tree cost, in words.
#[derive(Clone, Debug, Serialize)]
pub struct KernelCostsRow {
    /// The place's row.
    pub row: u32,
    /// How far it can be trusted.
    pub quality: Quality,
    /// The greatest of it; or why it is not known, or not exact.
    pub words: Vec<String>,
}

/// Phases by column, in the order of their begin.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PhaseBands {
    /// How many have ended.
    pub total: u64,
    /// How many are in no band.
    pub left_out: u64,
    /// The name, as an index into `texts`.
    pub name: Vec<u32>,
    /// The process.
    pub process: Vec<u32>,
    /// The thread.
    pub thread: Vec<u32>,
    /// The first iteration, as the program numbers them: they may be greater than a page can count.
    pub first: Vec<String>,
    /// The last one.
    pub last: Vec<String>,
    /// How many phases one band stands for: 1, where there are not too many.
    pub phases: Vec<u32>,
    /// Begin, in seconds since the job's start.
    pub start: Vec<f64>,
    /// End, the same.
    pub end: Vec<f64>,
}

/// The samples of a counter, gauge or event of one process.
#[derive(Clone, Debug, Serialize)]
pub struct CounterSeries {
    /// Its name.
    pub name: String,
    /// The process.
    pub process: u32,
    /// The samples.
    pub rows: SeriesRows,
}

/// Takes what a recording holds of regions, in bounded memory.
pub struct RegionsBuilder {
    start_ns: i64,
    texts: Texts,
    lanes: HashMap<[u32; 3], u32>,
    bands: Vec<Band>,
    phases_total: u64,
    left_out: u64,
    series: BTreeMap<(String, u32), SeriesSamples>,
    series_left_out: std::collections::BTreeSet<(String, u32)>,
}

/// Some phases of one name and thread that follow each other.
struct Band {
    lane: u32,
    place: [u32; 3],
    first: u64,
    last: u64,
    phases: u32,
    start_ns: i64,
    end_ns: i64,
}

impl RegionsBuilder {
    /// Of a job that began then: nanoseconds since the Unix epoch.
    pub fn new(start_ns: i64) -> RegionsBuilder {
        RegionsBuilder {
            start_ns,
            texts: Texts::default(),
            lanes: HashMap::new(),
            bands: Vec::new(),
            phases_total: 0,
            left_out: 0,
            series: BTreeMap::new(),
            series_left_out: std::collections::BTreeSet::new(),
        }
    }

    /// Takes a phase in.
    pub fn phase(&mut self, row: &PhaseRow) {
        let place = [self.texts.add(named(&row.name)), row.process, row.thread];
        let next = self.lanes.len() as u32;
        let lane = *self.lanes.entry(place).or_insert(next);
        self.phases_total += 1;
        self.bands.push(Band {
            lane,
            place,
            first: row.iteration,
            last: row.iteration,
            phases: 1,
            start_ns: row.started_ns,
            end_ns: row.ended_ns.max(row.started_ns),
        });
        if self.bands.len() >= 2 * ROWS {
            self.merge_bands();
        }
    }

    /// Joins each two neighbours of a thread; where there are too many threads for that, what came last is left out.
    fn merge_bands(&mut self) {
        let mut open: HashMap<u32, usize> = HashMap::new();
        let mut merged: Vec<Band> = Vec::with_capacity(self.bands.len());
        for band in self.bands.drain(..) {
            match open.remove(&band.lane).and_then(|place| merged.get_mut(place)) {
                Some(first) => first.join(&band),
                None => {
                    open.insert(band.lane, merged.len());
                    merged.push(band);
                }
            }
        }
        for band in merged.drain(merged.len().min(ROWS + ROWS / 2)..) {
            self.left_out += u64::from(band.phases);
        }
        self.bands = merged;
    }

    /// Takes a sample in, if it is of a program's own counter.
    pub fn sample(&mut self, row: &SampleRow) {
        let process = row.scope.strip_prefix("process:").and_then(|pid| pid.parse().ok());
        let (Some(name), Some(process)) = (row.metric.strip_prefix(PREFIX), process) else {
            return;
        };
        let key = (name.to_string(), process);
        if self.series.len() >= COUNTER_SERIES && !self.series.contains_key(&key) {
            self.series_left_out.insert(key);
            return;
        }
        let at = seconds_since(self.start_ns, row.time_ns);
        self.series.entry(key).or_default().push(at, row.value);
    }

    /// The page's part, where anything was told. `lines` are those of the tree over all threads.
    pub fn finish(
        mut self,
        found: Option<&RegionsFound>,
        lines: &[RegionLine<'_>],
        mut flat: Vec<FlatRegion>,
    ) -> Option<RegionsPage> {
        if found.is_none() && lines.is_empty() && self.bands.is_empty() {
            return None;
        }
        let empty = RegionsFound::default();
        let found_here = found.unwrap_or(&empty);
        let tree = tree(&mut self.texts, lines);
        let phases = self.bands();
        let flat_total = flat.len() as u64;
        flat.truncate(ROWS);
        let counter_series = self.series.into_iter().map(|((name, process), samples)| {
            CounterSeries { name, process, rows: samples.finish() }
        });
        Some(RegionsPage {
            scope: found.map_or_else(|| SO_FAR.to_string(), added_up),
            texts: self.texts.into_list(),
            tree,
            flat,
            flat_total,
            phases,
            counters: found_here.counters.clone(),
            counter_series: counter_series.collect(),
            counter_series_left_out: self.series_left_out.len() as u64,
            metadata: found_here.metadata.clone(),
            metadata_differs: found_here.metadata_differs.clone(),
            notes: notes(found),
        })
    }

    fn bands(&mut self) -> PhaseBands {
        while self.bands.len() > ROWS {
            let before = self.bands.len();
            self.merge_bands();
            if self.bands.len() == before {
                for band in self.bands.drain(ROWS..) {
                    self.left_out += u64::from(band.phases);
                }
            }
        }
        let mut bands = std::mem::take(&mut self.bands);
        bands.sort_by_key(|band| (band.start_ns, std::cmp::Reverse(band.end_ns)));
        let mut out = PhaseBands {
            total: self.phases_total,
            left_out: self.left_out,
            ..PhaseBands::default()
        };
        for band in bands {
            out.push(&band, self.start_ns);
        }
        out
    }
}

impl Band {
    fn join(&mut self, next: &Band) {
        self.last = next.last;
        self.phases = self.phases.saturating_add(next.phases);
        self.start_ns = self.start_ns.min(next.start_ns);
        self.end_ns = self.end_ns.max(next.end_ns);
    }
}

impl PhaseBands {
    fn push(&mut self, band: &Band, start_ns: i64) {
        let [name, process, thread] = band.place;
        self.name.push(name);
        self.process.push(process);
        self.thread.push(thread);
        self.first.push(band.first.to_string());
        self.last.push(band.last.to_string());
        self.phases.push(band.phases);
        self.start.push(seconds_since(start_ns, band.start_ns));
        self.end.push(seconds_since(start_ns, band.end_ns));
    }
}

fn named(name: &str) -> &str {
    if name.is_empty() { "(no name)" } else { name }
}

/// What is not whole. Of a recording that was cut short the totals are not known.
fn notes(found: Option<&RegionsFound>) -> Vec<String> {
    let Some(found) = found else {
        return vec![
            "the recording has no end: of processes that had not ended it holds what was read last"
                .into(),
        ];
    };
    let mut notes = losses(found);
    let (told, read) = (found.publishes_total, found.publishes_read_total);
    if read < told {
        notes.push(format!(
            "{told} publishes, of which {read} were read: others took the place of the rest before that"
        ));
    }
    notes
}

/// A line's time: of calls that have ended, and of those that are open.
fn time(row: &RegionRow) -> f64 {
    row.inclusive_seconds + row.open_seconds.unwrap_or(0.0)
}

/// The least time of a line on the page: of too many lines those that took most stay.
fn least_time(lines: &[RegionLine<'_>]) -> f64 {
    let mut times: Vec<f64> = lines.iter().map(|line| time(line.row)).collect();
    if times.len() <= ROWS {
        return 0.0;
    }
    times.sort_by(|a, b| b.total_cmp(a));
    times[ROWS - 1]
}

fn tree(texts: &mut Texts, lines: &[RegionLine<'_>]) -> RegionTree {
    let least_depth = lines.iter().map(|line| line.depth).min().unwrap_or(0);
    let least = least_time(lines);
    let mut out = RegionTree::default();
    // Below a place that is left out nothing has a parent.
    let mut left_out_below: Option<usize> = None;
    for line in lines {
        let is_below = left_out_below.is_some_and(|depth| line.depth > depth);
        if is_below || time(line.row) < least || out.depth.len() >= ROWS {
            if !is_below {
                left_out_below = Some(line.depth);
            }
            out.left_out += 1;
            continue;
        }
        left_out_below = None;
        out.push(texts, line, (line.depth - least_depth) as u32);
    }
    out
}

impl RegionTree {
    fn push(&mut self, texts: &mut Texts, line: &RegionLine<'_>, depth: u32) {
        let row = line.row;
        self.depth.push(depth);
        self.name.push(texts.add(named(&row.name)));
        self.kind.push(row.kind);
        self.threads.push(line.threads);
        self.calls.push(row.calls);
        self.inclusive.push(row.inclusive_seconds);
        self.exclusive.push(row.exclusive_seconds);
        self.error.push(row.error_seconds);
        self.least.push(row.min_seconds);
        self.most.push(row.max_seconds);
        self.open_calls.push(row.open_calls);
        self.open.push(row.open_seconds.unwrap_or(0.0));
        self.unbalanced.push(row.unbalanced_calls);
        if let Some(costs) = &row.kernel_costs {
            let (row, words) = (self.quality.len() as u32, cost_words(costs));
            self.kernel_costs.push(KernelCostsRow { row, quality: costs.quality, words });
        }
        self.quality.push(row.quality);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, thread: u32, iteration: u64) -> PhaseRow {
        let at = iteration as i64 * 1_000_000;
        PhaseRow {
            name: name.into(),
            process: 7,
            thread,
            iteration,
            started_ns: at,
            ended_ns: at + 600_000,
            ..PhaseRow::default()
        }
    }

    #[test]
    fn each_phase_is_a_band_while_they_are_few() {
        let mut builder = RegionsBuilder::new(0);
        (0..41).for_each(|i| builder.phase(&phase("iteration", 7, i)));
        let page = builder.finish(None, &[], Vec::new()).unwrap();
        let bands = page.phases;
        assert_eq!((bands.total, bands.left_out, bands.name.len()), (41, 0, 41));
        assert_eq!((bands.first[40].as_str(), bands.last[40].as_str()), ("40", "40"));
        assert_eq!((bands.start[40], bands.end[40]), (0.04, 0.0406));
    }

    #[test]
    fn of_too_many_phases_neighbours_share_a_band_and_none_is_lost() {
        let mut builder = RegionsBuilder::new(0);
        for i in 0..50_001 {
            builder.phase(&phase("iteration", 7, i));
            builder.phase(&phase("solve", 8, i));
        }
        let bands = builder.finish(None, &[], Vec::new()).unwrap().phases;
        assert!((2_000..=ROWS).contains(&bands.name.len()), "{}", bands.name.len());
        let phases: u64 = bands.phases.iter().map(|n| u64::from(*n)).sum();
        assert_eq!((bands.total, phases, bands.left_out), (100_002, 100_002, 0));
        assert_eq!((bands.first[0].as_str(), bands.end.last()), ("0", Some(&50.0006)));
    }

    #[test]
    fn of_more_threads_than_bands_the_last_are_left_out_and_counted() {
        let mut builder = RegionsBuilder::new(0);
        (0..30_000).for_each(|i| builder.phase(&phase("a", i, u64::from(i))));
        let bands = builder.finish(None, &[], Vec::new()).unwrap().phases;
        let phases: u64 = bands.phases.iter().map(|n| u64::from(*n)).sum();
        assert_eq!((bands.name.len(), phases + bands.left_out), (ROWS, 30_000));
    }

    #[test]
    fn below_what_is_left_out_nothing_hangs_in_the_air() {
        let rows: Vec<RegionRow> = (0..3 * ROWS)
            .map(|i| RegionRow { inclusive_seconds: (i % 7) as f64, ..RegionRow::default() })
            .collect();
        let lines: Vec<RegionLine<'_>> = rows
            .iter()
            .enumerate()
            .map(|(i, row)| RegionLine { depth: 1 + i % 3, row, threads: 1 })
            .collect();
        let tree = tree(&mut Texts::default(), &lines);
        assert!(tree.depth.len() <= ROWS);
        assert_eq!(tree.depth.len() as u64 + tree.left_out, rows.len() as u64);
        let mut before = None;
        for depth in tree.depth {
            assert!(before.map_or(depth == 0, |before: u32| depth <= before + 1));
            before = Some(depth);
        }
    }

    #[test]
    fn nothing_told_is_nothing_on_the_page() {
        assert!(RegionsBuilder::new(0).finish(None, &[], Vec::new()).is_none());
    }
}
