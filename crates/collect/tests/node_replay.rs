//! A busy node, replayed: 20,000 ticks (5 h and 33 min at 1 Hz; `WEIGH_REPLAY_TICKS=259200` are 72 h) over files that change,
//! break and come back, while disks, interfaces and control groups come and go. Memory stays flat, and each value of a
//! counter is emitted, or its collector says that it failed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use weigh_collect::clock::Moment;
use weigh_collect::node::{NodeCollectors, NodeRoots};
use weigh_schema::Number;

/// Counts what is allocated and not freed.
struct LiveAllocator;

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all is handed on to the system's allocator as it came; the counts need no memory.
unsafe impl GlobalAlloc for LiveAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: LiveAllocator = LiveAllocator;

const TICKS: u64 = 20_000;
/// Ticks after which the machine has been in each of its states.
const WARM_UP: u64 = 2_000;

fn write(path: PathBuf, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}

/// The machine at a tick: its counters are the tick's number.
fn change(root: &Path, tick: u64) {
    let proc = |name: &str| root.join("proc").join(name);
    let cores: String = (0..2 + tick % 7).map(|core| format!("cpu{core} {tick} 0 0 0\n")).collect();
    write(proc("stat"), &format!("cpu  {tick} 0 0 0\n{cores}ctxt {tick}\nprocesses {tick}\n"));
    if tick.is_multiple_of(5) {
        write(proc("loadavg"), &format!("0.50 {}.25 2.00 3/77 9\n", tick % 100));
        write(proc("meminfo"), &format!("MemTotal: 100 kB\nMemFree: {} kB\n", tick % 100_000));
        let disk = |n: u64| format!("8 {n} sd{n} {tick} 0 3 1500\n");
        write(proc("diskstats"), &(0..1 + tick % 4).map(disk).collect::<String>());
        let interface = |n: u64| format!(" veth{tick}_{n}: {tick} 0 0 0 0 0 0 0 {tick} 0\n");
        write(proc("net/dev"), &(0..3).map(interface).collect::<String>());
    }
    match tick % 400 {
        // Breaks for a while, in different ways.
        100 => write(proc("vmstat"), "garbage\n"),
        101..=150 => {}
        151 => drop(std::fs::remove_file(proc("vmstat"))),
        152..=200 => {}
        _ => write(proc("vmstat"), &format!("nr_x 1\noom_kill {tick}\n")),
    }
    if tick.is_multiple_of(50) {
        let job = |number: u64| root.join(format!("sys/fs/cgroup/slurm/uid_7/job_{number}"));
        write(job(tick).join("pids.current"), "3\n");
        write(job(tick).join("cpu.stat"), &format!("usage_usec {tick}\n"));
        if let Some(old) = tick.checked_sub(150) {
            let _ = std::fs::remove_dir_all(job(old));
        }
    }
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

/// What a collector of one counter has said over all ticks.
#[derive(Default)]
struct Tally {
    values: u64,
    latest: Option<Number>,
    failures: u64,
    ticks_without: u64,
}

impl Tally {
    fn take(&mut self, collectors: &NodeCollectors, metric: &str, collector: &str, tick: u64) {
        let of_node = |scope: &str| scope == "node";
        let is_it = |sample: &weigh_schema::sample::Sample<'_>| {
            sample.metric.name == metric && of_node(&sample.scope.to_string())
        };
        let value = collectors.samples().find(is_it).and_then(|sample| sample.value);
        let status = collectors.statuses().find(|status| status.name == collector).expect("it");
        match value {
            Some(value) => {
                assert_eq!(value.as_f64(), tick as f64, "{metric} at {tick}");
                assert!(status.reason.is_none());
                (self.values, self.latest) = (self.values + 1, Some(value));
            }
            // Nothing is lost without a word: there is a reason, and since when.
            None => {
                assert!(status.reason.is_some() && status.last.is_some(), "{status:?} at {tick}");
                self.ticks_without += 1;
            }
        }
        self.failures = status.failures;
    }
}

#[test]
fn memory_is_flat_and_nothing_is_lost_without_a_word() {
    let ticks = std::env::var("WEIGH_REPLAY_TICKS").ok().and_then(|text| text.parse().ok());
    let ticks = ticks.unwrap_or(TICKS);
    // 60,000 files are written: better in memory.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.expect("a folder");
    let root = folder.path();
    let mounts = "31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    write(root.join("proc/self/mountinfo"), mounts);
    std::fs::create_dir_all(root.join("sys/fs/cgroup")).expect("a folder");
    let blocks = (0..4).map(|n| root.join(format!("sys/block/sd{n}/size")));
    blocks.for_each(|path| write(path, "1\n"));
    let mut collectors =
        NodeCollectors::new(NodeRoots { proc: root.join("proc"), sys: root.join("sys") });
    let (mut switches, mut kills) = (Tally::default(), Tally::default());
    let mut at_warm = (0, 0);
    let (mut most_groups, mut job_ticks) = (0, 0);
    for tick in 1..=ticks {
        change(root, tick);
        collectors.tick(Moment::at_ns(tick * 1_000_000_000));
        switches.take(&collectors, "node_context_switches_total", "cpu", tick);
        kills.take(&collectors, "node_oom_kills_total", "vmstat", tick);
        let groups = collectors.groups().count();
        most_groups = most_groups.max(groups);
        job_ticks += u64::from(groups > 0);
        if tick == WARM_UP {
            at_warm = (LIVE_BYTES.load(Ordering::Relaxed), resident_bytes());
        }
    }
    let (live, resident) = (LIVE_BYTES.load(Ordering::Relaxed), resident_bytes());
    assert!((live - at_warm.0).abs() < 64 << 10, "{live} bytes, after warm-up {}", at_warm.0);
    assert!(resident < at_warm.1 + (2 << 20), "{resident} resident, after warm-up {}", at_warm.1);
    assert_eq!((switches.values, switches.failures), (ticks, 0));
    assert_eq!(kills.values + kills.ticks_without, ticks);
    assert!(kills.failures > 0 && kills.ticks_without >= kills.failures, "{}", kills.failures);
    assert!((1..=5).contains(&most_groups), "{most_groups} groups at once");
    assert!(job_ticks + 60 > ticks, "{job_ticks} of {ticks} ticks with a job");
    // A machine that does not change costs no allocation.
    let mut quiet = (1..=30).map(|later| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        collectors.tick(Moment::at_ns((ticks + later) * 1_000_000_000));
        ALLOCATIONS.load(Ordering::Relaxed) - before
    });
    assert_eq!(quiet.by_ref().min(), Some(0));
}
