//! Rows of control groups that are jobs of Slurm, containers, or units of systemd.

use std::collections::{BTreeMap, HashMap};

use weigh_collect::node::{GroupKind, NodeGroup};
use weigh_collect::process_list::ProcessLook;
use weigh_schema::node_metric::{node_group_cpu_seconds_total, node_group_memory_limit_bytes};
use weigh_schema::top::{TopGroup, TopJob, TopJobKind, TopProcess, TopValue};
use weigh_schema::update::Scope;
use weigh_schema::{Number, byte_text};

/// A row for each group that a listed process is in: jobs first, then containers, then units.
pub(super) fn group_rows(
    groups: &[NodeGroup],
    metrics: &BTreeMap<Scope, BTreeMap<String, TopValue>>,
    looks: &[ProcessLook],
    processes: &[TopProcess],
) -> Vec<TopJob> {
    let mut by_path: HashMap<&[u8], Vec<&ProcessLook>> = HashMap::new();
    for look in looks {
        if let Some(path) = &look.group {
            by_path.entry(path).or_default().push(look);
        }
    }
    let cores: HashMap<u32, Option<f64>> =
        processes.iter().map(|process| (process.pid, process.cpu_cores)).collect();
    let mut found: Vec<&NodeGroup> = groups.iter().collect();
    found.sort_by(|a, b| b.kind.cmp(&a.kind).then_with(|| a.path.cmp(&b.path)));
    let row = |group: &NodeGroup| {
        let members = by_path.get(group.path.as_slice())?;
        let values = metrics.get(&group.scope);
        let own = values
            .and_then(|values| values.get(node_group_cpu_seconds_total.name)?.per_second.flatten());
        let limit = values.and_then(|values| values.get(node_group_memory_limit_bytes.name)?.value);
        let of_members = || {
            let known = members.iter().filter_map(|look| *cores.get(&look.stat.pid)?);
            known.reduce(|sum, cores| sum + cores)
        };
        let row = group_row(group, members, own.or_else(of_members))?;
        Some(TopJob { memory_limit_bytes: limit.and_then(whole), ..row })
    };
    found.into_iter().filter_map(row).collect()
}

fn whole(number: Number) -> Option<u64> {
    match number {
        Number::Whole(whole) => Some(whole),
        Number::Real(_) => None,
    }
}

fn group_row(
    group: &NodeGroup,
    members: &[&ProcessLook],
    cpu_cores: Option<f64>,
) -> Option<TopJob> {
    let first = members.iter().min_by_key(|look| look.stat.pid)?;
    let missing = group.missing.iter();
    Some(TopJob {
        kind: kind(group.kind),
        group: Some(Box::new(TopGroup {
            scope: group.scope.clone(),
            name: byte_text::shown(&group.name),
            name_base64: byte_text::base64(&group.name),
            manager: group.manager.to_string(),
            missing: missing.map(|(metric, why)| (metric.name.to_string(), why.clone())).collect(),
        })),
        pid: first.stat.pid,
        user: first.user.clone(),
        command: first.command.iter().map(|word| byte_text::shown(word)).collect(),
        command_base64: byte_text::base64_of_each(&first.command),
        processes: members.len() as u64,
        cpu_cores,
        memory_rss_sum_bytes: members.iter().map(|look| look.rss_bytes).sum(),
        cpus_requested: None,
        memory_limit_bytes: None,
        time_left_seconds: None,
    })
}

fn kind(kind: GroupKind) -> TopJobKind {
    match kind {
        GroupKind::Slurm => TopJobKind::Slurm,
        GroupKind::Container => TopJobKind::Container,
        GroupKind::Unit => TopJobKind::Unit,
    }
}
