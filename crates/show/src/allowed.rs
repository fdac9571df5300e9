//! What a job was allowed, in words: where a limit comes from stands behind it.

use weigh_schema::allowed::{Allowed, AllowedGroup, SchedulerRequest};
use weigh_schema::amount::{show_count, show_number_of, show_size};

/// All of it in one line; empty where nothing is known.
pub(crate) fn words(allowed: &Allowed) -> String {
    let cpus = allowed.cpus.map(|cpus| show_number_of(cpus.into(), "CPU", "CPUs"));
    let scheduler = allowed.scheduler.as_ref().map(request);
    let groups = allowed.groups.iter().map(group);
    let changes = allowed.changes.iter().map(|change| {
        format!("changed after {:.0} s to {}", change.at_seconds, group(&change.group))
    });
    cpus.into_iter().chain(scheduler).chain(groups).chain(changes).collect::<Vec<_>>().join("; ")
}

fn group(group: &AllowedGroup) -> String {
    let size =
        |bytes: Option<u64>, what: &str| Some(format!("{what} {}", show_size(bytes? as f64)));
    let limits = [
        group.cpu_quota_cores.map(|cores| format!("{cores} cores")),
        size(group.memory_max_bytes, "memory"),
        size(group.memory_high_bytes, "memory slowed past"),
        size(group.swap_max_bytes, "swap"),
        group.tasks_max.map(|tasks| format!("{} tasks", show_count(tasks as f64))),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    match limits.is_empty() {
        true => format!("no limit by {}", group.group),
        false => format!("{} by {}", limits.join(", "), group.group),
    }
}

fn request(request: &SchedulerRequest) -> String {
    let counted = |count: Option<u64>, one, several| Some(show_number_of(count?, one, several));
    let parts = [
        counted(request.nodes, "node", "nodes"),
        counted(request.cpus, "CPU", "CPUs"),
        request.memory_bytes.map(|bytes| show_size(bytes as f64)),
        counted(request.gpus, "GPU", "GPUs"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let job = request.job.as_deref().map(|job| format!(" job {job}")).unwrap_or_default();
    match parts.is_empty() {
        true => format!("{}{job}", request.name),
        false => format!("{}{job}: {}", request.name, parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::allowed::AllowedChange;

    #[test]
    fn each_limit_stands_with_where_it_comes_from() {
        let near = AllowedGroup {
            group: "/batch/77".to_string(),
            cpu_quota_cores: Some(1.5),
            memory_max_bytes: Some(4 << 30),
            ..AllowedGroup::default()
        };
        let scheduler = SchedulerRequest {
            name: "slurm".to_string(),
            job: Some("77".to_string()),
            cpus: Some(2),
            ..SchedulerRequest::default()
        };
        let freed = AllowedGroup { group: near.group.clone(), ..AllowedGroup::default() };
        let allowed = Allowed {
            cpus: Some(1),
            groups: vec![near],
            scheduler: Some(scheduler),
            changes: vec![AllowedChange { at_seconds: 12.0, group: freed }],
            ..Allowed::default()
        };
        assert_eq!(
            words(&allowed),
            "1 CPU; slurm job 77: 2 CPUs; 1.5 cores, memory 4.0 GiB by /batch/77; \
             changed after 12 s to no limit by /batch/77"
        );
        assert_eq!(words(&Allowed::default()), "");
    }
}
