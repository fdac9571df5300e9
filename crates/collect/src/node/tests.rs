use std::path::Path;

use super::*;
use weigh_schema::Number;

mod failures;
mod groups;
mod recorded;

/// A tree of files as the kernel would show it.
fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, NodeRoots) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let roots = NodeRoots { proc: folder.path().join("proc"), sys: folder.path().join("sys") };
    (folder, roots)
}

fn moment(seconds: u64) -> Moment {
    Moment::at_ns(1_000_000_000 * (1000 + seconds))
}

/// A value by the texts of its scope and its metric.
fn value(collectors: &NodeCollectors, scope: &str, metric: &str) -> Option<f64> {
    let is_it =
        |sample: &Sample<'_>| sample.metric.name == metric && sample.scope.to_string() == scope;
    collectors
        .samples()
        .find(is_it)
        .unwrap_or_else(|| panic!("{scope} has no {metric}"))
        .value
        .map(Number::as_f64)
}

fn status<'a>(collectors: &'a NodeCollectors, name: &str) -> NodeStatus<'a> {
    collectors.statuses().find(|status| status.name == name).unwrap()
}

fn write(root: &Path, text: &str) {
    std::fs::write(root, text).unwrap();
}

#[test]
fn one_that_fails_stops_no_other_and_comes_back() {
    let (folder, roots) = tree(&[
        ("proc/loadavg", "0.50 1.25 2.00 3/77 9\n"),
        ("proc/sys/fs/file-nr", "17\t0\t99\n"),
    ]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(value(&collectors, "node", "node_load_5m_threads"), Some(1.25));
    assert_eq!(value(&collectors, "node", "node_files_open"), Some(17.0));
    let cpu = status(&collectors, "cpu");
    assert_eq!((cpu.state, cpu.last, cpu.failures), (CollectorState::Unavailable, None, 1));
    assert!(cpu.reason.is_some_and(|reason| reason.contains("stat")), "{cpu:?}");
    // What is no load any more is no 0, and the others go on.
    write(&folder.path().join("proc/loadavg"), "nothing\n");
    collectors.tick(moment(1));
    assert_eq!(value(&collectors, "node", "node_load_5m_threads"), None);
    assert_eq!(value(&collectors, "node", "node_files_open"), Some(17.0));
    let load = status(&collectors, "load");
    assert_eq!(
        (load.state, load.last, load.failures),
        (CollectorState::Degraded, Some(moment(0)), 1)
    );
    // The pauses grow: 1, 2, 4 s.
    for (seconds, failures) in [(2, 2), (3, 2), (4, 3), (6, 3), (8, 4)] {
        collectors.tick(moment(seconds));
        assert_eq!(status(&collectors, "load").failures, failures, "after {seconds} s");
    }
    write(&folder.path().join("proc/loadavg"), "0.50 1.75 2.00 3/77 9\n");
    collectors.tick(moment(8 + 8));
    assert_eq!(value(&collectors, "node", "node_load_5m_threads"), Some(1.75));
    assert_eq!(status(&collectors, "load").state, CollectorState::Active);
}

#[test]
fn a_collector_that_is_off_is_not_read_and_its_values_are_not_known() {
    let (_folder, roots) = tree(&[("proc/loadavg", "0.50 1.25 2.00 3/77 9\n")]);
    let mut collectors = NodeCollectors::new(roots);
    assert!(!collectors.switch("nothing", false));
    collectors.tick(moment(0));
    assert!(collectors.switch("load", false));
    collectors.tick(moment(1));
    assert_eq!(value(&collectors, "node", "node_load_5m_threads"), None);
    let load = status(&collectors, "load");
    assert_eq!((load.state, load.failures), (CollectorState::Disabled, 0));
    // Said once.
    collectors.tick(moment(2));
    let is_of_load = |sample: &Sample<'_>| sample.metric.name.starts_with("node_load");
    assert!(!collectors.samples().any(|sample| is_of_load(&sample)));
    assert!(collectors.switch("load", true));
    collectors.tick(moment(3));
    assert_eq!(value(&collectors, "node", "node_load_5m_threads"), Some(1.25));
    assert_eq!(status(&collectors, "load").state, CollectorState::Active);
}

#[test]
fn cpus_come_and_go() {
    let both = "cpu  30 0 0 0\ncpu0 10 0 0 0\ncpu1 20 0 0 7 0 0 0 5 0 0\nctxt 12\n";
    let (folder, roots) = tree(&[("proc/stat", both)]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(value(&collectors, "core:1", "node_cpu_user_seconds_total"), Some(0.2));
    assert_eq!(value(&collectors, "core:1", "node_cpu_steal_seconds_total"), Some(0.05));
    assert_eq!(
        value(&collectors, "core:0", "node_cpu_steal_seconds_total"),
        None,
        "an old kernel has none"
    );
    assert_eq!(value(&collectors, "node", "node_context_switches_total"), Some(12.0));
    write(&folder.path().join("proc/stat"), "cpu  50 0 0 0\ncpu1 40 0 0 0\nctxt 13\n");
    collectors.tick(moment(1));
    let scopes: Vec<String> = collectors.samples().map(|sample| sample.scope.to_string()).collect();
    assert!(!scopes.contains(&"core:0".to_string()), "{scopes:?}");
    assert_eq!(value(&collectors, "core:1", "node_cpu_user_seconds_total"), Some(0.4));
    assert_eq!(value(&collectors, "node", "node_context_switches_total"), Some(13.0));
}

#[test]
fn memory_is_found_by_name_where_lines_move() {
    let (folder, roots) = tree(&[
        ("proc/meminfo", "MemTotal: 100 kB\nMemFree: 7 kB\n"),
        ("proc/vmstat", "nr_x 1\npgfault 5\noom_kill 3\nnr_y 9\n"),
    ]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(value(&collectors, "node", "node_memory_free_bytes"), Some(7.0 * 1024.0));
    assert_eq!(value(&collectors, "node", "node_memory_dirty_bytes"), None);
    assert_eq!(value(&collectors, "node", "node_oom_kills_total"), Some(3.0));
    write(
        &folder.path().join("proc/meminfo"),
        "MemTotal: 100 kB\nNew: 1 kB\nMemFree: 8 kB\nDirty: 2 kB\n",
    );
    write(&folder.path().join("proc/vmstat"), "nr_x 1\npgfault 6\noom_kill 4\nnr_y 9\n");
    collectors.tick(moment(1));
    assert_eq!(value(&collectors, "node", "node_memory_free_bytes"), Some(8.0 * 1024.0));
    assert_eq!(value(&collectors, "node", "node_memory_dirty_bytes"), Some(2048.0));
    assert_eq!(value(&collectors, "node", "node_oom_kills_total"), Some(4.0));
}

#[test]
fn disks_are_whole_ones_that_have_worked() {
    let line = |name: &str, reads| format!("8 0 {name} {reads} 0 3 1500 0 0 0 0 0 2000 0\n");
    let text = line("sda", 7) + &line("sda1", 7) + &line("cciss/c0", 9) + &line("loop0", 0);
    let (_folder, roots) = tree(&[
        ("proc/diskstats", &text),
        ("sys/block/sda/size", "1"),
        ("sys/block/cciss!c0/size", "1"),
        ("sys/block/loop0/size", "1"),
    ]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(value(&collectors, "disk:sda", "node_disk_read_bytes_total"), Some(1536.0));
    assert_eq!(value(&collectors, "disk:sda", "node_disk_read_seconds_total"), Some(1.5));
    assert_eq!(value(&collectors, "disk:sda", "node_disk_busy_seconds_total"), Some(2.0));
    assert_eq!(value(&collectors, "disk:cciss/c0", "node_disk_reads_total"), Some(9.0));
    let scopes: Vec<String> = collectors.samples().map(|sample| sample.scope.to_string()).collect();
    assert!(
        !scopes.iter().any(|scope| scope == "disk:sda1" || scope == "disk:loop0"),
        "{scopes:?}"
    );
}

#[test]
fn few_disks_are_read_by_their_own_files_and_one_that_goes_is_noticed() {
    let line = |name: &str, reads| format!("8 0 {name} {reads} 0 3 1500 0 0 0 0 0 2000 0\n");
    let own = |reads| format!("  {reads} 0 5 1500 0 0 0 0 0 2000 0\n");
    let (folder, roots) = tree(&[
        ("proc/diskstats", &line("sda", 7)),
        ("sys/block/sda/stat", &own(7)),
        ("sys/block/sdb/stat", &own(1)),
    ]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(value(&collectors, "disk:sda", "node_disk_read_bytes_total"), Some(1536.0));
    let layout = |collectors: &NodeCollectors| {
        let mut blocks = collectors.blocks();
        blocks
            .find(|block| block.samples().any(|one| one.metric.name.starts_with("node_disk")))
            .unwrap()
            .layout()
    };
    let before = layout(&collectors);
    write(&folder.path().join("sys/block/sda/stat"), &own(9));
    collectors.tick(moment(1));
    assert_eq!(value(&collectors, "disk:sda", "node_disk_reads_total"), Some(9.0));
    assert_eq!(value(&collectors, "disk:sda", "node_disk_read_bytes_total"), Some(2560.0));
    assert_eq!(layout(&collectors), before);
    // Its file has nothing any more, as where the disk has gone.
    write(&folder.path().join("sys/block/sda/stat"), "");
    write(&folder.path().join("proc/diskstats"), &line("sdb", 1));
    collectors.tick(moment(2));
    assert_eq!(value(&collectors, "disk:sdb", "node_disk_reads_total"), Some(1.0));
    assert!(!collectors.samples().any(|sample| sample.scope.to_string() == "disk:sda"));
}

/// The kernel counts each request in both files.
#[test]
fn the_disks_of_this_machine_are_those_of_diskstats() {
    let reads = |collectors: &NodeCollectors| -> Vec<(String, f64)> {
        let of_disks = |one: &Sample<'_>| one.metric.name == "node_disk_reads_total";
        let found = collectors.samples().filter(of_disks);
        found.map(|one| (one.scope.to_string(), one.value.unwrap().as_f64())).collect()
    };
    let (mut collectors, mut fresh) = (NodeCollectors::default(), NodeCollectors::default());
    collectors.tick(Moment::now());
    let before = reads(&collectors);
    collectors.tick(Moment::now());
    let between = reads(&collectors);
    fresh.tick(Moment::now());
    let after = reads(&fresh);
    // Another disk may have begun to work meanwhile.
    for (disk, count) in between {
        let of = |found: &[(String, f64)]| found.iter().find(|one| one.0 == disk).map(|one| one.1);
        assert!(of(&before) <= Some(count) && Some(count) <= of(&after), "{disk} {count}");
    }
}

#[test]
fn at_rest_what_is_slow_is_read_each_five_seconds() {
    let (folder, roots) = tree(&[
        ("proc/loadavg", "0.50 1.25 2.00 3/77 9\n"),
        ("proc/stat", "cpu  30 0 0 0\nctxt 12\n"),
    ]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.set_resting(true);
    let mut ticks = Vec::new();
    for second in 0..11 {
        write(&folder.path().join("proc/loadavg"), &format!("0.50 {second}.25 2.00 3/77 9\n"));
        if second == 7 {
            // Somebody reads: at once, and from then on each second.
            collectors.set_resting(false);
        }
        collectors.tick(moment(second));
        assert_eq!(value(&collectors, "node", "node_context_switches_total"), Some(12.0));
        let mut loads =
            collectors.samples().filter(|one| one.metric.name == "node_load_5m_threads");
        ticks.extend(loads.next().and_then(|one| one.value).map(|value| (second, value.as_f64())));
    }
    let expected = [0, 5, 7, 8, 9, 10].map(|second| (second, second as f64 + 0.25));
    assert_eq!(ticks, expected);
}

/// As a desktop of 2021 shows them; by the kernel's Documentation/hwmon/sysfs-interface.rst and
/// Documentation/power/powercap/powercap.rst.
#[test]
fn sensors_and_power_zones_of_a_written_tree() {
    let hwmon = "sys/class/hwmon";
    let zone = "sys/class/powercap/intel-rapl:0";
    let (folder, roots) = tree(&[
        (&format!("{hwmon}/hwmon0/name"), "coretemp\n"),
        (&format!("{hwmon}/hwmon0/temp1_label"), "Package id 0\n"),
        (&format!("{hwmon}/hwmon0/temp1_input"), "-45500\n"),
        (&format!("{hwmon}/hwmon1/name"), "power_meter\n"),
        (&format!("{hwmon}/hwmon1/power1_average"), "213000000\n"),
        (&format!("{hwmon}/hwmon1/temp2_input"), "broken\n"),
        (&format!("{zone}/name"), "package-0\n"),
        (&format!("{zone}/max_energy_range_uj"), "1000\n"),
        (&format!("{zone}/energy_uj"), "900\n"),
    ]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(
        value(&collectors, "sensor:hwmon0/coretemp/Package id 0", "node_sensor_celsius"),
        Some(-45.5)
    );
    assert_eq!(
        value(&collectors, "sensor:hwmon1/power_meter/power1", "node_sensor_watts"),
        Some(213.0)
    );
    assert_eq!(value(&collectors, "sensor:hwmon1/power_meter/temp2", "node_sensor_celsius"), None);
    let energy = |collectors: &NodeCollectors| {
        value(collectors, "power:intel-rapl:0/package-0", "node_power_zone_joules_total")
    };
    assert_eq!(energy(&collectors), Some(0.0));
    // The counter has wrapped.
    write(&folder.path().join(format!("{zone}/energy_uj")), "150\n");
    collectors.tick(moment(1));
    assert_eq!(energy(&collectors), Some(250.0 / 1e6));
}

/// In the form of the kernel's net/sunrpc/stats.c and fs/nfs/super.c (nfs_show_stats).
const MOUNTSTATS: &str = "device rootfs mounted on / with fstype rootfs\n\
    device server:/export mounted on /scratch\\040one with fstype nfs4 statvers=1.1\n\
    \topts:\trw,vers=4.2\n\
    \tage:\t105\n\
    \tbytes:\t11 12 0 0 4097 513 2 1 \n\
    \tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n\
    \txprt:\ttcp 0 0 2 0 48 7 7 0 7 0 2 0 0\n\
    \tper-op statistics\n\
    \t        NULL: 1 1 0 44 24 0 1 1 0\n\
    \t        READ: 7 9 1 1400 9000 3 1500 1700 2\n\
    \t       WRITE: 0 0 0 0 0 0 0 0 0\n\
    \n\
    device tmpfs mounted on /tmp with fstype tmpfs\n";

#[test]
fn nfs_tells_the_latency_of_each_operation() {
    let (_folder, roots) = tree(&[("proc/self/mountstats", MOUNTSTATS)]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(
        value(&collectors, "mount:/scratch one", "node_mount_read_bytes_total"),
        Some(4097.0)
    );
    assert_eq!(
        value(&collectors, "mount:/scratch one", "node_mount_written_bytes_total"),
        Some(513.0)
    );
    let read = "operation:READ:/scratch one";
    for (metric, expected) in [
        ("node_mount_operations_total", 7.0),
        ("node_mount_operation_retransmits_total", 2.0),
        ("node_mount_operation_timeouts_total", 1.0),
        ("node_mount_operation_seconds_total", 1.7),
        ("node_mount_operation_queue_seconds_total", 0.003),
        ("node_mount_operation_server_seconds_total", 1.5),
        ("node_mount_operation_errors_total", 2.0),
    ] {
        assert_eq!(value(&collectors, read, metric), Some(expected), "{metric}");
    }
    let is_write = |sample: Sample<'_>| sample.scope.to_string().starts_with("operation:WRITE");
    assert!(!collectors.samples().any(is_write), "nothing was written");
}

/// In the form of Lustre's lustre/obdclass/lprocfs_counters.c (lprocfs_stats_seq_show).
#[test]
fn lustre_tells_the_latency_where_it_is_timed() {
    let stats = "snapshot_time 1467.0 secs.nsecs\n\
        read_bytes 5 samples [bytes] 4096 1048576 2101249\n\
        open 18 samples [usec] 3 100 1234 56789\n\
        ioctl 3 samples [reqs]\n";
    let (_folder, roots) = tree(&[("proc/fs/lustre/llite/work-ffff88003fd2a800/stats", stats)]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    let mount = "work-ffff88003fd2a800";
    assert_eq!(
        value(&collectors, &format!("mount:{mount}"), "node_mount_read_bytes_total"),
        Some(2_101_249.0)
    );
    let open = format!("operation:open:{mount}");
    assert_eq!(value(&collectors, &open, "node_mount_operations_total"), Some(18.0));
    assert_eq!(value(&collectors, &open, "node_mount_operation_seconds_total"), Some(0.001_234));
    let ioctl = format!("operation:ioctl:{mount}");
    let is_time = |sample: Sample<'_>| {
        sample.scope.to_string() == ioctl
            && sample.metric.name == "node_mount_operation_seconds_total"
    };
    assert!(!collectors.samples().any(is_time), "what is not timed has no time");
}

#[test]
fn files_longer_than_a_page_are_read_to_their_end() {
    let interfaces = 300;
    let line = |n: usize| format!("  eth{n}: {n} 0 0 0 0 0 0 0 {n} 0 0 0 0 0 0 0\n");
    let text: String = (0..interfaces).map(line).collect();
    let (_folder, roots) = tree(&[("proc/net/dev", &text)]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(value(&collectors, "interface:eth299", "node_net_sent_bytes_total"), Some(299.0));
}

/// The kernel's own file, read before and after, holds each counter of CPU from both sides.
#[test]
fn cpu_time_is_the_kernels() {
    fn user_ticks() -> f64 {
        let text = std::fs::read_to_string("/proc/stat").unwrap();
        text.lines().next().unwrap().split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }
    let mut collectors = NodeCollectors::default();
    let before = user_ticks();
    let begun = std::time::Instant::now();
    while begun.elapsed().as_millis() < 200 {
        std::hint::spin_loop();
    }
    collectors.tick(Moment::now());
    let after = user_ticks();
    let user = value(&collectors, "node", "node_cpu_user_seconds_total").unwrap() * 100.0;
    assert!((before..=after).contains(&user.round()), "{before} {user} {after}");
}

/// An odd number of bytes over loopback raises its counters by at least that.
#[test]
fn loopback_counts_what_is_sent() {
    use std::net::UdpSocket;
    let mut collectors = NodeCollectors::default();
    let sent = |collectors: &mut NodeCollectors| {
        collectors.tick(Moment::now());
        value(collectors, "interface:lo", "node_net_sent_bytes_total").unwrap()
    };
    let before = sent(&mut collectors);
    let (here, there) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    for _ in 0..7 {
        here.send_to(&[7; 4097], there.local_addr().unwrap()).unwrap();
    }
    let after = sent(&mut collectors);
    assert!(after - before >= 7.0 * 4097.0, "{before} {after}");
}

/// Processes as a list of `/proc` has them, before and after.
#[test]
fn processes_are_as_many_as_are_listed() {
    let listed = || {
        file::names_in(Path::new("/proc"))
            .iter()
            .filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
            .count() as f64
    };
    if !crate::procfs::is_initial_pid_namespace() {
        return println!("ignored: a PID namespace lists only its own");
    }
    // Others start and end processes meanwhile.
    for _ in 0..20 {
        let (mut collectors, before) = (NodeCollectors::default(), listed());
        collectors.tick(Moment::now());
        let processes = value(&collectors, "node", "node_processes").unwrap();
        if before == listed() && processes == before {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("never as many as are listed");
}

#[test]
fn every_sample_is_of_a_declared_metric_of_the_node() {
    let mut collectors = NodeCollectors::default();
    collectors.tick(Moment::now());
    assert!(collectors.samples().count() >= 60);
    for sample in collectors.samples() {
        assert!(sample.metric.is_of_node());
        assert!(std::ptr::eq(weigh_schema::metric(sample.metric.name).unwrap(), sample.metric));
        assert_eq!(sample.value.is_none(), sample.quality == weigh_schema::Quality::Unavailable);
    }
}

#[test]
fn a_file_system_has_the_sizes_that_the_kernel_says() {
    let (_folder, roots) = tree(&[("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")]);
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    let found = rustix::fs::statvfs("/").unwrap();
    let all = value(&collectors, "mount:/", "node_filesystem_total_bytes");
    assert_eq!(all, Some((found.f_blocks * found.f_frsize) as f64));
    let available = value(&collectors, "mount:/", "node_filesystem_available_bytes");
    assert!(available > Some(0.0) && available < all, "{available:?}");
    let inodes = value(&collectors, "mount:/", "node_filesystem_inodes");
    assert_eq!(inodes, (found.f_files > 0).then_some(found.f_files as f64));
}

/// Who has found its samples once need not look for them again while the layout stays.
#[test]
fn a_layout_stays_as_long_as_each_place_has_its_sample() {
    let both = "cpu  30 0 0 0\ncpu0 10 0 0 0\ncpu1 20 0 0 0\nctxt 12\n";
    let (folder, roots) = tree(&[("proc/stat", both)]);
    let stat = folder.path().join("proc/stat");
    let mut collectors = NodeCollectors::new(roots);
    let mut tick = |seconds, text: &str| {
        write(&stat, text);
        collectors.tick(moment(seconds));
        let block = collectors.blocks().next().expect("of the CPUs");
        let places: Vec<String> = (0..block.places())
            .map(|place| {
                format!("{} {}", block.sample(place).scope, block.sample(place).metric.name)
            })
            .collect();
        (block.layout(), block.is_fresh(), places)
    };
    let first = tick(0, both);
    assert_eq!(first.2.len(), 31);
    assert_eq!(tick(1, &both.replace("12", "13")), first);
    let one_less = tick(2, "cpu  30 0 0 0\ncpu1 10 0 0 0\nctxt 12\n");
    assert!(one_less.0 != first.0 && one_less.2.len() == 21);
    // Of the same number, but another one.
    let other = tick(3, "cpu  30 0 0 0\ncpu0 10 0 0 0\nctxt 12\n");
    assert!(other.0 != one_less.0 && other.2.len() == 21);
    let no_total = tick(4, "cpu  30 0 0 0\ncpu0 10 0 0 0\n");
    assert!(no_total.0 != other.0 && no_total.2.len() == 20);
    // What cannot be read keeps its places: their values are not known.
    let failed = tick(5, "");
    assert_eq!((failed.0, failed.1, failed.2), (no_total.0, true, no_total.2));
}
