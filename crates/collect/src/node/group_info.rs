//! What is known of a control group beside its values.

use weigh_parse::node::{ControlGroup, GroupKind};
use weigh_schema::Metric;
use weigh_schema::byte_text;
use weigh_schema::update::Scope;

/// A control group that is a job, a unit or a container.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeGroup {
    /// What it holds.
    pub kind: GroupKind,
    /// Who manages it: `slurm`, `systemd`, `docker` …
    pub manager: &'static str,
    /// The job's number, the unit's name, the container's number, in the form that keeps their bytes.
    pub name: String,
    /// The user, where its path names one.
    pub uid: Option<u32>,
    /// Its path, below which its processes are.
    pub path: Vec<u8>,
    /// What its samples are about: its path as well.
    pub scope: Scope,
    /// Metrics that it has not got, and why.
    pub missing: Vec<(&'static Metric, String)>,
}

impl NodeGroup {
    pub(super) fn new(group: &ControlGroup<'_>) -> NodeGroup {
        NodeGroup {
            kind: group.kind,
            manager: group.manager,
            name: byte_text::keep(group.name),
            uid: group.uid,
            path: group.path.to_vec(),
            scope: Scope::Group(byte_text::keep(group.path)),
            missing: Vec::new(),
        }
    }
}
