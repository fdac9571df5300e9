//! Regions that programs name: the rows of a recording's tables, and what `weigh show --regions --json` prints.
//!
//! Texts are as people have them: what is no UTF-8 is U+FFFD, and the bytes stand beside it as Base64.

mod costs;
pub mod snapshot;
pub mod span;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::quality::Quality;
use crate::zero::is_zero;

pub use costs::{KernelCosts, NO_ROOM, UNBOUND};

/// The schema of a report.
pub const REGIONS: &str = "weigh.regions/1";

named! {
    /// What a row is about.
    #[derive(Default)]
    pub enum RegionKind {
        /// A thread: its inclusive time is its wall time, its exclusive time that outside of regions.
        Thread = "thread",
        /// A region.
        #[default]
        Region = "region",
        /// A region with iterations.
        Phase = "phase",
        /// A region that may end on another thread: its time is in no region's exclusive time.
        Range = "range",
    }
}

/// One region at one place in the call tree of one thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionRow {
    /// Its name; of a thread the kernel's name for it.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// The names from the outermost region to this one; of a thread none.
    pub path: Vec<String>,
    /// All of them in Base64, where one is no UTF-8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_base64: Vec<String>,
    /// What it is.
    pub kind: RegionKind,
    /// The process, by its PID as weigh sees it; of a file, as the process sees it.
    pub process: u32,
    /// The thread, as the process sees it.
    pub thread: u32,
    /// The process's rank in its MPI job.
    pub rank: Option<u32>,
    /// Calls that have ended.
    pub calls: u64,
    /// Of these, how many were timed; absent where all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_calls: Option<u64>,
    /// Their time.
    pub inclusive_seconds: f64,
    /// Their time without that of regions inside.
    pub exclusive_seconds: f64,
    /// The standard error of the inclusive time, where not all calls were timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_seconds: Option<f64>,
    /// The shortest timed call; absent where none has ended.
    pub min_seconds: Option<f64>,
    /// The longest.
    pub max_seconds: Option<f64>,
    /// Calls that were ended by the end of one around them or of the thread, and ends without a begin.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unbalanced_calls: u64,
    /// Calls that had begun and not ended when the profile was read last: they are in no other number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_calls: u64,
    /// Their time until then; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_seconds: Option<f64>,
    /// `sampled` where not all calls were timed, or not all of regions inside; `estimated` where it was read while it was
    /// written.
    pub quality: Quality,
    /// What its system calls cost in the kernel; absent where no account of calls is bound to the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_costs: Option<KernelCosts>,
}

/// A phase that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseRow {
    /// Its name.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// As the program numbers them.
    pub iteration: u64,
    /// When it began, nanoseconds since the Unix epoch, UTC.
    pub started_ns: i64,
    /// When it ended, the same.
    pub ended_ns: i64,
}

/// A counter, gauge or kind of event, over all threads and processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionCounter {
    /// Its name.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// `counter`, `gauge` or `event`.
    pub kind: String,
    /// A counter's sum; the last value of a gauge or event, of the process and thread that came last. Whole where it is
    /// a counter.
    pub value: f64,
    /// How often it was added to, set, or told.
    pub samples: u64,
    /// The least that was added, set or told.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

/// What all profiles of a job hold together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionsFound {
    /// Processes that told of regions.
    pub processes_total: u64,
    /// Their threads.
    pub threads_total: u64,
    /// Processes that were part of an MPI job.
    pub ranks_total: u64,
    /// Rows of regions, one for each path and thread.
    pub rows_total: u64,
    /// Calls of regions that have ended.
    pub calls_total: u64,
    /// Times that a program published.
    pub publishes_total: u64,
    /// Of these, how many were read before the next one took their place.
    pub publishes_read_total: u64,
    /// Processes that had not ended in order when their profile was read last.
    pub cut_short_total: u64,
    /// Profiles that ended because their process executed another program.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub executed_total: u64,
    /// Calls that were not ended by themselves.
    pub unbalanced_calls_total: u64,
    /// Calls that were open at the end.
    pub open_calls_total: u64,
    /// What was lost, by what it was; what is nothing is not there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, u64>,
    /// Profiles that were refused, by the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
    /// Rows of regions whose kernel costs are not known, by the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernel_costs_unavailable: BTreeMap<String, u64>,
    /// Counters, gauges and events by name.
    pub counters: Vec<RegionCounter>,
    /// What programs said of themselves; where processes differ, what the first one said.
    pub metadata: BTreeMap<String, String>,
    /// The keys of which they said different things.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata_differs: Vec<String>,
    /// The regions that took most time by themselves, over all threads: at most [`TOP`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<FlatRegion>,
}

/// So many regions stand in the summary.
pub const TOP: usize = 10;

/// All calls of a region, wherever it was called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlatRegion {
    /// Its name.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Threads that called it, of all processes.
    pub threads: u64,
    /// Calls that have ended.
    pub calls: u64,
    /// Their time, added up over threads: with several threads that is no wall time. A call inside another of the same
    /// name is not counted again.
    pub inclusive_seconds: f64,
    /// The same without regions inside.
    pub exclusive_seconds: f64,
    /// The inclusive time of the thread that has most: it took at least so long by the clock.
    pub longest_thread_seconds: f64,
    /// The standard error of the inclusive time, where not all calls were timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_seconds: Option<f64>,
    /// The shortest timed call.
    pub min_seconds: Option<f64>,
    /// The longest.
    pub max_seconds: Option<f64>,
    /// Calls that were not ended by themselves.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unbalanced_calls: u64,
    /// Calls that were open at the end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_calls: u64,
    /// How even it is over ranks, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<RankImbalance>,
    /// The worst of its rows.
    pub quality: Quality,
    /// What the system calls of its rows cost in the kernel; absent where no account of calls is bound to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_costs: Option<KernelCosts>,
}

/// How even the time in a region is over the ranks of an MPI job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankImbalance {
    /// How many ranks there are; one that never called it counts with 0.
    pub ranks: u64,
    /// The mean of the ranks' inclusive times.
    pub mean_seconds: f64,
    /// The greatest.
    pub max_seconds: f64,
    /// The rank that has it.
    pub max_rank: u32,
    /// The greatest by the mean: 1 where all are alike.
    pub imbalance_ratio: f64,
}

/// What `weigh show --regions --json` prints: [`RegionRow`]s, or with `--flat` [`FlatRegion`]s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionsReport<Row = RegionRow> {
    /// [`REGIONS`].
    pub schema: String,
    /// One row for each path and thread, or for each name.
    pub regions: Vec<Row>,
    /// Phases in the order in which they ended.
    pub phases: Vec<PhaseReport>,
    /// Threads, where they are asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadReport>,
    /// Counters, metadata, and what was lost.
    #[serde(flatten)]
    pub found: RegionsFound,
}

/// A phase, in seconds since the job's start; of a file, since the profile was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// As the program numbers them.
    pub iteration: u64,
    /// When it began.
    pub start_seconds: f64,
    /// When it ended.
    pub end_seconds: f64,
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
}

/// A thread's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadReport {
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The process's rank.
    pub rank: Option<u32>,
    /// The kernel's name for it.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// From when it was first seen to its end, or to the last read.
    pub wall_seconds: f64,
    /// Of that, outside of all regions.
    pub outside_seconds: f64,
}
