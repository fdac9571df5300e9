//! Regions by name, wherever they were called.

use std::collections::{BTreeMap, BTreeSet};

use weigh_schema::Quality;
use weigh_schema::region::{FlatRegion, KernelCosts, RankImbalance, RegionKind, RegionRow};

/// A name with its bytes, where they are no UTF-8.
type Name = (String, Option<String>);

#[derive(Clone, Debug, Default)]
struct Sums {
    flat: FlatRegion,
    variance: f64,
    by_thread: BTreeMap<(u32, u32), f64>,
    by_rank: BTreeMap<u32, f64>,
}

/// Adds rows up by name.
#[derive(Clone, Debug, Default)]
pub struct FlatRegions {
    names: BTreeMap<Name, Sums>,
    ranks: BTreeSet<u32>,
}

impl FlatRegions {
    /// Takes a row in.
    pub fn add(&mut self, row: &RegionRow) {
        self.ranks.extend(row.rank);
        if row.kind == RegionKind::Thread {
            return;
        }
        let name = (row.name.clone(), row.name_base64.clone());
        self.names.entry(name).or_default().add(row);
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u64 {
        self.ranks.len() as u64
    }

    /// The regions, those first that took most time by themselves.
    pub fn finish(self) -> Vec<FlatRegion> {
        let ranks = self.ranks;
        let flat = self.names.into_iter().map(|(name, sums)| sums.finish(name, &ranks));
        let mut flat: Vec<FlatRegion> = flat.collect();
        flat.sort_by(|a, b| b.exclusive_seconds.total_cmp(&a.exclusive_seconds));
        flat
    }
}

impl Sums {
    fn add(&mut self, row: &RegionRow) {
        let flat = &mut self.flat;
        add(&mut flat.calls, row.calls);
        flat.exclusive_seconds += row.exclusive_seconds;
        add(&mut flat.unbalanced_calls, row.unbalanced_calls);
        add_costs(&mut flat.kernel_costs, &row.kernel_costs);
        flat.open_calls += row.open_calls;
        flat.min_seconds = of_both(flat.min_seconds, row.min_seconds, f64::min);
        flat.max_seconds = of_both(flat.max_seconds, row.max_seconds, f64::max);
        let is_first = self.by_thread.is_empty();
        flat.quality = if is_first { row.quality } else { worse(flat.quality, row.quality) };
        // A call within another of the same name is in that one's time.
        let time = if is_inner(row) { 0.0 } else { row.inclusive_seconds };
        if !is_inner(row) {
            self.variance += row.error_seconds.unwrap_or(0.0).powi(2);
        }
        flat.inclusive_seconds += time;
        *self.by_thread.entry((row.process, row.thread)).or_default() += time;
        if let Some(rank) = row.rank {
            *self.by_rank.entry(rank).or_default() += time;
        }
    }

    fn finish(self, (name, name_base64): Name, ranks: &BTreeSet<u32>) -> FlatRegion {
        FlatRegion {
            name,
            name_base64,
            threads: self.by_thread.len() as u64,
            longest_thread_seconds: self.by_thread.values().copied().fold(0.0, f64::max),
            error_seconds: (self.variance > 0.0).then(|| self.variance.sqrt()),
            ranks: imbalance(&self.by_rank, ranks),
            ..self.flat
        }
    }
}

/// Where there are several ranks; one that never called it counts with 0.
fn imbalance(by_rank: &BTreeMap<u32, f64>, ranks: &BTreeSet<u32>) -> Option<RankImbalance> {
    if ranks.len() < 2 {
        return None;
    }
    let (rank, most) = by_rank.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let mean = by_rank.values().sum::<f64>() / ranks.len() as f64;
    Some(RankImbalance {
        ranks: ranks.len() as u64,
        mean_seconds: mean,
        max_seconds: *most,
        max_rank: *rank,
        imbalance_ratio: if mean > 0.0 { most / mean } else { 1.0 },
    })
}

/// Whether it is called, at some depth, by itself.
fn is_inner(row: &RegionRow) -> bool {
    let above = |path: &[String]| match path.split_last() {
        Some((last, above)) => above.contains(last),
        None => false,
    };
    above(if row.path_base64.is_empty() { &row.path } else { &row.path_base64 })
}

fn of_both(a: Option<f64>, b: Option<f64>, of: fn(f64, f64) -> f64) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(of(a, b)),
        (a, b) => a.or(b),
    }
}

fn worse(a: Quality, b: Quality) -> Quality {
    let rank = |quality| match quality {
        Quality::Exact => 0,
        Quality::Sampled => 1,
        Quality::Estimated => 2,
        Quality::Unavailable => 3,
    };
    if rank(b) > rank(a) { b } else { a }
}

/// Where one of the two is not there, no account was bound to its region.
pub(super) fn add_costs(sum: &mut Option<KernelCosts>, more: &Option<KernelCosts>) {
    match (sum, more) {
        (Some(sum), Some(more)) => sum.add(more),
        (sum @ None, Some(more)) => *sum = Some(more.clone()),
        (_, None) => {}
    }
}

/// Programs may write any number.
pub(super) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}
