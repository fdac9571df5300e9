//! What `weigh explain --phase` says: each resource inside a phase of a program beside outside of it.

use serde::{Deserialize, Serialize};

use crate::quality::Quality;
use crate::unit::Unit;

/// The schema of the report.
pub const PHASE_REPORT: &str = "weigh.phase/1";

/// How a resource is over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// It is used up: `inside` and `outside` are its growth per second.
    #[default]
    Rate,
    /// It is held: `inside` and `outside` are means over time.
    Level,
}

/// Whether a resource moves with the phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseVerdict {
    /// More of it inside.
    More,
    /// Less of it inside.
    Less,
    /// Inside and outside are alike.
    Alike,
    /// So little of it was used in the whole run that it says nothing.
    Little,
    /// It cannot be told; the reason stands beside it.
    #[default]
    Unknown,
}

/// A resource inside and outside of the phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseResource {
    /// The metric.
    pub metric: String,
    /// Its series in `series.parquet`.
    pub series: String,
    /// What it is, in a line.
    pub help: String,
    /// Its unit; of a rate that unit per second.
    pub unit: Unit,
    /// How it is over time.
    pub kind: ResourceKind,
    /// Whether it moves with the phase.
    pub verdict: PhaseVerdict,
    /// Inside the phase: over sampling intervals of which 99 % or more lie in it, or of samples in it.
    pub inside: Option<f64>,
    /// Outside: over those of which 1 % or less lies in it.
    pub outside: Option<f64>,
    /// Inside less outside.
    pub difference: Option<f64>,
    /// The difference by the sum of both: 1 where there is nothing outside, -1 where there is nothing inside, 0 where they
    /// are alike.
    pub contrast: Option<f64>,
    /// Of a rate: what was used in the whole run.
    pub total: Option<f64>,
    /// Of it, what certainly falls into the phase: in sampling intervals that lie wholly in it.
    pub inside_at_least: Option<f64>,
    /// Of it, what may fall into the phase: in sampling intervals that touch it.
    pub inside_at_most: Option<f64>,
    /// Of it, what falls into the phase if within each sampling interval it was used evenly.
    pub inside_estimate: Option<f64>,
    /// Of a level: the greatest sample inside.
    pub inside_max: Option<f64>,
    /// The greatest outside.
    pub outside_max: Option<f64>,
    /// Why `inside` or `outside` is not known.
    pub reason: Option<String>,
    /// How far the metric itself can be trusted.
    pub quality: Quality,
    /// Why it is not exact.
    pub quality_reason: Option<String>,
}

/// A phase, and what moves with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseUsage {
    /// [`PHASE_REPORT`].
    pub schema: String,
    /// The command of the job.
    pub command: String,
    /// The phase.
    pub phase: String,
    /// How often it ended.
    pub phases_total: u64,
    /// Threads that were in it, of all processes. Inside is where at least one of them was.
    pub threads_total: u64,
    /// The shortest of them.
    pub shortest_seconds: f64,
    /// The longest.
    pub longest_seconds: f64,
    /// The time that lies inside.
    pub inside_seconds: f64,
    /// The time of the whole run, as far as it was sampled.
    pub run_seconds: f64,
    /// The shortest and longest sampling interval of rates.
    pub interval_seconds: [f64; 2],
    /// Resources: what moves most comes first.
    pub resources: Vec<PhaseResource>,
}
