//! What a job is allowed: limits of the control groups that weigh is in, its CPUs, the resource limits that it was
//! started with, and what a batch system says it was asked for.
//!
//! Reads the groups' files, the affinity, the environment, and HTCondor's file of the job. Emits [`Allowed`]. What
//! cannot be read limits nothing that is known.

use std::collections::BTreeMap;
use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::Pid;
use weigh_parse::allowed::{condor_request, cores, cpu_max, limit, resource_limits, scheduler};
use weigh_schema::allowed::{
    Allowed, AllowedChange, AllowedGroup, ResourceLimit, SchedulerRequest,
};
use weigh_schema::byte_text;

use crate::{inherited, procfs};

/// Of a file that somebody else wrote, so much is read.
const MOST_BYTES: u64 = 1 << 16;

/// A group in a hierarchy.
struct GroupFolder {
    /// In the form that keeps its bytes.
    name: String,
    folder: PathBuf,
    version: HierarchyVersion,
}

/// Which files a group can have.
#[derive(Clone)]
enum HierarchyVersion {
    /// Those of the hierarchy's controllers, for good.
    V1(Vec<String>),
    /// Any: controllers are turned on and off while the group is there.
    V2,
}

/// The groups whose limits hold for the job, and how they are.
pub struct AllowedGroups {
    folders: Vec<GroupFolder>,
    known: Vec<AllowedGroup>,
}

/// What a command that weigh starts now is allowed.
pub fn begin() -> (Allowed, AllowedGroups) {
    let variable = |name: &str| std::env::var(name).ok();
    allowed(folders("self"), cpus(None), inherited::limits(), requested(&variable))
}

/// What a process is allowed that runs already.
pub fn begin_of(pid: u32) -> (Allowed, AllowedGroups) {
    let text = |name: &str| {
        let bytes = procfs::read_of(pid, name).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let environment = text("environ");
    let variable = |name: &str| {
        let mut variables = environment.split('\0').filter_map(|pair| pair.split_once('='));
        variables.find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
    };
    let cpus = Pid::from_raw(pid.cast_signed()).and_then(|pid| cpus(Some(pid)));
    let limits = resource_limits(&text("limits"));
    allowed(folders(&pid.to_string()), cpus, limits, requested(&variable))
}

fn allowed(
    folders: Vec<GroupFolder>,
    cpus: Option<u32>,
    rlimits: BTreeMap<String, ResourceLimit>,
    scheduler: Option<SchedulerRequest>,
) -> (Allowed, AllowedGroups) {
    let known = groups(&folders);
    let cpu_quota_cores =
        known.iter().filter_map(|group| group.cpu_quota_cores).min_by(f64::total_cmp);
    let allowed = Allowed {
        cpus,
        cpu_quota_cores,
        memory_max_bytes: known.iter().filter_map(|group| group.memory_max_bytes).min(),
        groups: known.iter().filter(|group| group.is_limiting()).cloned().collect(),
        rlimits,
        scheduler,
        changes: Vec::new(),
    };
    (allowed, AllowedGroups { folders, known })
}

impl AllowedGroups {
    /// The groups whose limits have changed since the last look.
    pub fn changes(&mut self, at_seconds: f64) -> Vec<AllowedChange> {
        let now = groups(&self.folders);
        let changed = now.iter().filter(|group| !self.known.contains(group)).cloned();
        let changes = changed.map(|group| AllowedChange { at_seconds, group }).collect();
        self.known = now;
        changes
    }
}

fn cpus(pid: Option<Pid>) -> Option<u32> {
    rustix::thread::sched_getaffinity(pid).ok().map(|set| set.count())
}

fn requested(variable: &dyn Fn(&str) -> Option<String>) -> Option<SchedulerRequest> {
    scheduler(variable)
        .or_else(|| Some(condor_request(&read(Path::new(&variable("_CONDOR_JOB_AD")?))?)))
}

/// A name comes from the environment: what is no file (a pipe, a device) is not opened, and nothing is waited for.
fn read(path: &Path) -> Option<String> {
    let is_file = |metadata: io::Result<Metadata>| metadata.is_ok_and(|about| about.is_file());
    if !is_file(std::fs::metadata(path)) {
        return None;
    }
    let how = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(how).open(path).ok()?;
    if !is_file(file.metadata()) {
        return None;
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The groups that a process is in and those above, in every hierarchy that is mounted.
fn folders(process: &str) -> Vec<GroupFolder> {
    let own = procfs::read(format!("/proc/{process}/cgroup")).unwrap_or_default();
    folders_of(&own, procfs::group_mounts())
}

/// The same by the text of `/proc/PID/cgroup`.
fn folders_of(own: &[u8], mounts: &[procfs::Mount]) -> Vec<GroupFolder> {
    let mut folders = Vec::new();
    for line in procfs::parse_cgroup(own) {
        let is_v2 = line.hierarchy == 0;
        let version = match is_v2 {
            true => HierarchyVersion::V2,
            false => HierarchyVersion::V1(line.controllers.clone()),
        };
        let is_its = |mount: &&procfs::Mount| match is_v2 {
            true => mount.kind == "cgroup2",
            false => {
                let has = |name: &String| mount.options.split(',').any(|option| option == name);
                mount.kind == "cgroup" && line.controllers.iter().any(has)
            }
        };
        let Some(mount) = mounts.iter().find(is_its) else { continue };
        // In a container the mount shows only a part of the hierarchy.
        let Ok(below) = line.path.strip_prefix(&mount.root) else { continue };
        let group = mount.point.join(below);
        let above = group.ancestors().take_while(|path| path.starts_with(&mount.point));
        folders.extend(above.map(|folder| GroupFolder {
            name: name_in(&mount.root, &mount.point, folder),
            folder: folder.to_path_buf(),
            version: version.clone(),
        }));
    }
    folders
}

/// A group's path as `/proc/PID/cgroup` has it.
fn name_in(root: &Path, point: &Path, folder: &Path) -> String {
    let name = match folder.strip_prefix(point) {
        Ok(below) if !below.as_os_str().is_empty() => root.join(below),
        _ => root.to_path_buf(),
    };
    byte_text::keep(name.as_os_str().as_encoded_bytes())
}

/// How the groups are now. One that several hierarchies have is one.
fn groups(folders: &[GroupFolder]) -> Vec<AllowedGroup> {
    let mut found: Vec<AllowedGroup> = Vec::new();
    for folder in folders {
        let group = limits_of(folder);
        let is_same = |known: &&mut AllowedGroup| {
            (&known.group, &known.group_base64) == (&group.group, &group.group_base64)
        };
        match found.iter_mut().find(is_same) {
            Some(known) => join(known, group),
            None => found.push(group),
        }
    }
    found
}

fn join(known: &mut AllowedGroup, other: AllowedGroup) {
    known.cpu_quota_cores = known.cpu_quota_cores.or(other.cpu_quota_cores);
    known.memory_max_bytes = known.memory_max_bytes.or(other.memory_max_bytes);
    known.memory_high_bytes = known.memory_high_bytes.or(other.memory_high_bytes);
    known.swap_max_bytes = known.swap_max_bytes.or(other.swap_max_bytes);
    known.tasks_max = known.tasks_max.or(other.tasks_max);
}

fn limits_of(group: &GroupFolder) -> AllowedGroup {
    let text = |file: &str| String::from_utf8(procfs::read(group.folder.join(file)).ok()?).ok();
    let number = |file: &str| limit(&text(file)?);
    let named = AllowedGroup {
        group: byte_text::shown(&group.name),
        group_base64: byte_text::base64(&group.name),
        ..AllowedGroup::default()
    };
    match &group.version {
        HierarchyVersion::V2 => AllowedGroup {
            cpu_quota_cores: text("cpu.max").as_deref().and_then(cpu_max),
            memory_max_bytes: number("memory.max"),
            memory_high_bytes: number("memory.high"),
            swap_max_bytes: number("memory.swap.max"),
            tasks_max: number("pids.max"),
            ..named
        },
        HierarchyVersion::V1(controllers) => {
            let has = |controller: &str| controllers.iter().any(|its| its == controller);
            let signed = |file: &str| text(file)?.trim().parse::<i64>().ok();
            let quota = || {
                let (quota, period) =
                    signed("cpu.cfs_quota_us").zip(signed("cpu.cfs_period_us"))?;
                cores(quota, period)
            };
            let of_memory = |file| if has("memory") { number(file) } else { None };
            AllowedGroup {
                cpu_quota_cores: if has("cpu") { quota() } else { None },
                memory_max_bytes: of_memory("memory.limit_in_bytes"),
                swap_max_bytes: of_memory("memory.memsw.limit_in_bytes"),
                tasks_max: if has("pids") { number("pids.max") } else { None },
                ..named
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(controllers: &[&str]) -> HierarchyVersion {
        HierarchyVersion::V1(controllers.iter().map(|name| (*name).to_owned()).collect())
    }

    fn folder(
        files: &[(&str, &str)],
        version: HierarchyVersion,
    ) -> (tempfile::TempDir, GroupFolder) {
        let scratch = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            std::fs::write(scratch.path().join(name), text).expect("a file");
        }
        let group =
            GroupFolder { name: "/a".to_string(), folder: scratch.path().to_path_buf(), version };
        (scratch, group)
    }

    #[test]
    fn both_versions_say_the_same() {
        let (_one, v2) = folder(
            &[("cpu.max", "50000 100000\n"), ("memory.max", "4096\n"), ("pids.max", "max\n")],
            HierarchyVersion::V2,
        );
        let (_other, v1) = folder(
            &[
                ("cpu.cfs_quota_us", "50000\n"),
                ("cpu.cfs_period_us", "100000\n"),
                ("memory.limit_in_bytes", "4096\n"),
            ],
            v1(&["cpu", "cpuacct", "memory"]),
        );
        let expected = AllowedGroup {
            group: "/a".to_string(),
            cpu_quota_cores: Some(0.5),
            memory_max_bytes: Some(4096),
            ..AllowedGroup::default()
        };
        assert_eq!((limits_of(&v2), limits_of(&v1)), (expected.clone(), expected));
    }

    #[test]
    fn a_group_whose_name_is_no_text_limits_as_others_do() {
        let scratch = tempfile::tempdir().expect("a folder");
        let point = scratch.path().to_str().expect("a text");
        for (byte, limit) in [(0xff, "4096"), (0xfe, "8192")] {
            let name = procfs::path_of(vec![b'a', byte]);
            std::fs::create_dir(scratch.path().join(&name)).expect("a folder");
            let file = scratch.path().join(name).join("memory.max");
            std::fs::write(file, limit).expect("a file");
        }
        let mounts = format!("30 1 0:26 / {point} rw - cgroup2 cgroup2 rw\n");
        let mounts = procfs::parse_mountinfo(mounts.as_bytes());
        let mut all = folders_of(b"0::/a\xff\n", &mounts);
        all.extend(folders_of(b"0::/a\xfe\n", &mounts));
        let groups = groups(&all);
        let limiting = groups.iter().filter(|group| group.is_limiting());
        let limits: Vec<_> = limiting
            .map(|g| (g.group.as_str(), g.group_base64.as_deref(), g.memory_max_bytes))
            .collect();
        let expected = [("L2H/", 4096), ("L2H+", 8192)]
            .map(|(name, limit)| ("/a\u{fffd}", Some(name), Some(limit)));
        assert_eq!(limits, expected);
    }

    /// Asking for the files of all controllers in every hierarchy took a tenth of the time of a short run.
    #[test]
    fn of_a_hierarchy_only_what_its_controllers_have_is_read() {
        let files = [("memory.limit_in_bytes", "4096"), ("pids.max", "7")];
        let limits = |version| {
            let (_scratch, group) = folder(&files, version);
            let limits = limits_of(&group);
            (limits.memory_max_bytes, limits.tasks_max)
        };
        assert_eq!(limits(v1(&["memory"])), (Some(4096), None));
        assert_eq!(limits(v1(&["cpuset", "pids"])), (None, Some(7)));
        assert_eq!(limits(v1(&["name=systemd"])), (None, None));
    }

    /// Opening a pipe waits for its other end, for ever if there is none.
    #[test]
    fn what_is_no_file_is_neither_opened_nor_waited_for() {
        let scratch = tempfile::tempdir().expect("a folder");
        let pipe = scratch.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        assert_eq!(read(&pipe), None);
        assert_eq!(read(Path::new("/dev/zero")), None);
        let file = scratch.path().join("file");
        std::fs::write(&file, "RequestCpus = 2").expect("a file");
        assert_eq!(read(&file).as_deref(), Some("RequestCpus = 2"));
    }

    #[test]
    fn a_group_of_several_hierarchies_is_one() {
        let (_one, cpu) =
            folder(&[("cpu.cfs_quota_us", "50000"), ("cpu.cfs_period_us", "100000")], v1(&["cpu"]));
        let (_other, memory) = folder(&[("memory.limit_in_bytes", "4096")], v1(&["memory"]));
        let groups = groups(&[cpu, memory]);
        assert_eq!(groups.len(), 1);
        assert_eq!(
            (groups[0].cpu_quota_cores, groups[0].memory_max_bytes),
            (Some(0.5), Some(4096))
        );
    }

    #[test]
    fn a_change_is_told_once() {
        let (scratch, group) = folder(&[("memory.max", "4096")], HierarchyVersion::V2);
        let folders = vec![group];
        let known = groups(&folders);
        let mut allowed = AllowedGroups { folders, known };
        assert!(allowed.changes(1.0).is_empty());
        std::fs::write(scratch.path().join("memory.max"), "8192").expect("a file");
        let changes = allowed.changes(2.0);
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].at_seconds, changes[0].group.memory_max_bytes), (2.0, Some(8192)));
        assert!(allowed.changes(3.0).is_empty());
    }

    #[test]
    fn names_are_those_of_the_hierarchy() {
        let name = |root: &str, folder: &str| {
            name_in(Path::new(root), Path::new("/sys/fs/cgroup"), Path::new(folder))
        };
        assert_eq!(name("/", "/sys/fs/cgroup/a/b"), "/a/b");
        assert_eq!(name("/", "/sys/fs/cgroup"), "/");
        assert_eq!(name("/docker/x", "/sys/fs/cgroup/y"), "/docker/x/y");
        assert_eq!(name("/docker/x", "/sys/fs/cgroup"), "/docker/x");
    }
}
