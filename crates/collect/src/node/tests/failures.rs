//! Each kind of failure of each collector that reads one file: it has no data, says since when and why, and comes back.

use super::*;

/// A collector, its file, what the kernel writes, a metric of it, and its value there.
const CASES: [(&str, &str, &str, &str, &str, f64); 8] = [
    (
        "cpu",
        "proc/stat",
        "cpu  100 0 0 0\ncpu0 100 0 0 0\n",
        "node",
        "node_cpu_user_seconds_total",
        1.0,
    ),
    ("load", "proc/loadavg", "0.50 1.25 2.00 3/77 9\n", "node", "node_load_5m_threads", 1.25),
    ("files", "proc/sys/fs/file-nr", "17\t0\t99\n", "node", "node_files_open", 17.0),
    ("memory", "proc/meminfo", "MemFree: 7 kB\n", "node", "node_memory_free_bytes", 7168.0),
    ("vmstat", "proc/vmstat", "oom_kill 3\n", "node", "node_oom_kills_total", 3.0),
    (
        "pressure",
        "proc/pressure/io",
        "some avg10=0.00 total=1500000\nfull avg10=0.00 total=0\n",
        "node",
        "node_pressure_io_some_seconds_total",
        1.5,
    ),
    ("disks", "proc/diskstats", "8 0 sda 7 0 3 1500\n", "disk:sda", "node_disk_reads_total", 7.0),
    (
        "interfaces",
        "proc/net/dev",
        " eth0: 9 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n",
        "interface:eth0",
        "node_net_received_bytes_total",
        9.0,
    ),
];

fn whole_tree() -> (tempfile::TempDir, NodeRoots) {
    let mut files: Vec<(&str, &str)> = CASES.iter().map(|case| (case.1, case.2)).collect();
    let pressure = "some avg10=0.00 total=5\nfull avg10=0.00 total=5\n";
    files.extend([("proc/pressure/cpu", pressure), ("proc/pressure/memory", pressure)]);
    files.push(("sys/block/sda/size", "1"));
    tree(&files)
}

/// What becomes of a file between two ticks.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Garbage,
    Empty,
    Huge,
}

fn broken(failure: Failure) -> Vec<u8> {
    match failure {
        Failure::Garbage => b"\x00\xff\xfe nothing\xff of it\n\n\x1b[2J\n".to_vec(),
        Failure::Empty => Vec::new(),
        Failure::Huge => b"y 1\n".repeat((4 << 20) / 4 + 1),
    }
}

#[test]
fn what_breaks_has_no_data_since_then_and_comes_back() {
    for (at, case) in CASES.iter().enumerate() {
        for failure in [Failure::Garbage, Failure::Empty, Failure::Huge] {
            // A machine without disks or interfaces is no failure.
            if matches!((case.0, failure), ("disks" | "interfaces", Failure::Empty)) {
                continue;
            }
            breaks_and_comes_back(at, failure);
        }
    }
}

fn breaks_and_comes_back(at: usize, failure: Failure) {
    let (name, file, text, scope, metric, expected) = CASES[at];
    let about = format!("{name}, {failure:?}");
    let (folder, roots) = whole_tree();
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    assert_eq!(value(&collectors, scope, metric), Some(expected), "{about}");
    std::fs::write(folder.path().join(file), broken(failure)).unwrap();
    collectors.tick(moment(1));
    let broken = status(&collectors, name);
    assert_eq!(broken.state, CollectorState::Degraded, "{about}: {broken:?}");
    assert_eq!((broken.last, broken.failures), (Some(moment(0)), 1), "{about}");
    let reason = broken.reason.expect("a reason");
    assert!(!reason.contains(|c: char| c.is_control()), "{about}: {reason:?}");
    assert_eq!(value(&collectors, scope, metric), None, "{about}: no old value, and no 0");
    for other in CASES.iter().filter(|case| case.0 != name) {
        assert_eq!(value(&collectors, other.3, other.4), Some(other.5), "{about}: {}", other.0);
    }
    // Said once: then nothing changes until it is back.
    collectors.tick(moment(3));
    assert!(!collectors.samples().any(|sample| sample.metric.name == metric), "{about}");
    assert_eq!(status(&collectors, name).failures, 2, "{about}");
    write(&folder.path().join(file), text);
    collectors.tick(moment(6));
    assert_eq!(value(&collectors, scope, metric), Some(expected), "{about}");
    let whole = status(&collectors, name);
    assert_eq!((whole.state, whole.last), (CollectorState::Active, Some(moment(6))), "{about}");
    assert_eq!((whole.reason, whole.failures), (None, 2), "{about}");
}

/// A folder stands for what can be opened and not read: root may read every file.
#[test]
fn what_cannot_be_opened_or_read_says_so_by_its_path() {
    for (name, file, ..) in CASES {
        for is_there in [false, true] {
            let (folder, roots) = whole_tree();
            let path = folder.path().join(file);
            std::fs::remove_file(&path).unwrap();
            if is_there {
                std::fs::create_dir(&path).unwrap();
            }
            let mut collectors = NodeCollectors::new(roots);
            collectors.tick(moment(0));
            let failed = status(&collectors, name);
            assert_eq!((failed.state, failed.last), (CollectorState::Unavailable, None), "{name}");
            assert!(failed.reason.is_some_and(|why| why.contains(file)), "{failed:?}");
            let others = CASES.iter().filter(|case| case.0 != name);
            others.for_each(|case| {
                assert_eq!(value(&collectors, case.3, case.4), Some(case.5), "{name}");
            });
        }
    }
}

#[test]
fn disks_and_interfaces_come_and_go() {
    let (folder, roots) = whole_tree();
    let mut collectors = NodeCollectors::new(roots);
    collectors.tick(moment(0));
    std::fs::create_dir_all(folder.path().join("sys/block/sdb")).unwrap();
    write(
        &folder.path().join("proc/diskstats"),
        "8 16 sdb 3 0 1 1\n8 17 sdb1 9 0 1 1\n8 0 sda 8 0 3 1500\n",
    );
    write(&folder.path().join("proc/net/dev"), " ib0: 4 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n");
    collectors.tick(moment(1));
    assert_eq!(value(&collectors, "disk:sdb", "node_disk_reads_total"), Some(3.0));
    assert_eq!(value(&collectors, "disk:sda", "node_disk_reads_total"), Some(8.0));
    assert_eq!(value(&collectors, "interface:ib0", "node_net_received_bytes_total"), Some(4.0));
    let scopes: Vec<String> = collectors.samples().map(|sample| sample.scope.to_string()).collect();
    for gone in ["disk:sdb1", "interface:eth0"] {
        assert!(!scopes.iter().any(|scope| scope == gone), "{scopes:?}");
    }
    // The last disk is pulled: that is no failure.
    write(&folder.path().join("proc/diskstats"), "");
    collectors.tick(moment(2));
    assert_eq!(status(&collectors, "disks").state, CollectorState::Active);
    assert!(!collectors.samples().any(|sample| sample.metric.name.starts_with("node_disk")));
}

/// The kernel writes no more of `/proc/vmstat` than is asked for; numbers before the last that is wanted grow.
#[test]
fn numbers_that_grow_are_found_where_the_text_is_cut() {
    let text = |width: usize| {
        let lines = (0..40).map(|n| format!("nr_{n} {}\n", "7".repeat(width)));
        lines.collect::<String>() + "oom_kill 3\n" + &"nr_after 1\n".repeat(400)
    };
    let (folder, roots) = tree(&[("proc/vmstat", &text(1))]);
    let mut collectors = NodeCollectors::new(roots);
    for (second, width) in [1, 1, 2, 9, 18, 3].into_iter().enumerate() {
        write(&folder.path().join("proc/vmstat"), &text(width));
        collectors.tick(moment(second as u64));
        assert_eq!(value(&collectors, "node", "node_oom_kills_total"), Some(3.0), "{width}");
    }
}
