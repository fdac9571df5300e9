//! Call trees for people: rows of the same path added up, over threads or in each.

use std::collections::BTreeMap;

use weigh_schema::Quality;
use weigh_schema::region::{RegionKind, RegionRow};

use super::flat::{add, add_costs};

/// One line of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeLine {
    /// How deep it lies: 1 for an outermost region, 0 for a thread.
    pub depth: usize,
    /// The sums; process and thread are those of its first row.
    pub row: RegionRow,
    /// Threads that it was added up over.
    pub threads: u64,
}

#[derive(Debug, Default)]
struct Branch {
    row: Option<RegionRow>,
    variance: f64,
    threads: u64,
    children: BTreeMap<String, Branch>,
}

/// Adds rows up by path: in each thread, or over all of them. What took most time comes first.
pub fn region_tree(rows: &[RegionRow], by_thread: bool) -> Vec<TreeLine> {
    let mut tree = RegionTreeSum::new(by_thread);
    rows.iter().for_each(|row| tree.add(row));
    tree.finish()
}

/// A call tree that rows are added to one by one: it holds each path once.
#[derive(Debug, Default)]
pub struct RegionTreeSum {
    by_thread: bool,
    roots: BTreeMap<(u32, u32), Branch>,
}

impl RegionTreeSum {
    /// Of each thread, or over all of them.
    pub fn new(by_thread: bool) -> RegionTreeSum {
        RegionTreeSum { by_thread, roots: BTreeMap::new() }
    }

    /// Takes a row in.
    pub fn add(&mut self, row: &RegionRow) {
        let root = if self.by_thread { (row.process, row.thread) } else { (0, 0) };
        let names = if row.path_base64.is_empty() { &row.path } else { &row.path_base64 };
        let mut branch = self.roots.entry(root).or_default();
        for name in names {
            branch = branch.children.entry(name.clone()).or_default();
        }
        branch.add(row);
    }

    /// The lines, parents before what is in them; what took most time comes first.
    pub fn finish(self) -> Vec<TreeLine> {
        let mut lines = Vec::new();
        for root in self.roots.into_values() {
            root.emit(0, &mut lines);
        }
        lines.retain(|line| self.by_thread || line.row.kind != RegionKind::Thread);
        lines
    }
}

impl Branch {
    fn add(&mut self, row: &RegionRow) {
        self.threads += 1;
        self.variance += row.error_seconds.unwrap_or(0.0).powi(2);
        let Some(sum) = &mut self.row else {
            self.row = Some(row.clone());
            return;
        };
        add(&mut sum.calls, row.calls);
        sum.inclusive_seconds += row.inclusive_seconds;
        sum.exclusive_seconds += row.exclusive_seconds;
        add(&mut sum.unbalanced_calls, row.unbalanced_calls);
        sum.open_calls += row.open_calls;
        add_costs(&mut sum.kernel_costs, &row.kernel_costs);
        let both = |a: Option<f64>, b: Option<f64>, of: fn(f64, f64) -> f64| match (a, b) {
            (Some(a), Some(b)) => Some(of(a, b)),
            (a, b) => a.or(b),
        };
        sum.open_seconds = both(sum.open_seconds, row.open_seconds, |a, b| a + b);
        sum.min_seconds = both(sum.min_seconds, row.min_seconds, f64::min);
        sum.max_seconds = both(sum.max_seconds, row.max_seconds, f64::max);
        if row.quality != Quality::Exact {
            sum.quality = row.quality;
        }
    }

    /// Branches lie no deeper than the reader of profiles lets them.
    fn emit(self, depth: usize, lines: &mut Vec<TreeLine>) {
        if let Some(mut row) = self.row {
            row.error_seconds = (self.variance > 0.0).then(|| self.variance.sqrt());
            lines.push(TreeLine { depth, row, threads: self.threads });
        }
        let time = |branch: &Branch| {
            branch.row.as_ref().map_or(0.0, |r| r.inclusive_seconds + r.open_seconds.unwrap_or(0.0))
        };
        let mut children: Vec<Branch> = self.children.into_values().collect();
        children.sort_by(|a, b| time(b).total_cmp(&time(a)));
        for child in children {
            child.emit(depth + 1, lines);
        }
    }
}
