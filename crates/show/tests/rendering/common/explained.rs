//! Reports of `weigh explain` to show.

use std::collections::BTreeMap;

use weigh_schema::explain::{
    AskedToken, CallGroup, CounterDifference, Difference, Doing, ExplainReport, ExplainedKind,
    INTERVAL, MovedDifference, Of, OutcomeDifference, REPORT, RivalShare, SlowRule, TimeBucket,
    Unavailable, Verdict,
};

/// Slow fsyncs, for their device was busy with another's requests; and what is said of others.
pub fn slow() -> ExplainReport {
    ExplainReport {
        schema: REPORT.to_string(),
        command: "./server --once '<b>'".to_string(),
        command_base64: None,
        of: Of::Call,
        slow: Some(SlowRule::Share(0.01)),
        calls_total: 3507,
        untold_total: 12,
        lost_total: 3,
        untold_later_total: 5,
        merged_later_total: 7,
        unknown_later_total: 3,
        unmeasured: vec!["tcp".to_string(), "net".to_string()],
        unavailable: ["udp_receipts_total", "later_lost_total"].map(unavailable).to_vec(),
        kinds: vec![
            fsync(),
            great_reads(),
            few_reads(),
            other("read", 2_000, Verdict::NoneSlow),
            other("write", 500, Verdict::AllSlow),
            other("close", 4, Verdict::TooFew),
        ],
    }
}

/// Requests of a program with libweigh: the slow ones compute, and wait for the device.
pub fn requests() -> ExplainReport {
    let block = difference("block", Doing::Waiting, 2e-3, 0.0);
    ExplainReport {
        of: Of::Interval,
        kinds: vec![ExplainedKind {
            call: INTERVAL.to_string(),
            of: None,
            differences: vec![difference("program", Doing::Busy, 5.6e-3, 0.6e-3), block],
            rivals: Vec::new(),
            slow_tokens: vec![4711, u64::MAX, 0],
            histogram: vec![bucket(1e-3, 1003, &[("program", 0.4), ("block", 0.2)])],
            ..fsync()
        }],
        ..slow()
    }
}

/// Requests that were asked for: a slow one, one like others, and those of a program that made few.
pub fn asked() -> ExplainReport {
    let asked = |token, given: &str| Some(AskedToken { token, given: given.to_string() });
    let requests = requests();
    let kind = |token, given, verdict, took: f64| ExplainedKind {
        asked: asked(token, given),
        verdict,
        slow_from_seconds: None,
        slow: group(1, took, took, took),
        slow_tokens: Vec::new(),
        ..requests.kinds[0].clone()
    };
    let text = kind(3835346158826075702, "req-2", Verdict::Differ, 8.2e-3);
    let rival = RivalShare { slow_total: 1, ..fsync().rivals[0].clone() };
    let moved = great_reads().moved.map(|moved| MovedDifference { beyond_calls_total: 1, ..moved });
    ExplainReport {
        slow: None,
        kinds: vec![
            ExplainedKind { rivals: vec![rival], moved, counters: Vec::new(), ..text },
            kind(17, "17", Verdict::Alike, 1.15e-3),
            kind(18, "18", Verdict::Alike, 0.5e-3),
            kind(19, "0019", Verdict::Alike, 1.35e-3),
            kind(20, "20", Verdict::TooFew, 1e-3),
        ],
        ..requests
    }
}

/// Nothing at all.
pub fn nothing() -> ExplainReport {
    ExplainReport {
        schema: REPORT.to_string(),
        command: String::new(),
        command_base64: None,
        of: Of::Call,
        slow: Some(SlowRule::Seconds(0.25)),
        calls_total: 0,
        untold_total: 0,
        lost_total: 0,
        untold_later_total: 0,
        merged_later_total: 0,
        unknown_later_total: 0,
        unmeasured: Vec::new(),
        unavailable: Vec::new(),
        kinds: vec![other("read", 2_000, Verdict::NoneSlow)],
    }
}

fn unavailable(name: &str) -> Unavailable {
    let reason = "the file was made by an older weigh (weigh 0.0.1)".to_string();
    Unavailable { name: name.to_string(), reason }
}

fn group(calls_total: u64, from_seconds: f64, to_seconds: f64, mean_seconds: f64) -> CallGroup {
    let open_calls_total = None;
    CallGroup { calls_total, from_seconds, to_seconds, mean_seconds, open_calls_total }
}

fn bucket(from: f64, calls_total: u64, parts: &[(&str, f64)]) -> TimeBucket {
    let parts: BTreeMap<String, f64> =
        parts.iter().map(|(name, s)| (name.to_string(), *s)).collect();
    TimeBucket { from_seconds: from, to_seconds: from * 1.25, calls_total, parts }
}

pub fn difference(subsystem: &str, doing: Doing, slow: f64, ordinary: f64) -> Difference {
    Difference {
        subsystem: subsystem.to_string(),
        doing,
        slow_seconds: slow,
        ordinary_seconds: ordinary,
        more_seconds: slow - ordinary,
    }
}

fn counter(part: &str, name: &str, means: [f64; 2], calls: [u64; 2]) -> CounterDifference {
    CounterDifference {
        subsystem: Some(part.into()),
        is_later: false,
        name: name.into(),
        slow: means[0],
        ordinary: means[1],
        slow_calls_total: calls[0],
        ordinary_calls_total: calls[1],
    }
}

fn later(part: &str, name: &str, means: [f64; 2], calls: [u64; 2]) -> CounterDifference {
    CounterDifference { is_later: true, ..counter(part, name, means, calls) }
}

fn fsync() -> ExplainedKind {
    let device = difference("block", Doing::Waiting, 7.5e-3, 0.6e-3);
    let queue = difference("sched", Doing::Runnable, 0.4e-3, 0.2e-3);
    let rival = |kind: &str, name: &str, pid, is_own, slow_total, ordinary_total| RivalShare {
        kind: kind.into(),
        name: name.into(),
        name_base64: None,
        pid,
        is_own,
        slow_total,
        ordinary_total,
    };
    ExplainedKind {
        call: "fsync".to_string(),
        of: Some("/var/lib/data.db".to_string()),
        of_base64: None,
        calls_total: 1003,
        median_seconds: 1.1e-3,
        verdict: Verdict::Differ,
        slow_from_seconds: Some(4.2e-3),
        slow: CallGroup { open_calls_total: Some(3), ..group(12, 4.3e-3, 19e-3, 8.2e-3) },
        ordinary: CallGroup { open_calls_total: Some(0), ..group(502, 0.9e-3, 1.3e-3, 1.1e-3) },
        differences: vec![
            device,
            queue,
            difference("kernel", Doing::Busy, 0.31e-3, 0.31e-3 - 1e-9),
            difference("fs", Doing::Waiting, 1e-6, 2e-6),
        ],
        asked: None,
        moved: None,
        outcome: None,
        counters: vec![
            counter("block", "foreign_requests_total", [2.0, 0.0], [9, 0]),
            counter("block", "foreign_bytes_total", [94208.0, 0.0], [9, 0]),
            counter("block", "requests_total", [4.0, 1.0], [12, 502]),
            counter("block", "transferred_bytes_total", [1048576.0, 4096.0], [12, 502]),
            counter("block", "device_seconds", [6.9e-3, 0.5e-3], [12, 502]),
            counter("memory", "pages_total", [41.0, 0.2], [12, 90]),
            counter("memory", "allocated_bytes_total", [0.0, 512.0], [0, 502]),
            counter("sched", "preemptions_total", [1.0, 0.04], [5, 20]),
            counter("tcp", "retransmits_total", [0.3, 0.0], [3, 0]),
            later("block", "block_written_bytes_total", [3145728.0, 4096.0], [12, 502]),
            later("block", "block_device_seconds", [9.4e-3, 0.0], [7, 0]),
            later("workqueue", "work_items_total", [2.0, 0.5], [12, 251]),
            CounterDifference {
                subsystem: None,
                ..counter("", "instructions_total", [2.1e6, 9e3], [12, 502])
            },
        ],
        rivals: vec![
            rival("disk_rival", "dd", Some(4711), false, 9, 20),
            rival("behind", "cc1", None, false, 3, 0),
            rival("lock_holder", "server", Some(99), true, 2, 1),
        ],
        slow_tokens: Vec::new(),
        histogram: vec![
            bucket(0.8e-3, 391, &[("kernel", 0.1), ("block", 0.2), ("fs", 0.013)]),
            bucket(1.0e-3, 600, &[("kernel", 0.2), ("block", 0.4), ("run_queue", 0.02)]),
            bucket(5.0e-3, 10, &[("kernel", 0.003), ("block", 0.04), ("run_queue", 0.007)]),
            bucket(16e-3, 2, &[("block", 0.032), ("run_queue", 0.002)]),
        ],
    }
}

/// Slow reads that moved more than the others, of which many had nothing to read.
pub fn great_reads() -> ExplainedKind {
    let errors = BTreeMap::from([("EAGAIN", 280), ("EINTR", 7)].map(|(e, n)| (e.to_string(), n)));
    ExplainedKind {
        call: "read".to_string(),
        moved: Some(MovedDifference {
            slow_bytes: 4e6,
            ordinary_bytes: 100.0,
            beyond_calls_total: 19,
        }),
        outcome: Some(OutcomeDifference {
            slow_failed_total: 0,
            ordinary_failed_total: 287,
            slow_errors: BTreeMap::new(),
            ordinary_errors: errors,
        }),
        slow: group(20, 1e-3, 3e-3, 2e-3),
        ordinary: group(502, 0.9e-6, 1.1e-6, 1e-6),
        differences: vec![difference("kernel", Doing::Busy, 2e-3, 1e-6)],
        ..few_reads()
    }
}

/// Two slow ones, and no rival.
fn few_reads() -> ExplainedKind {
    ExplainedKind {
        call: "pread64".to_string(),
        of: None,
        calls_total: 400,
        median_seconds: 1e-6,
        slow: group(2, 0.1e-3, 0.3e-3, 0.2e-3),
        ordinary: group(211, 0.9e-6, 1.1e-6, 1e-6),
        differences: vec![difference("block", Doing::Waiting, 0.199e-3, 0.0)],
        counters: Vec::new(),
        rivals: Vec::new(),
        ..fsync()
    }
}

fn other(call: &str, calls_total: u64, verdict: Verdict) -> ExplainedKind {
    ExplainedKind {
        call: call.to_string(),
        of: None,
        of_base64: None,
        calls_total,
        median_seconds: 0.7e-6,
        verdict,
        slow_from_seconds: (verdict != Verdict::TooFew).then_some(2e-6),
        slow: CallGroup::default(),
        ordinary: CallGroup::default(),
        differences: Vec::new(),
        asked: None,
        moved: None,
        outcome: None,
        counters: Vec::new(),
        rivals: Vec::new(),
        slow_tokens: Vec::new(),
        histogram: vec![bucket(0.6e-6, calls_total, &[("kernel", 0.0014)])],
    }
}
