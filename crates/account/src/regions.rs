//! From a profile of regions to rows: paths, times in seconds, what is open, what was lost.
//!
//! Reads snapshots; emits the rows of `schema::region`. Invents nothing: a call that is open is in no sum, a region of
//! which not all calls were timed has an estimate with its standard error.

mod costs;
mod estimate;
mod flat;
mod program;
mod spans;
mod ticks;
mod totals;
mod tree;

use std::collections::BTreeMap;

use weigh_schema::profile::{NodeKind, OTHER_NAME};
use weigh_schema::region::snapshot::{ProfileNode, ProfilePhase, ProfileSnapshot, ProfileThread};
use weigh_schema::region::{PhaseRow, RegionKind, RegionRow};
use weigh_schema::{Quality, byte_text};

use costs::kernel_costs;
use estimate::{Estimate, estimates};

pub use flat::FlatRegions;
pub use program::{program_profile, top_profile};
pub use spans::{SpanBounds, SpanRows, SpanTable};
pub use ticks::TickScale;
pub use totals::{RegionTotals, counter_series};
pub use tree::{RegionTreeSum, TreeLine, region_tree};

/// Paths of one process have so many bytes at most: names may be long, and trees deep.
const PATH_BYTES: usize = 32 << 20;

/// Of which process a profile is, and when it was read.
#[derive(Clone, Copy, Debug)]
pub struct ProfileContext {
    /// The process, as rows have it.
    pub process: u32,
    /// How long ticks are.
    pub scale: TickScale,
    /// Until when open regions have been open, in ticks.
    pub until: u64,
}

/// The rows of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessRows {
    /// One for each thread, and for each region at one place of its call tree: parents before what is in them.
    pub rows: Vec<RegionRow>,
    /// Rows that were left out because their paths are too long.
    pub left_out: u64,
}

/// Makes the rows of one process.
pub fn process_rows(snapshot: &ProfileSnapshot, context: &ProfileContext) -> ProcessRows {
    let mut made = Rows {
        snapshot,
        context,
        estimates: estimates(snapshot),
        open: open_calls(snapshot, context),
        children: children(snapshot),
        seen: vec![false; snapshot.nodes.len()],
        path_bytes: 0,
        found: ProcessRows::default(),
    };
    let ended = made.ended_ticks();
    for (thread, ended) in snapshot.threads.iter().zip(ended) {
        made.thread(thread, ended);
    }
    made.threads_without_room();
    made.found
}

/// The rows of phases. `epoch_ns` is where CLOCK_MONOTONIC began, in nanoseconds since the Unix epoch.
pub fn phase_rows(
    snapshot: &ProfileSnapshot,
    context: &ProfileContext,
    epoch_ns: i64,
) -> Vec<PhaseRow> {
    let at = |ticks| epoch_ns.saturating_add(context.scale.monotonic_ns(ticks));
    let row = |phase: &ProfilePhase| {
        let name = snapshot.names.get(phase.name).map_or("", String::as_str);
        PhaseRow {
            name: byte_text::shown(name),
            name_base64: byte_text::base64(name),
            process: context.process,
            thread: snapshot.threads.get(phase.thread).map_or(0, |thread| thread.tid),
            iteration: phase.iteration,
            started_ns: at(phase.begun),
            ended_ns: at(phase.ended),
        }
    };
    snapshot.phases.iter().map(row).collect()
}

/// Calls of a node that are open: how many, and for how many ticks those that are timed.
type OpenCalls = BTreeMap<usize, (u64, Option<u64>)>;

fn open_calls(snapshot: &ProfileSnapshot, context: &ProfileContext) -> OpenCalls {
    let mut open = OpenCalls::new();
    for thread in &snapshot.threads {
        let until = thread.ended.unwrap_or(context.until);
        for frame in &thread.open {
            let (calls, ticks) = open.entry(frame.node).or_default();
            *calls += 1;
            if let Some(begun) = frame.begun {
                let since = until.saturating_sub(begun);
                *ticks = Some(ticks.unwrap_or(0).saturating_add(since));
            }
        }
    }
    open
}

/// What each node has inside.
fn children(snapshot: &ProfileSnapshot) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); snapshot.nodes.len()];
    for (number, node) in snapshot.nodes.iter().enumerate() {
        let Some(node) = node.filter(|node| node.parent != number) else { continue };
        if let Some(list) = children.get_mut(node.parent) {
            list.push(number);
        }
    }
    children
}

/// What kind of row a node has; none of what is no region.
fn region_kind(kind: NodeKind) -> Option<RegionKind> {
    match kind {
        NodeKind::Region => Some(RegionKind::Region),
        NodeKind::Phase => Some(RegionKind::Phase),
        NodeKind::Range => Some(RegionKind::Range),
        NodeKind::Root | NodeKind::Counter | NodeKind::Gauge | NodeKind::Event => None,
    }
}

struct Rows<'a> {
    snapshot: &'a ProfileSnapshot,
    context: &'a ProfileContext,
    estimates: Vec<Estimate>,
    open: OpenCalls,
    children: Vec<Vec<usize>>,
    /// Nodes that have been come to: each is in the tree of one thread, whatever others say.
    seen: Vec<bool>,
    path_bytes: usize,
    found: ProcessRows,
}

impl Rows<'_> {
    fn seconds(&self, ticks: f64) -> f64 {
        self.context.scale.seconds(ticks)
    }

    /// The time of each thread in calls that have ended, where each moment is one region's: what found no place in the tree
    /// is in no region's inclusive time but in `(other)`'s.
    fn ended_ticks(&self) -> Vec<f64> {
        let mut ticks = vec![0.0; self.snapshot.threads.len()];
        for (node, estimate) in self.snapshot.nodes.iter().zip(&self.estimates) {
            let is_inside = |node: &&ProfileNode| {
                node.kind != NodeKind::Range && region_kind(node.kind).is_some()
            };
            let Some(node) = node.as_ref().filter(is_inside) else { continue };
            if let Some(ticks) = ticks.get_mut(node.thread) {
                *ticks += estimate.exclusive;
            }
        }
        ticks
    }

    /// The same in calls that are open, without those in them that have ended.
    fn open_ticks(thread: &ProfileThread, until: u64) -> f64 {
        let mut timed = thread.open.iter().skip_while(|frame| frame.begun.is_none()).peekable();
        let begun = timed.peek().and_then(|frame| frame.begun);
        let inside: f64 = timed.map(|frame| frame.inside as f64).sum();
        begun.map_or(0.0, |begun| (until.saturating_sub(begun) as f64 - inside).max(0.0))
    }

    /// A thread's own row, and those of its tree.
    fn thread(&mut self, thread: &ProfileThread, ended: f64) {
        let root = self.snapshot.nodes.get(thread.root).copied().flatten();
        if root.is_none() && thread.begun == 0 {
            return;
        }
        let until = thread.ended.unwrap_or(self.context.until.max(thread.begun));
        let wall = until.saturating_sub(thread.begun) as f64;
        let is_own = root.is_some() && !std::mem::replace(&mut self.seen[thread.root], true);
        let top = if is_own { self.children[thread.root].clone() } else { Vec::new() };
        let inside = ended + Self::open_ticks(thread, until);
        let is_sampled = top.iter().any(|number| self.estimates[*number].is_sampled);
        self.found.rows.push(RegionRow {
            name: byte_text::shown(&thread.name),
            name_base64: byte_text::base64(&thread.name),
            kind: RegionKind::Thread,
            process: self.context.process,
            thread: thread.tid,
            rank: self.snapshot.rank,
            calls: 1,
            inclusive_seconds: self.seconds(wall),
            exclusive_seconds: self.seconds((wall - inside).max(0.0)),
            quality: if is_sampled { Quality::Sampled } else { Quality::Exact },
            ..RegionRow::default()
        });
        self.tree(thread, top);
    }

    /// The rows below a root, parents first. Nodes lie no deeper than the reader lets them.
    fn tree(&mut self, thread: &ProfileThread, top: Vec<usize>) {
        let mut left: Vec<(usize, usize)> = top.into_iter().rev().map(|node| (node, 0)).collect();
        let mut path: Vec<usize> = Vec::new();
        while let Some((number, depth)) = left.pop() {
            if std::mem::replace(&mut self.seen[number], true) {
                continue;
            }
            path.truncate(depth);
            path.push(number);
            if let Some(node) = self.snapshot.nodes[number] {
                self.region(thread, number, &node, &path);
            }
            left.extend(self.children[number].iter().rev().map(|child| (*child, depth + 1)));
        }
    }

    fn region(
        &mut self,
        thread: &ProfileThread,
        number: usize,
        node: &ProfileNode,
        path: &[usize],
    ) {
        let Some(kind) = region_kind(node.kind) else { return };
        let (open_calls, open_ticks) = self.open.get(&number).copied().unwrap_or_default();
        if node.numbers.calls == 0 && open_calls == 0 && node.unbalanced == 0 {
            return;
        }
        let snapshot = self.snapshot;
        let names: Vec<&str> = path.iter().map(|number| node_name(snapshot, *number)).collect();
        self.path_bytes += names.iter().map(|name| name.len()).sum::<usize>();
        if self.path_bytes > PATH_BYTES {
            self.found.left_out += 1;
            return;
        }
        let estimate = self.estimates[number];
        let timed = |ticks: u64| (node.numbers.timed > 0).then(|| self.seconds(ticks as f64));
        let name = names.last().copied().unwrap_or("");
        let row = RegionRow {
            name: byte_text::shown(name),
            name_base64: byte_text::base64(name),
            path: names.iter().map(|name| byte_text::shown(name)).collect(),
            path_base64: byte_text::base64_of_each(&names),
            kind,
            process: self.context.process,
            thread: thread.tid,
            rank: self.snapshot.rank,
            calls: node.numbers.calls,
            timed_calls: (node.numbers.timed < node.numbers.calls).then_some(node.numbers.timed),
            inclusive_seconds: self.seconds(estimate.inclusive),
            exclusive_seconds: self.seconds(estimate.exclusive),
            error_seconds: estimate.error.map(|error| self.seconds(error)),
            min_seconds: timed(node.numbers.min),
            max_seconds: timed(node.numbers.max),
            unbalanced_calls: node.unbalanced,
            open_calls,
            open_seconds: open_ticks.map(|ticks| self.seconds(ticks as f64)),
            quality: estimate.quality(node),
            kernel_costs: kernel_costs(snapshot, number, node),
        };
        self.found.rows.push(row);
    }

    /// Calls of threads that found no room: there is nothing but their number and time.
    fn threads_without_room(&mut self) {
        let lost = &self.snapshot.lost;
        if lost.other_calls == 0 {
            return;
        }
        let seconds = self.seconds(lost.other_ticks as f64);
        self.found.rows.push(RegionRow {
            name: OTHER_NAME.to_string(),
            path: vec![OTHER_NAME.to_string()],
            process: self.context.process,
            rank: self.snapshot.rank,
            calls: lost.other_calls,
            inclusive_seconds: seconds,
            exclusive_seconds: seconds,
            quality: Quality::Estimated,
            ..RegionRow::default()
        });
    }
}

fn node_name(snapshot: &ProfileSnapshot, number: usize) -> &str {
    let name = snapshot.nodes[number].and_then(|node| snapshot.names.get(node.name));
    name.map_or("", String::as_str)
}

#[cfg(test)]
mod tests;
