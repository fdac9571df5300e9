//! What a job was allowed stands in the summary beside what it used: against the limits that the test has set.

use weigh_schema::allowed::AllowedGroup;

use super::memory::SmallGroup;
use super::processes::QuotaGroup;
use crate::support::measured::Measured;
use crate::support::run::Weigh;

/// The limits of the group of that folder's name.
#[track_caller]
fn group_of<'a>(measured: &'a Measured, folder: &std::path::Path) -> &'a AllowedGroup {
    let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
    let groups = &measured.summary().allowed.groups;
    let group = groups.iter().find(|group| group.group.ends_with(name));
    group.unwrap_or_else(|| panic!("no group {name} in {groups:?}"))
}

/// And a change while the job runs, by the job itself.
#[test]
fn a_quota_of_the_group_and_its_change_are_told() {
    needs_root!();
    let Some(group) = QuotaGroup::create(37) else {
        crate::support::leave_out("no CPU controller here");
        return;
    };
    let (file, text) = match group.path.join("cpu.max").exists() {
        true => ("cpu.max", "91000 100000"),
        false => ("cpu.cfs_quota_us", "91000"),
    };
    let script = format!("echo {text} >{}", group.path.join(file).display());
    let confinement = format!("group={}", group.path.join("cgroup.procs").display());
    let measured = Weigh::bash(&script).within(confinement).end();
    measured.check(measured.status.success(), || "expected 0".to_string());
    assert_eq!(group_of(&measured, &group.path).cpu_quota_cores, Some(0.37));
    let allowed = &measured.summary().allowed;
    assert!(allowed.cpu_quota_cores.is_some_and(|cores| cores <= 0.37), "{allowed:?}");
    let change = allowed.changes.first().expect("one");
    assert_eq!(change.group.cpu_quota_cores, Some(0.91));
    assert!(change.at_seconds >= 0.0 && change.at_seconds <= measured.number("wall_seconds"));
}

#[test]
fn a_limit_of_memory_is_told() {
    needs_root!();
    const BYTES: u64 = 333 << 20;
    let Some(group) = SmallGroup::create("allowed", BYTES) else {
        crate::support::leave_out("no memory controller here");
        return;
    };
    let confinement = format!("group={}", group.0.join("cgroup.procs").display());
    let measured = Weigh::bash("true").within(confinement).end();
    assert_eq!(group_of(&measured, &group.0).memory_max_bytes, Some(BYTES));
    let least = measured.summary().allowed.memory_max_bytes;
    assert!(least.is_some_and(|bytes| bytes <= BYTES), "{least:?}");
}

/// Soft limits are what the command has, not what weigh has raised them to for itself.
#[test]
fn resource_limits_cpus_and_the_schedulers_request_are_told() {
    needs_root!();
    let variables =
        [("SLURM_JOB_ID", "4711"), ("SLURM_CPUS_ON_NODE", "3"), ("SLURM_MEM_PER_NODE", "1536")];
    let weigh = Weigh::bash("(echo files=$(ulimit -Sn); echo cpus=$(nproc)) >\"$TRUTH_FILE\"");
    let weigh = variables.into_iter().fold(weigh, |weigh, (name, value)| weigh.env(name, value));
    let measured = weigh.within("files=123").end();
    assert_eq!(measured.truth("files"), 123);
    let allowed = &measured.summary().allowed;
    assert_eq!(allowed.rlimits.get("open_files").and_then(|limit| limit.soft), Some(123));
    assert_eq!(allowed.cpus.map(u64::from), Some(measured.truth("cpus")));
    let request = allowed.scheduler.as_ref().expect("Slurm's");
    assert_eq!((request.name.as_str(), request.job.as_deref()), ("slurm", Some("4711")));
    assert_eq!((request.cpus, request.memory_bytes), (Some(3), Some(1536 << 20)));
}
