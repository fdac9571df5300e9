//! Summaries and rows for the tests of recordings.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

use weigh_keep::{Finished, KeepError, RecordingWriter};
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::recording::ProcessRow;
use weigh_schema::sink::Sink;
use weigh_schema::summary::{Exit, ExitKind, Host, Job, LimitOutcome, Offender, SCHEMA, Summary};
use weigh_schema::update::{Scope, Update};
use weigh_schema::{Mechanism, Number, Quality, Unit, Value};

/// 2026-11-21T20:39:00.000000007Z, the start of the job.
pub const START_NS: i64 = 1_795_293_540_000_000_007;

/// A provisional summary: the job runs.
pub fn running() -> Summary {
    let cpu = Value {
        value: Some(Number::Real(0.1)),
        unit: Unit::Seconds,
        source: Mechanism::Bpf,
        quality: Quality::Exact,
        reason: None,
    };
    Summary {
        schema: SCHEMA.to_string(),
        job: Job {
            id: "20261121T203900-7".into(),
            command: vec!["sh".into(), "-c".into(), "a 'b'\n\"c\"\\ ü\u{0}".into()],
            command_base64: Vec::new(),
            cwd: "/".into(),
            cwd_base64: None,
            category: None,
            labels: BTreeMap::from([(String::new(), "empty".to_string())]),
            user: "nobody".into(),
            node: "n1".into(),
            started: jiff::Timestamp::from_nanosecond(START_NS.into()).unwrap(),
            ended: None,
        },
        exit: None,
        metrics: BTreeMap::from([
            ("cpu_seconds".to_string(), cpu),
            ("gpu_memory_peak_bytes".to_string(), Value::unavailable(Unit::Bytes, "no GPU")),
        ]),
        limits: vec![LimitOutcome {
            metric: "memory_peak_bytes".into(),
            limit: Number::Whole(104_857_600),
            written: Some("1GiB".to_string()),
            enforced_by: "bpf".into(),
            exceeded: false,
            observed: None,
            overshoot: None,
            overshoot_at_most: None,
            at_seconds: None,
            offender: Some(Offender { pid: 7, ..Offender::default() }),
        }],
        snapshots: Vec::new(),
        io: None,
        regions: None,
        collectors: vec![CollectorStatus::new(
            "tasks",
            Mechanism::Bpf,
            CollectorState::Active,
            None,
        )],
        allowed: weigh_schema::allowed::Allowed::default(),
        host: Host {
            node: "n1".into(),
            kernel: "6.18.0".into(),
            cpus: 2,
            memory_bytes: u64::MAX,
            cgroup_version: "v2".into(),
            virtualisation: None,
            weigh: "0.1.0".into(),
            at_start: BTreeMap::new(),
            at_end: BTreeMap::new(),
        },
        file_systems: Vec::new(),
        gpus: Vec::new(),
    }
}

/// A final summary: the job has ended.
pub fn ended() -> Summary {
    let mut summary = running();
    summary.job.ended = Some(jiff::Timestamp::from_nanosecond((START_NS + 5).into()).unwrap());
    summary.exit = Some(Exit {
        kind: ExitKind::Exited,
        code: Some(3),
        signal: None,
        sender: None,
        limit: None,
        error: None,
    });
    summary
}

/// The first entry of every journal.
pub fn started() -> Update {
    Update::Started(Box::new(running()))
}

/// Samples of the job, `at_ns` after its start.
pub fn samples(at_ns: i64, values: &[(&str, f64)]) -> Update {
    Update::Samples {
        time_ns: START_NS + at_ns,
        scope: Scope::Job,
        values: values.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
    }
}

/// A process with a value for each of its metrics.
pub fn process(pid: u32) -> ProcessRow {
    let metrics = ProcessRow::metric_columns().enumerate().map(|(i, metric)| {
        let number = match metric.unit.is_whole() {
            true => Number::Whole(u64::from(pid) * 1000 + i as u64),
            false => Number::Real(f64::from(pid) + 0.1 * i as f64),
        };
        (metric.name.to_string(), number)
    });
    ProcessRow {
        pid,
        parent: 1,
        name: "true".into(),
        name_base64: None,
        command: format!("/bin/true --number {pid} {}", "x".repeat(100)),
        command_base64: None,
        uid: 1000,
        started_ns: START_NS + i64::from(pid),
        ended_ns: Some(START_NS + i64::from(pid) + 50_000),
        exit_code: Some(0),
        exit_signal: None,
        metrics: metrics.collect(),
    }
}

/// Ends a recording, as a session does.
pub fn end(mut writer: RecordingWriter, summary: &Summary) -> Result<Finished, KeepError> {
    Sink::finish(&mut writer, summary);
    writer.close()
}
