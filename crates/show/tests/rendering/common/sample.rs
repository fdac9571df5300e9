//! An invented recording, realistic enough to judge the table and the page by it: a build that
//! forks compilers, links, and runs its tests. Always the same: its chance comes from a fixed seed.
//!
//! Struct literals name every field, so a field added to the schema has to be given a value here,
//! and the page's derived types see it.
#![allow(dead_code)]

#[path = "sample_io.rs"]
mod io;
#[path = "sample_rows.rs"]
mod rows;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use rows::{files, processes, samples};
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::io::{FileUse, Object, Totals};
use weigh_schema::recording::{ProcessRow, SampleRow};
use weigh_schema::summary::*;
use weigh_schema::summary::{Cause, FileSystemPurpose, FileSystemRoom, GpuUse, Snapshot};
use weigh_schema::{Group, METRICS, Mechanism, MetricKind, Number, Quality, Unit, Value};

/// A recording in memory.
pub struct Recording {
    pub summary: Summary,
    pub samples: Vec<SampleRow>,
    pub processes: Vec<ProcessRow>,
    pub files: Vec<FileUse>,
}

/// How long the invented job took.
const WALL: f64 = 93.418_207;

pub fn started() -> Timestamp {
    "2025-11-21T19:04:31.205883117Z".parse().expect("a time stamp")
}

/// A finished build that went well, of about `process_count` processes.
pub fn build(process_count: usize) -> Recording {
    let processes = processes(process_count);
    let files = files(&processes);
    let summary = summary(&processes, &files);
    let samples = samples(&summary);
    Recording { summary, samples, processes, files }
}

/// The same build, ended by a limit on its memory; with everything that can be present, present.
pub fn limited(process_count: usize) -> Recording {
    let mut recording = build(process_count);
    let summary = &mut recording.summary;
    summary.exit = Some(Exit {
        kind: ExitKind::Limit,
        code: Some(143),
        signal: Some(15),
        sender: None,
        limit: Some("memory_peak_bytes".to_string()),
        error: Some("nothing was wrong with the start".to_string()),
    });
    let last = recording.processes.len() - 1;
    let offender = &recording.processes[last];
    summary.limits[0] = LimitOutcome {
        metric: "memory_peak_bytes".to_string(),
        limit: Number::Whole(1_600_000_000),
        written: Some("1.6GB".to_string()),
        enforced_by: "bpf".to_string(),
        exceeded: true,
        observed: Some(Number::Whole(1_600_081_920)),
        overshoot: Some(
            "checked at each update of a counter in the kernel: what one step takes".into(),
        ),
        overshoot_at_most: Some(Number::Whole(2 << 20)),
        at_seconds: Some(88.204),
        offender: Some(Offender {
            pid: offender.pid,
            thread: offender.pid + 3,
            name: "ld.lld".to_string(),
            command: ["ld.lld", "-O2", "--build-id", "-o", "target/release/server", "@objects.rsp"]
                .map(String::from)
                .to_vec(),
            mappings: vec![
                mapping("[heap]", 812_000_000, 890_000_000),
                mapping("[anonymous]", 402_653_184, 536_870_912),
                mapping("/srv/build/target/release/libserver.rlib", 148_100_000, 201_326_592),
                mapping("/usr/lib/llvm-16/bin/ld.lld", 61_000_000, 96_468_992),
                mapping("/usr/lib/x86_64-linux-gnu/libc.so.6", 1_658_880, 2_142_208),
            ],
            stack: [
                "libc.so.6+0x9c4e1",
                "lld::elf::MergeSyntheticSection::finalizeContents+0x1f2",
                "lld::elf::Writer::finalizeSections+0xbb0",
                "lld::elf::link+0x1c44",
                "ld.lld+0x4011f0",
            ]
            .map(String::from)
            .to_vec(),
            kernel_stack: [
                "do_anonymous_page+0x21c",
                "__handle_mm_fault+0xa41",
                "handle_mm_fault+0xf5",
                "exc_page_fault+0x7c",
            ]
            .map(String::from)
            .to_vec(),
            open_files: [
                "0 /dev/null",
                "1 pipe:[48113]",
                "2 /dev/pts/0",
                "3 /srv/build/target/release/server.tmp",
                "4 /srv/build/objects.rsp",
            ]
            .map(String::from)
            .to_vec(),
            unreadable: vec!["environment: not looked at".to_string()],
            ..Offender::default()
        }),
    };
    summary.snapshots = snapshots(&summary.metrics);
    io::follow(&mut recording.files);
    summary.io = Some(Box::new(io::found(recording.files.len() as u64)));
    let collectors = &mut summary.collectors;
    collectors[0].lost = 1_234;
    collectors[1].status = CollectorState::Degraded;
    collectors[1].reason = Some(
        "3 counters for 2 slots: the kernel shares them out, so counts are scaled".to_string(),
    );
    recording
}

/// A recording whose job has not ended, with everything absent that can be.
pub fn cut_short() -> Recording {
    let mut recording = build(3);
    let summary = &mut recording.summary;
    summary.exit = None;
    summary.job.ended = None;
    summary.job.category = None;
    summary.job.labels.clear();
    summary.host.virtualisation = None;
    for collector in &mut summary.collectors {
        collector.reason = None;
    }
    summary.limits[0].observed = None;
    for process in &mut recording.processes {
        process.ended_ns = None;
        process.exit_code = None;
    }
    recording
}

/// Two phases of a build; of the first not everything was known.
fn snapshots(metrics: &BTreeMap<String, Value>) -> Vec<Snapshot> {
    let compiled = Snapshot {
        label: "compiled".to_string(),
        file: "target/release/server.tmp".to_string(),
        file_base64: None,
        cause: Cause::Created,
        line: None,
        line_base64: None,
        count: 1,
        taken: started() + SignedDuration::from_secs_f64(71.5),
        at_seconds: 71.5,
        metrics: metrics.clone(),
    };
    let mut tested = Snapshot {
        label: "tested".to_string(),
        file: "build.log".to_string(),
        cause: Cause::Line,
        line: Some("ok 1312 - <b>all</b> of the server's own".to_string()),
        count: 12,
        at_seconds: 83.25,
        ..compiled.clone()
    };
    let unknown = Value::unavailable(Unit::Bytes, "not known yet at this moment");
    tested.metrics.insert("memory_peak_bytes".to_string(), unknown);
    vec![compiled, tested]
}

fn mapping(name: &str, rss_bytes: u64, size_bytes: u64) -> Mapping {
    Mapping { name: name.to_string(), name_base64: None, rss_bytes, size_bytes }
}

fn summary(processes: &[ProcessRow], files: &[FileUse]) -> Summary {
    Summary {
        schema: SCHEMA.to_string(),
        job: Job {
            id: "20251121-190431-make-7f3a".to_string(),
            command: ["make", "-j8", "CFLAGS=-O2 -g", "all", "test"].map(String::from).to_vec(),
            command_base64: Vec::new(),
            cwd: "/srv/build/server".to_string(),
            cwd_base64: None,
            category: Some("nightly".to_string()),
            labels: [("branch", "main"), ("commit", "4be1c07")]
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .into(),
            user: "ada".to_string(),
            node: "node17".to_string(),
            started: started(),
            ended: Some(started() + SignedDuration::from_secs_f64(WALL)),
        },
        exit: Some(Exit {
            kind: ExitKind::Exited,
            code: Some(0),
            signal: None,
            sender: None,
            limit: None,
            error: None,
        }),
        metrics: METRICS.iter().map(|m| (m.name.to_string(), value(m, processes, files))).collect(),
        limits: vec![LimitOutcome {
            metric: "memory_peak_bytes".to_string(),
            limit: Number::Whole(4 << 30),
            written: Some("4GiB".to_string()),
            enforced_by: "bpf".to_string(),
            exceeded: false,
            observed: Some(Number::Whole(1_599_401_984)),
            overshoot: None,
            overshoot_at_most: None,
            at_seconds: None,
            offender: None,
        }],
        snapshots: Vec::new(),
        io: None,
        regions: None,
        collectors: vec![
            collector("job", Mechanism::Bpf, CollectorState::Active, None),
            collector("hardware", Mechanism::Perf, CollectorState::Active, None),
            collector("footprint", Mechanism::Stat, CollectorState::Active, None),
            collector(
                "gpu",
                Mechanism::Nvml,
                CollectorState::Unavailable,
                Some("libnvidia-ml.so.1 not found"),
            ),
            collector("files", Mechanism::Fanotify, CollectorState::Disabled, None),
        ],
        allowed: weigh_schema::allowed::Allowed::default(),
        host: Host {
            node: "node17".to_string(),
            kernel: "6.18.0-amd64".to_string(),
            cpus: 8,
            memory_bytes: 33_517_514_752,
            cgroup_version: "v2".to_string(),
            virtualisation: Some("kvm".to_string()),
            weigh: "0.1.0".to_string(),
            at_start: machine(1.5),
            at_end: machine(2.25),
        },
        file_systems: file_systems(),
        gpus: gpus(),
    }
}

/// A test that computes on a GPU, and one that has opened it.
fn gpus() -> Vec<GpuUse> {
    let value = |number: Option<Number>, unit, reason: &str| Value {
        value: number,
        unit,
        source: if number.is_some() { Mechanism::Proc } else { Mechanism::None },
        quality: if number.is_some() { Quality::Sampled } else { Quality::Unavailable },
        reason: Some(reason.to_string()),
    };
    let used = |pid, uuid: Option<&str>, busy, bytes| GpuUse {
        pid,
        gpu: "0000:0c:00.0".to_string(),
        uuid: uuid.map(str::to_string),
        opened: vec!["/dev/dri/renderD128".to_string()],
        metrics: BTreeMap::from([
            ("gpu_seconds".to_string(), value(busy, Unit::Seconds, "looked at")),
            ("gpu_memory_peak_bytes".to_string(), value(bytes, Unit::Bytes, "looked at")),
        ]),
    };
    vec![
        used(4711, Some("GPU-4711"), Some(Number::Real(3.25)), Some(Number::Whole(1 << 30))),
        used(4712, None, None, None),
    ]
}

/// One with room enough.
fn file_systems() -> Vec<FileSystemRoom> {
    let free = |bytes| {
        let free = Value {
            value: Some(Number::Whole(bytes)),
            unit: Unit::Bytes,
            source: Mechanism::Stat,
            quality: Quality::Exact,
            reason: None,
        };
        BTreeMap::from([("node_filesystem_available_bytes".to_string(), free)])
    };
    vec![FileSystemRoom {
        mount: "/data".to_string(),
        mount_base64: None,
        kind: "ext4".to_string(),
        device: 8 << 20 | 1,
        used_for: vec![FileSystemPurpose::WorkingDirectory, FileSystemPurpose::Output],
        at_start: free(40 << 30),
        least: free(31 << 30),
        at_end: free(38 << 30),
    }]
}

/// A load that is none of the job's.
fn machine(load: f64) -> BTreeMap<String, Value> {
    let load = Value {
        value: Some(Number::Real(load)),
        unit: Unit::Threads,
        source: Mechanism::Proc,
        quality: Quality::Sampled,
        reason: Some("the kernel looks every 5 s".to_string()),
    };
    BTreeMap::from([("node_load_1m_threads".to_string(), load)])
}

fn collector(
    name: &str,
    mechanism: Mechanism,
    status: CollectorState,
    reason: Option<&str>,
) -> CollectorStatus {
    CollectorStatus::new(name, mechanism, status, reason.map(String::from))
}

/// A value for each metric: sums over the processes where there are any, else something of the
/// right size; of each quality some.
fn value(m: &'static weigh_schema::Metric, processes: &[ProcessRow], files: &[FileUse]) -> Value {
    let measured = |number: f64, source, quality, reason: Option<&str>| Value {
        value: Some(m.unit.number(number)),
        unit: m.unit,
        source,
        quality,
        reason: reason.map(String::from),
    };
    let of_processes: Vec<f64> =
        processes.iter().filter_map(|p| p.metrics.get(m.name)).map(|n| n.as_f64()).collect();
    let total: f64 = of_processes.iter().sum();
    let exact = |number| measured(number, Mechanism::Bpf, Quality::Exact, None);
    let perf_note = "the counter was shared: it ran 66.7 % of the time and is scaled";
    let footprint_note = "12 scans of /srv/build/server, one each 8 s";
    match m.name {
        "wall_seconds" => measured(WALL, Mechanism::Clock, Quality::Exact, None),
        "cpu_cores_average" => exact(cpu_total(processes) / WALL),
        "cpu_cores_peak" => measured(
            7.93,
            Mechanism::Bpf,
            Quality::Sampled,
            Some("greatest over intervals of 0.3 s"),
        ),
        "memory_peak_bytes" => measured(
            1_599_401_984.0,
            Mechanism::Bpf,
            Quality::Estimated,
            Some(
                "processes share pages: between 1.4 GiB and 1.6 GiB; pages compared 0.8 ms after the peak",
            ),
        ),
        "memory_peak_rss_sum_bytes" => exact(1_771_204_608.0),
        "memory_peak_cgroup_bytes" => {
            Value::unavailable(m.unit, "the job shares its control group with other processes")
        }
        "memory_peak_process_rss_bytes" => exact(of_processes.iter().fold(0.0, |a, b| a.max(*b))),
        "memory_peak_virtual_bytes" => exact(9_871_204_352.0),
        "processes_total" => exact(processes.len() as f64),
        "processes_peak" => exact(19.0),
        "threads_peak" => exact(34.0),
        "files_opened_total" => exact(files.iter().map(|f| f.opens() as f64).sum()),
        _ if m.name.starts_with("mmap_") => {
            Value::unavailable(m.unit, "needs page-cache probes, which `weigh run` does not attach")
        }
        "disk_growth_peak_bytes" => {
            measured(419_430_400.0, Mechanism::Stat, Quality::Sampled, Some(footprint_note))
        }
        _ if m.name.starts_with("disk_") => {
            let size = if m.unit == Unit::Bytes { 734_003_200.0 } else { 4_812.0 };
            measured(size, Mechanism::Stat, Quality::Sampled, Some(footprint_note))
        }
        _ if m.group == Group::Gpu => Value::unavailable(m.unit, "libnvidia-ml.so.1 not found"),
        "delay_cpu_seconds" => exact(total),
        _ if m.group == Group::Waiting => Value::unavailable(
            m.unit,
            "the kernel's delay accounting is off (`--delays` turns it on)",
        ),
        "cpu_instructions_total" => {
            measured(1.71e12, Mechanism::Perf, Quality::Estimated, Some(perf_note))
        }
        "cpu_cycles_total" => {
            measured(1.32e12, Mechanism::Perf, Quality::Estimated, Some(perf_note))
        }
        "cpu_cache_misses_total" => {
            measured(4.9e9, Mechanism::Perf, Quality::Estimated, Some(perf_note))
        }
        _ if m.kind == MetricKind::Counter => exact(total),
        _ => exact(0.0),
    }
}

fn cpu_total(processes: &[ProcessRow]) -> f64 {
    processes.iter().filter_map(|p| p.metrics.get("cpu_seconds")).map(|n| n.as_f64()).sum()
}

/// What one process did with one file, of these sums.
pub fn used(totals: Totals) -> FileUse {
    FileUse {
        object: Object::Regular,
        process: "cat".to_string(),
        device: 1,
        inode: 2,
        totals,
        readahead_quality: Quality::Exact,
        ..FileUse::followed(7, "/a".to_string())
    }
}
