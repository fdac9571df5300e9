//! Control groups from written trees, by the layouts that `parse` has the sources of.

use std::path::PathBuf;

use super::*;

const ID: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";

const VERSION_2: &str = "31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const VERSION_1: &str = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
    31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
    32 24 0:28 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
    33 24 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";

fn add(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn group<'a>(collectors: &'a NodeCollectors, scope: &str) -> &'a NodeGroup {
    let is_it = |group: &&NodeGroup| group.scope.to_string() == scope;
    let known = || collectors.groups().map(|group| &group.scope).collect::<Vec<_>>();
    collectors.groups().find(is_it).unwrap_or_else(|| panic!("no {scope}: {:?}", known()))
}

fn why_missing(group: &NodeGroup, metric: &str) -> String {
    let found = group.missing.iter().find(|(missing, _)| missing.name == metric);
    found.unwrap_or_else(|| panic!("{metric} is there: {group:?}")).1.clone()
}

const PRESSURE: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n\
    full avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n";

/// Files of a group of version 2, in the form of Documentation/admin-guide/cgroup-v2.rst.
fn version_2_files(folder: &str) -> Vec<(String, &'static str)> {
    [
        ("cpu.stat", "usage_usec 3000001\nuser_usec 2\nsystem_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec 1250000\n"),
        ("memory.current", "40961\n"),
        ("memory.max", "max\n"),
        ("memory.events", "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n"),
        ("io.stat", "8:0 rbytes=4097 wbytes=513 rios=1 wios=1 dbytes=0 dios=0\n"),
        ("pids.current", "11\n"),
        ("cpu.pressure", PRESSURE),
        ("memory.pressure", PRESSURE),
        ("io.pressure", PRESSURE),
    ]
    .map(|(name, text)| (format!("{folder}/{name}"), text))
    .into()
}

fn add_version_2(root: &Path, folder: &str) {
    for (path, text) in version_2_files(folder) {
        add(root, &[(&path, text)]);
    }
}

#[test]
fn a_job_of_slurm_in_version_2_has_all() {
    let (folder, roots) = tree(&[("proc/self/mountinfo", VERSION_2)]);
    let job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_8";
    add_version_2(folder.path(), job);
    add(folder.path(), &[(&format!("{job}/step_0/user/task_0/cgroup.procs"), "77\n")]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    let scope = "group:/system.slice/slurmstepd.scope/job_8";
    for (metric, expected) in [
        ("node_group_cpu_seconds_total", Some(3.000001)),
        ("node_group_cpu_throttled_seconds_total", Some(1.25)),
        ("node_group_memory_bytes", Some(40961.0)),
        ("node_group_memory_limit_bytes", None),
        ("node_group_oom_kills_total", Some(2.0)),
        ("node_group_read_bytes_total", Some(4097.0)),
        ("node_group_written_bytes_total", Some(513.0)),
        ("node_group_threads", Some(11.0)),
        ("node_group_pressure_cpu_some_seconds_total", Some(2.5)),
        ("node_group_pressure_memory_full_seconds_total", Some(0.5)),
        ("node_group_pressure_io_some_seconds_total", Some(2.5)),
    ] {
        assert_eq!(value(&collectors, scope, metric), expected, "{metric}");
    }
    let job = group(&collectors, scope);
    assert_eq!((job.kind, job.manager, job.name.as_str()), (GroupKind::Slurm, "slurm", "8"));
    assert_eq!(job.missing, []);
    // The scope that holds the jobs is a unit; what is below a job is the job's.
    assert_eq!(collectors.groups().count(), 2);
}

/// The layout of cgroup_exporter's recorded tree.
#[test]
fn a_job_of_slurm_in_version_1_has_what_is_mounted() {
    let (folder, roots) = tree(&[("proc/self/mountinfo", VERSION_1)]);
    let job = "slurm/uid_20821/job_10";
    add(
        folder.path(),
        &[
            (&format!("sys/fs/cgroup/cpu,cpuacct/{job}/cpuacct.usage"), "1234567890\n"),
            (
                &format!("sys/fs/cgroup/cpu,cpuacct/{job}/cpu.stat"),
                "nr_periods 4\nnr_throttled 3\nthrottled_time 1500000000\n",
            ),
            (&format!("sys/fs/cgroup/memory/{job}/memory.usage_in_bytes"), "8193\n"),
            (&format!("sys/fs/cgroup/memory/{job}/memory.limit_in_bytes"), "9223372036854771712\n"),
            (
                &format!("sys/fs/cgroup/memory/{job}/memory.oom_control"),
                "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n",
            ),
        ],
    );
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    let scope = "group:/slurm/uid_20821/job_10";
    for (metric, expected) in [
        ("node_group_cpu_seconds_total", Some(1.23456789)),
        ("node_group_cpu_throttled_seconds_total", Some(1.5)),
        ("node_group_memory_bytes", Some(8193.0)),
        ("node_group_memory_limit_bytes", None),
        ("node_group_oom_kills_total", Some(5.0)),
        ("node_group_read_bytes_total", None),
    ] {
        assert_eq!(value(&collectors, scope, metric), expected, "{metric}");
    }
    let job = group(&collectors, scope);
    assert_eq!((job.uid, job.name.as_str()), (Some(20821), "10"));
    let why = why_missing(job, "node_group_read_bytes_total");
    assert_eq!(why, "the group is not in the hierarchy of blkio");
    let why = why_missing(job, "node_group_threads");
    assert_eq!(why, "no hierarchy with the controller pids is mounted");
    let why = why_missing(job, "node_group_pressure_io_some_seconds_total");
    assert_eq!(why, "control groups of version 2 are not mounted");
}

/// Version 1 has the controllers, and a unit has no memory accounting: its values are not known, and not 0.
#[test]
fn a_hybrid_machine_says_what_it_has_not() {
    let hybrid = VERSION_1.to_string() + "34 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n";
    let (folder, roots) = tree(&[("proc/self/mountinfo", &hybrid)]);
    let unit = "system.slice/a\\x2d\x07.service";
    add(
        folder.path(),
        &[
            (&format!("sys/fs/cgroup/unified/{unit}/io.pressure"), PRESSURE),
            (&format!("sys/fs/cgroup/unified/{unit}/cpu.stat"), "usage_usec 7\n"),
            (&format!("sys/fs/cgroup/cpu,cpuacct/{unit}/cpuacct.usage"), "garbage\n"),
        ],
    );
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    let scope = format!("group:/{unit}");
    assert_eq!(value(&collectors, &scope, "node_group_pressure_io_full_seconds_total"), Some(0.5));
    assert_eq!(value(&collectors, &scope, "node_group_memory_bytes"), None);
    assert_eq!(value(&collectors, &scope, "node_group_cpu_seconds_total"), None, "garbage is no 0");
    let unit = group(&collectors, &scope);
    let why = why_missing(unit, "node_group_memory_bytes");
    assert_eq!(why, "the group is not in the hierarchy of memory");
    let once = |metric: &str| {
        let of = |sample: &Sample<'_>| sample.metric.name == metric;
        assert_eq!(collectors.samples().filter(of).count(), 1, "{metric}");
    };
    ["node_group_cpu_seconds_total", "node_group_threads"].into_iter().for_each(once);
}

#[test]
fn groups_come_and_go_between_ticks() {
    let (folder, roots) = tree(&[("proc/self/mountinfo", VERSION_2)]);
    let root = folder.path().join("sys/fs/cgroup");
    std::fs::create_dir_all(root.join("system.slice")).unwrap();
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(collectors.groups().count(), 0);
    assert_eq!(status(&collectors, "groups").state, CollectorState::Active);
    let docker = format!("sys/fs/cgroup/system.slice/docker-{ID}.scope");
    add_version_2(folder.path(), &docker);
    collectors.tick(moment(1));
    let scope = format!("group:/system.slice/docker-{ID}.scope");
    assert_eq!(group(&collectors, &scope).name, ID);
    assert_eq!(value(&collectors, &scope, "node_group_threads"), Some(11.0));
    // Another of the same name: the open files are the old one's.
    std::fs::remove_dir_all(folder.path().join(&docker)).unwrap();
    add(folder.path(), &[(&format!("{docker}/pids.current"), "3\n")]);
    collectors.tick(moment(2));
    assert_eq!(status(&collectors, "groups").failures, 0);
    std::fs::remove_dir_all(folder.path().join(&docker)).unwrap();
    collectors.tick(moment(3));
    assert_eq!(collectors.groups().count(), 0);
    assert!(!collectors.samples().any(|sample| sample.metric.name.starts_with("node_group")));
}

#[test]
fn more_groups_than_there_is_room_for_are_counted() {
    let (folder, roots) = tree(&[("proc/self/mountinfo", VERSION_2)]);
    for number in 0..group_tree::MOST_GROUPS + 3 {
        let unit = format!("sys/fs/cgroup/system.slice/{number}.service/pids.current");
        add(folder.path(), &[(&unit, "1\n")]);
    }
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(collectors.groups().count(), group_tree::MOST_GROUPS);
    let left_out = 3 * group_source::METRICS_OF_GROUP;
    assert_eq!(status(&collectors, "groups").left_out, left_out);
    let has_value = |sample: &Sample<'_>| {
        sample.metric.name == "node_group_threads" && sample.value == Some(Number::Whole(1))
    };
    assert_eq!(collectors.samples().filter(has_value).count(), group_tree::MOST_GROUPS);
}

/// In the form of Documentation/gpu/drm-usage-stats.rst; amdgpu's attributes by its amdgpu_pm.c and amdgpu_vram_mgr.c.
#[test]
fn a_gpu_without_nvml_is_the_sum_of_its_clients() {
    let (folder, roots) = tree(&[
        ("sys/devices/0000:0c:00.0/mem_info_vram_total", "17163091968\n"),
        ("sys/devices/0000:0c:00.0/mem_info_vram_used", "4097\n"),
        ("sys/devices/0000:0c:00.0/gpu_busy_percent", "25\n"),
    ]);
    let root = folder.path();
    let node = root.join("sys/class/drm/renderD128");
    std::fs::create_dir_all(&node).unwrap();
    std::os::unix::fs::symlink(root.join("sys/devices/0000:0c:00.0"), node.join("device")).unwrap();
    let client = |pid: u32, fd: u32, id: u32, engine_ns: u64| {
        let process: PathBuf = root.join(format!("proc/{pid}"));
        std::fs::create_dir_all(process.join("fd")).unwrap();
        let _ = std::os::unix::fs::symlink("/dev/dri/renderD128", process.join(format!("fd/{fd}")));
        let text = format!(
            "drm-driver:\tamdgpu\ndrm-pdev:\t0000:0c:00.0\ndrm-client-id:\t{id}\n\
             drm-engine-gfx:\t{engine_ns} ns\ndrm-engine-compute:\t1 ns\ndrm-memory-vram:\t3 KiB\n"
        );
        add(&process, &[(&format!("fdinfo/{fd}"), &text)]);
    };
    // One client, by two descriptors.
    client(7, 3, 1, 1_000_000_000);
    client(7, 4, 1, 1_000_000_000);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    let gpu = "gpu:0000:0c:00.0";
    assert_eq!(value(&collectors, gpu, "node_gpu_engine_seconds_total"), Some(0.0));
    assert_eq!(value(&collectors, gpu, "node_gpu_clients"), Some(1.0));
    assert_eq!(value(&collectors, gpu, "node_gpu_resident_bytes"), Some(3072.0));
    assert_eq!(value(&collectors, gpu, "node_gpu_memory_used_bytes"), Some(4097.0));
    assert_eq!(value(&collectors, gpu, "node_gpu_utilization_ratio"), Some(0.25));
    client(7, 3, 1, 1_500_000_000);
    client(7, 4, 1, 1_500_000_000);
    client(8, 3, 2, 250_000_000);
    collectors.tick(moment(5));
    let engines = value(&collectors, gpu, "node_gpu_engine_seconds_total");
    assert_eq!(engines, Some(0.750000001), "the new client's engines are two");
    // A client that has ended takes nothing with it.
    std::fs::remove_dir_all(root.join("proc/7")).unwrap();
    collectors.tick(moment(10));
    assert_eq!(value(&collectors, gpu, "node_gpu_engine_seconds_total"), engines);
    assert_eq!(value(&collectors, gpu, "node_gpu_clients"), Some(1.0));
}
