//! Rules over metrics: what is said when one begins or ceases to hold, and how each stands.
//!
//! `account::rules` has the language and the state; `weigh top`, the agent and pages show what it says.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::metric::{METRICS, Metric, MetricKind, MetricScope};
use crate::named::named;
use crate::node_metric;
use crate::scope::Scope;
use crate::unit::Unit;

/// The schema of an event, and its version.
pub const RULE_EVENT: &str = "weigh.rule-event/1";
/// The longest text of an event, and its longest line to paste, in bytes.
pub const LONGEST_TEXT_BYTES: usize = 1024;
/// The longest name of a rule, in bytes.
pub const LONGEST_NAME_BYTES: usize = 64;

/// The scope of a job in rules.
pub fn scope_of_job(pid: u32) -> Scope {
    Scope::Other(format!("{JOB}{pid}"))
}

/// The job that a scope is about.
pub fn pid_of_job(scope: &Scope) -> Option<u32> {
    let Scope::Other(text) = scope else { return None };
    text.strip_prefix(JOB)?.parse().ok()
}

const JOB: &str = "job:";

named! {
    /// How much a rule matters; the most important first.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Severity {
        /// Work is lost, or soon will be.
        Critical = "critical",
        /// Work takes longer than it has to.
        #[default]
        Warning = "warning",
        /// Something is wasted.
        Note = "note",
    }
}

impl Severity {
    /// All of them, by their names in files.
    pub const NAMES: [(&str, Severity); 3] = [
        ("critical", Severity::Critical),
        ("warning", Severity::Warning),
        ("note", Severity::Note),
    ];
}

/// What has happened to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleChange {
    /// It holds from now on.
    Began,
    /// It holds no more.
    Ended,
}

/// A rule has begun or ceased to hold for one scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleEvent {
    /// Always [`RULE_EVENT`].
    pub schema: String,
    /// The rule's name.
    pub rule: String,
    /// Whether it began or ended.
    pub state: RuleChange,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about.
    pub scope: Scope,
    /// The first metric of its condition.
    pub metric: String,
    /// The left side of its first comparison; null where that is not known.
    pub value: Option<f64>,
    /// The unit of the value.
    pub unit: Unit,
    /// Whether the value is in a second.
    #[serde(default, skip_serializing_if = "is_false")]
    pub per_second: bool,
    /// When it was found.
    pub at: Timestamp,
    /// Since when its condition has been true.
    pub since: Timestamp,
    /// It in words, with values; at most [`LONGEST_TEXT_BYTES`]. Nothing in it steers a terminal.
    pub text: String,
    /// What to type next; may be empty. Names in it are quoted for a shell.
    pub paste: String,
}

/// How a rule stands for one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleStanding {
    /// It holds.
    Holds,
    /// Its condition is true, but not yet for as long as it has to be.
    Pending,
    /// Nobody knows: a value is missing.
    Unavailable,
}

/// A rule that holds, is about to, or cannot be judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// The rule's name.
    pub rule: String,
    /// How it stands.
    pub state: RuleStanding,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about; null where it cannot be judged for any scope.
    pub scope: Option<Scope>,
    /// The first metric of its condition.
    pub metric: String,
    /// The left side of its first comparison; null where that is not known.
    pub value: Option<f64>,
    /// The unit of the value.
    pub unit: Unit,
    /// Whether the value is in a second.
    #[serde(default, skip_serializing_if = "is_false")]
    pub per_second: bool,
    /// For how long its condition has been true; null where it cannot be judged.
    pub true_seconds: Option<f64>,
    /// For how long it has to be, before the rule holds.
    pub for_seconds: f64,
    /// It in words, with values.
    pub text: String,
    /// What to type next; may be empty.
    pub paste: String,
    /// Why it cannot be judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A metric as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleMetric {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// How it behaves over time.
    pub kind: MetricKind,
    /// What its values are about.
    pub scope: MetricScope,
}

/// Names of what `weigh top` knows of a job while it runs. The first three are series of the job as well.
#[allow(non_upper_case_globals)]
pub mod job_metric {
    /// CPUs kept busy.
    pub const cpu_cores: &str = "cpu_cores";
    /// Sum of the resident sizes of its processes.
    pub const memory_rss_sum_bytes: &str = "memory_rss_sum_bytes";
    /// Processes.
    pub const processes: &str = "processes";
    /// CPUs that were asked for it: of a batch system, by a quota, or by an affinity that leaves some of the node's out.
    pub const job_cpus_requested: &str = "job_cpus_requested";
    /// Memory past which its processes are killed, by its control groups; else what was asked of a batch system.
    pub const job_memory_limit_bytes: &str = "job_memory_limit_bytes";
    /// Time until a batch system ends it.
    pub const job_time_left_seconds: &str = "job_time_left_seconds";
}

const fn of_job(name: &'static str, unit: Unit) -> RuleMetric {
    RuleMetric { name, unit, kind: MetricKind::Gauge, scope: MetricScope::Job }
}

/// What was asked for a job: known to rules, and in no summary under these names.
static REQUESTS: [RuleMetric; 3] = [
    of_job(job_metric::job_cpus_requested, Unit::Cores),
    of_job(job_metric::job_memory_limit_bytes, Unit::Bytes),
    of_job(job_metric::job_time_left_seconds, Unit::Seconds),
];

impl RuleMetric {
    /// The metric of that name: of the node, of a job while it runs, or of a summary.
    pub fn find(name: &str) -> Option<RuleMetric> {
        let request = REQUESTS.iter().find(|metric| metric.name == name).copied();
        request.or_else(|| series(name)).or_else(|| node_metric::metric(name).map(RuleMetric::from))
    }

    /// All names that rules know.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let series = METRICS.iter().filter_map(|metric| metric.series);
        let requests = REQUESTS.iter().map(|metric| metric.name);
        let metrics = METRICS.iter().map(|metric| metric.name);
        let node = node_metric::NODE_METRICS.iter().map(|metric| metric.name);
        node.chain(series).chain(requests).chain(metrics)
    }
}

/// A series goes up and down where its metric is the peak of it.
fn series(name: &str) -> Option<RuleMetric> {
    let metric = METRICS.iter().find(|metric| metric.series == Some(name))?;
    let kind = match metric.kind {
        MetricKind::Peak | MetricKind::Floor => MetricKind::Gauge,
        kind => kind,
    };
    Some(RuleMetric { name: metric.series?, kind, ..RuleMetric::from(metric) })
}

impl From<&'static Metric> for RuleMetric {
    fn from(metric: &'static Metric) -> RuleMetric {
        RuleMetric { name: metric.name, unit: metric.unit, kind: metric.kind, scope: metric.scope }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_top_knows_of_a_job_has_the_names_of_its_series() {
        use job_metric::*;
        for name in [cpu_cores, memory_rss_sum_bytes, processes] {
            assert!(METRICS.iter().any(|metric| metric.series == Some(name)), "{name}");
            let metric = RuleMetric::find(name).expect("it is known");
            assert_eq!((metric.kind, metric.scope), (MetricKind::Gauge, MetricScope::Job));
        }
        for name in RuleMetric::names() {
            assert_eq!(RuleMetric::find(name).map(|metric| metric.name), Some(name));
        }
    }

    #[test]
    fn what_matters_most_comes_first() {
        assert!(Severity::Critical < Severity::Warning && Severity::Warning < Severity::Note);
        for (name, severity) in Severity::NAMES {
            assert_eq!(severity.name(), name);
            assert_eq!(serde_json::to_string(&severity).expect("writes"), format!("\"{name}\""));
        }
    }
}
