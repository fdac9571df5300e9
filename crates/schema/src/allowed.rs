//! What a job was allowed to use, beside what it used: control groups, CPUs, resource limits, the scheduler's request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a job was allowed when it was started, and what was changed of it until it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allowed {
    /// CPUs that it may run on, by its affinity and its cpuset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Of its groups' quotas the least, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_quota_cores: Option<f64>,
    /// Of its groups' hard limits of memory the least, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max_bytes: Option<u64>,
    /// The groups that set a limit, the nearest first, up to the highest that can be seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<AllowedGroup>,
    /// Resource limits that are not infinite, by their names: `cpu_seconds`, `open_files`, …
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rlimits: BTreeMap<String, ResourceLimit>,
    /// What was asked of a batch system, by the environment that it gives its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedulerRequest>,
    /// Limits of groups that were found changed while the job ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<AllowedChange>,
}

/// The limits of one control group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedGroup {
    /// Its path in its hierarchy.
    pub group: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_base64: Option<String>,
    /// CPU time in a second of time, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_quota_cores: Option<f64>,
    /// Memory past which processes are killed, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max_bytes: Option<u64>,
    /// Memory past which processes are held back, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_high_bytes: Option<u64>,
    /// Swap, in bytes; in version 1 memory and swap together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_max_bytes: Option<u64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_max: Option<u64>,
}

impl AllowedGroup {
    /// Whether it limits anything.
    pub fn is_limiting(&self) -> bool {
        let named = AllowedGroup {
            group: self.group.clone(),
            group_base64: self.group_base64.clone(),
            ..AllowedGroup::default()
        };
        *self != named
    }
}

/// A resource limit as setrlimit(2) has it. None is infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// What holds.
    pub soft: Option<u64>,
    /// Up to what the job itself may raise it.
    pub hard: Option<u64>,
}

/// What was asked of a batch system for this job, as far as its environment tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerRequest {
    /// The system: `slurm`, `pbs`, `lsf`, `sge` or `htcondor`.
    pub name: String,
    /// Its name for the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// CPUs on this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// Memory on this node, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// GPUs on this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u64>,
    /// When it ends the job, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_seconds: Option<u64>,
}

/// The limits of a group, found changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllowedChange {
    /// When that was found, in seconds after the start.
    pub at_seconds: f64,
    /// How they are from then on; a group that sets no limit any more has its path alone.
    pub group: AllowedGroup,
}
