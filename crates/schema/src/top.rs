//! What `weigh top --once --json` prints, and what its screen is drawn from.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::busiest::BusiestReport;
use crate::event::CollectorState;
use crate::program_profile::ProgramState;
use crate::quality::{Mechanism, Quality};
use crate::region::FlatRegion;
use crate::rule::RuleStatus;
use crate::scope::Scope;
use crate::trace_query::TraceQuery;
use crate::unit::{Number, Unit};
use crate::zero::is_zero;

/// The schema's name and version.
pub const TOP: &str = "weigh.top/1";

/// One look at the node, its jobs and its processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopReport {
    /// Always [`TOP`].
    pub schema: String,
    /// The node's name.
    pub node: String,
    /// When it was taken.
    pub time: Timestamp,
    /// What rates and use of CPUs are over: seconds since the look before; null at the first one.
    pub interval_seconds: Option<f64>,
    /// Whose processes are listed; null where all users' are.
    pub user: Option<String>,
    /// Values of the node, by scope (`node`, `core:3`, `disk:sda`) and metric.
    pub metrics: BTreeMap<Scope, BTreeMap<String, TopValue>>,
    /// Use of each CPU since the look before.
    pub cores: Vec<CoreUse>,
    /// How each collector fares.
    pub collectors: Vec<TopCollector>,
    /// Rules that hold, are about to, or cannot be judged, in this order; of each what matters most first.
    #[serde(default)]
    pub rules: Vec<RuleStatus>,
    /// Sessions of `weigh run`; then control groups: jobs of Slurm, containers, units of systemd.
    pub jobs: Vec<TopJob>,
    /// Processes, the greatest users of CPU first.
    pub processes: Vec<TopProcess>,
    /// Programs that have published their regions to the agent: a user's own, to root all.
    #[serde(default)]
    pub profiles: Vec<TopProfile>,
    /// Processes of the user that could not be looked at.
    pub processes_unreadable: u64,
    /// Processes that there was no room for: in a stream of the agent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub processes_left_out: u64,
    /// The latest of each value that clients of the agent have published: scripts, programs, streams of `weigh trace`.
    #[serde(default)]
    pub published: Vec<PublishedValue>,
    /// Such values that there was no room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub published_left_out: u64,
    /// Such programs that there was no room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub profiles_left_out: u64,
    /// What the jobs of `weigh run` are busy with, by their recordings; absent where these were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest: Option<Box<BusiestReport>>,
}

/// A program that has published its regions to the agent, as it stood when it was read last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopProfile {
    /// Its user's number.
    pub uid: u32,
    /// Its user.
    pub user: String,
    /// The process; null of spans of OpenTelemetry.
    pub pid: Option<u32>,
    /// Of spans: the process, as the program says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_pid: Option<u32>,
    /// The kernel's name for the process; of spans the service's, as it says.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Whether more is to come.
    pub state: ProgramState,
    /// The session of `weigh run` that the process belongs to, by its PID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
    /// When it was read last.
    pub time: Timestamp,
    /// Calls of its regions that have ended.
    pub calls_total: u64,
    /// How often it has published.
    pub publishes_total: u64,
    /// The regions that took most time by themselves, over all threads.
    pub regions: Vec<FlatRegion>,
    /// Its other regions.
    pub regions_left_out: u64,
}

/// The latest of a value that a client of the agent has published. Everybody may see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedValue {
    /// What it is about, as the client says; of a stream of `weigh trace` `trace:PID/N` or `trace:PID/N:KEY`.
    pub scope: Scope,
    /// The metric's name, as the client says.
    pub metric: String,
    /// The value.
    pub value: f64,
    /// Its unit, where the client has said one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// Of a stream of `weigh trace`: what was asked of it, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Box<TraceQuery>>,
    /// The user that has published it; null where the kernel does not tell.
    pub user: Option<String>,
    /// The process that has published it; null where the kernel does not tell.
    pub pid: Option<u32>,
    /// The session of `weigh run` that this process, or the one that the stream follows, belongs to, by its PID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
    /// When it came.
    pub time: Timestamp,
}

/// One value of the node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopValue {
    /// The value, of counters since boot; null where it is unavailable.
    pub value: Option<Number>,
    /// Its unit.
    pub unit: Unit,
    /// How far it can be trusted.
    pub quality: Quality,
    /// Of counters: growth in a second since the look before; null where that is not known. Absent for gauges.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "double_option")]
    pub per_second: Option<Option<f64>>,
}

/// Absent and null are two things.
mod double_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &Option<Option<f64>>, to: S) -> Result<S::Ok, S::Error> {
        value.flatten().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Option<f64>>, D::Error> {
        Option::<f64>::deserialize(from).map(Some)
    }
}

/// Use of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    /// Its number.
    pub core: u32,
    /// Part of the time for which it worked for this node; null where it is not known.
    pub busy_ratio: Option<f64>,
    /// Part of the time that the host kept; null where it is not known.
    pub steal_ratio: Option<f64>,
}

/// How a collector of the node fares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopCollector {
    /// Its name.
    pub name: String,
    /// How it gets its values.
    pub mechanism: Mechanism,
    /// Whether it has values now (`active`), had some (`degraded`), or never had any (`unavailable`).
    pub status: CollectorState,
    /// Why it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For how long there has been no data; absent where there is some, or never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_data_seconds: Option<f64>,
    /// Attempts that failed.
    pub failures: u64,
}

/// How a job was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopJobKind {
    /// A session of `weigh run`, as far as its processes descend from weigh.
    #[default]
    Weigh,
    /// A control group of Slurm.
    Slurm,
    /// A control group of systemd: a service or scope.
    Unit,
    /// A control group of a container.
    Container,
}

/// The control group that a job is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopGroup {
    /// Under this its values are in the report's metrics.
    pub scope: Scope,
    /// The job's number, the unit's name, the container's number; bytes that are no UTF-8 are U+FFFD.
    pub name: String,
    /// The bytes of it, in base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Who manages it: `slurm`, `systemd`, `docker`, `podman`, `containerd`, `cri-o`, `kubernetes` …
    pub manager: String,
    /// Metrics that the machine does not have of it, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// A session of `weigh run`, or a control group with processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopJob {
    /// How it was found.
    #[serde(default)]
    pub kind: TopJobKind,
    /// Its control group; absent for sessions of `weigh run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<TopGroup>>,
    /// PID of `weigh run`; of a group: the lowest of the processes that are listed.
    pub pid: u32,
    /// The user of that process.
    pub user: String,
    /// The command line of that process.
    pub command: Vec<String>,
    /// The bytes of each, in base64, where any is no UTF-8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_base64: Vec<String>,
    /// Processes that descend from it, or are in the group and listed.
    pub processes: u64,
    /// CPUs that they kept busy since the look before, by the group's own count where it has one; null where it is not known.
    pub cpu_cores: Option<f64>,
    /// Sum of their resident sizes, shared pages counted for each.
    pub memory_rss_sum_bytes: u64,
    /// CPUs that were asked for it: of a batch system, by a quota, or by an affinity that leaves some of the node's out;
    /// null where none were, or that cannot be read.
    #[serde(default)]
    pub cpus_requested: Option<f64>,
    /// Memory past which its processes are killed, by its control groups; else what was asked of a batch system.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// Time until a batch system ends it; null where none said when that is.
    #[serde(default)]
    pub time_left_seconds: Option<f64>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopProcess {
    /// Its number.
    pub pid: u32,
    /// Its parent's number.
    pub parent_pid: u32,
    /// Its user.
    pub user: String,
    /// The kernel's name for it; bytes that are no UTF-8 are U+FFFD.
    pub name: String,
    /// The bytes of it, in base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Its arguments; empty for zombies and where it has none.
    pub command: Vec<String>,
    /// The bytes of each, in base64, where any is no UTF-8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_base64: Vec<String>,
    /// `R`, `S`, `D`, `Z`, `T`.
    pub state: String,
    /// Threads.
    pub threads: u64,
    /// CPUs that it kept busy since the look before; null where it was not there then.
    pub cpu_cores: Option<f64>,
    /// CPU time since it was started.
    pub cpu_seconds: f64,
    /// Resident size.
    pub memory_rss_bytes: u64,
    /// The session of `weigh run` that it descends from, by its PID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_absent_null_or_a_number() {
        for per_second in [None, Some(None), Some(Some(1.5))] {
            let value = TopValue {
                value: Some(Number::Whole(7)),
                unit: Unit::Bytes,
                quality: Quality::Exact,
                per_second,
            };
            let json = serde_json::to_string(&value).expect("writes");
            assert_eq!(json.contains("per_second"), per_second.is_some(), "{json}");
            assert_eq!(serde_json::from_str::<TopValue>(&json).expect("reads"), value);
        }
    }
}
