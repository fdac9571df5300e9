//! Spans of a recording, held to what its rows say.

use std::collections::BTreeMap;

use weigh_schema::allowed::Allowed;
use weigh_schema::io::{FileUse, Flow};
use weigh_schema::summary::{Host, SCHEMA};
use weigh_schema::{Mechanism, Unit};

use super::*;

struct Rows {
    summary: Summary,
    processes: Vec<ProcessRow>,
    phases: Vec<PhaseRow>,
}

impl RecordingRows for Rows {
    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn is_part(&self) -> bool {
        false
    }

    fn each_process(&self, visit: &mut dyn FnMut(ProcessRow)) -> anyhow::Result<()> {
        self.processes.iter().cloned().for_each(visit);
        Ok(())
    }

    fn each_use(&self, _: &mut dyn FnMut(&FileUse)) -> anyhow::Result<()> {
        Ok(())
    }

    fn each_phase(&self, visit: &mut dyn FnMut(PhaseRow)) -> anyhow::Result<()> {
        self.phases.iter().cloned().for_each(visit);
        Ok(())
    }

    fn flows(&self) -> Vec<&Flow> {
        Vec::new()
    }
}

const BEGAN: i64 = 1_767_323_045_000_000_017;

fn at(ns: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_nanosecond(i128::from(BEGAN + ns)).unwrap()
}

fn process(pid: u32, parent: u32, started_ns: i64, ended_ns: Option<i64>) -> ProcessRow {
    ProcessRow {
        pid,
        parent,
        name: format!("p{pid}"),
        name_base64: None,
        command: format!("./p{pid} \u{1b}[31m"),
        command_base64: None,
        uid: 1000,
        started_ns: BEGAN + started_ns,
        ended_ns: ended_ns.map(|ns| BEGAN + ns),
        exit_code: Some(0),
        exit_signal: None,
        metrics: BTreeMap::from([("cpu_seconds".to_string(), Number::Real(1.25))]),
    }
}

fn rows() -> Rows {
    let value = |value, unit, quality| weigh_schema::Value {
        value,
        unit,
        source: Mechanism::Bpf,
        quality,
        reason: None,
    };
    let job = Job {
        id: "solver-7".to_string(),
        command: vec!["/opt/bin/solver".to_string(), "a b".to_string()],
        command_base64: Vec::new(),
        cwd: "/srv".to_string(),
        cwd_base64: None,
        category: Some("nightly".to_string()),
        labels: BTreeMap::from([("case".to_string(), "17".to_string())]),
        user: "ada".to_string(),
        node: "n1".to_string(),
        started: at(0),
        ended: Some(at(9_000_000_003)),
    };
    let exit = Exit {
        kind: ExitKind::Exited,
        code: Some(3),
        signal: None,
        sender: None,
        limit: None,
        error: None,
    };
    let metrics = [
        ("io_read_bytes_total", value(Some(Number::Whole(4097)), Unit::Bytes, Quality::Exact)),
        ("cpu_seconds", value(Some(Number::Real(2.5)), Unit::Seconds, Quality::Estimated)),
        ("net_sent_bytes_total", value(None, Unit::Bytes, Quality::Unavailable)),
    ];
    let summary = Summary {
        schema: SCHEMA.to_string(),
        job,
        exit: Some(exit),
        metrics: metrics.map(|(name, value)| (name.to_string(), value)).into(),
        limits: Vec::new(),
        snapshots: Vec::new(),
        io: None,
        regions: None,
        collectors: Vec::new(),
        host: host(),
        file_systems: Vec::new(),
        gpus: Vec::new(),
        allowed: Allowed::default(),
    };
    let phase = |name: &str, process, started_ns, ended_ns| PhaseRow {
        name: name.to_string(),
        process,
        thread: process,
        iteration: 11,
        started_ns: BEGAN + started_ns,
        ended_ns: BEGAN + ended_ns,
        ..PhaseRow::default()
    };
    let killed =
        ProcessRow { exit_code: None, exit_signal: Some(9), ..process(12, 11, 2_000, Some(8_000)) };
    Rows {
        summary,
        processes: vec![process(11, 2, 1_000, Some(9_000)), killed, process(13, 12, 3_000, None)],
        phases: vec![phase("inner", 12, 5_000, 6_000), phase("outer", 12, 4_000, 7_000)],
    }
}

fn host() -> Host {
    serde_json::from_value(json!({
        "node": "n1", "kernel": "6.1.0", "cpus": 4, "memory_bytes": 17, "cgroup_version": "v2",
        "virtualisation": null, "weigh": "0.0.0",
    }))
    .unwrap()
}

fn spans(rows: &Rows) -> Vec<Value> {
    let mut spans = Vec::new();
    let mut piece = |text: &str| {
        assert!(text.ends_with("}\n") && !text.trim_end().contains('\n'), "one request a line");
        let request: Value = serde_json::from_str(text)?;
        let sent = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        assert!((1..=SPANS_AT_ONCE).contains(&sent.len()));
        spans.extend(sent.iter().cloned());
        Ok(())
    };
    assert!(write(rows, &mut piece).unwrap());
    spans
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|one| one["key"] == name);
    found.map_or(&Value::Null, |one| &one["value"])
}

#[test]
fn job_processes_and_phases_are_spans_of_one_tree() {
    let spans = spans(&rows());
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["solver", "p11", "p12", "p13", "outer", "inner"]);
    let id = |number: usize| &spans[number]["spanId"];
    let parents: Vec<&Value> = spans.iter().map(|span| &span["parentSpanId"]).collect();
    assert_eq!(parents, [&Value::Null, id(0), id(1), id(2), id(2), id(4)]);
    for (number, span) in spans.iter().enumerate() {
        assert_eq!(span["traceId"], spans[0]["traceId"]);
        assert_eq!(span["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(id(number).as_str().unwrap().len(), 16);
        assert!(spans[number + 1..].iter().all(|other| other["spanId"] != *id(number)));
    }
    let times = |number: usize| {
        let time = |name: &str| spans[number][name].as_str().unwrap().parse::<i64>().unwrap();
        (time("startTimeUnixNano") - BEGAN, time("endTimeUnixNano") - BEGAN)
    };
    assert_eq!(times(0), (0, 9_000_000_003));
    assert_eq!(times(2), (2_000, 8_000));
    assert_eq!(times(3), (3_000, 9_000_000_003), "it ran on to the end of the job");
    assert_eq!(times(5), (5_000, 6_000));
}

#[test]
fn attributes_have_values_with_their_quality_and_nothing_unknown() {
    let spans = spans(&rows());
    let job = &spans[0];
    assert_eq!(attribute(job, "weigh.io_read_bytes_total")["intValue"], "4097");
    assert_eq!(attribute(job, "weigh.cpu_seconds")["doubleValue"], 2.5);
    assert_eq!(attribute(job, "weigh.cpu_seconds.quality")["stringValue"], "estimated");
    assert!(attribute(job, "weigh.io_read_bytes_total.quality").is_null());
    assert!(attribute(job, "weigh.net_sent_bytes_total").is_null(), "unavailable is not 0");
    assert_eq!(attribute(job, "weigh.label.case")["stringValue"], "17");
    assert_eq!(attribute(job, "process.command_line")["stringValue"], "/opt/bin/solver 'a b'");
    assert_eq!(job["status"], json!({"code": 2, "message": "exit code 3"}));
    assert_eq!(spans[1]["status"], Value::Null);
    assert_eq!(spans[2]["status"]["message"], "signal 9");
    assert_eq!(attribute(&spans[1], "process.command_line")["stringValue"], "./p11 \\u{1b}[31m");
    assert_eq!(attribute(&spans[4], "weigh.iteration")["intValue"], "11");
}

#[test]
fn ids_are_the_same_again_and_others_for_another_job() {
    let ids = |rows: &Rows| -> Vec<String> {
        spans(rows).iter().map(|span| span["spanId"].to_string()).collect()
    };
    let mut other = rows();
    other.summary.job.id = "solver-8".to_string();
    assert_eq!(ids(&rows()), ids(&rows()));
    assert!(ids(&rows()).iter().all(|id| !ids(&other).contains(id)));
}

#[test]
fn a_job_with_a_traceparent_is_part_of_that_trace() {
    let mut rows = rows();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let label = format!("00-{trace}-00f067aa0ba902b7-01");
    rows.summary.job.labels.insert("traceparent".to_string(), label);
    let spans = spans(&rows);
    assert!(spans.iter().all(|span| span["traceId"] == trace));
    assert_eq!(spans[0]["parentSpanId"], "00f067aa0ba902b7");
}

#[test]
fn many_processes_are_several_requests_and_a_job_without_an_end_is_refused() {
    let mut rows = rows();
    rows.processes = (0..1300).map(|pid| process(pid + 20, 2, 1, Some(2))).collect();
    assert_eq!(spans(&rows).len(), 1303);
    rows.processes = vec![process(11, 2, 1, None)];
    rows.summary.job.ended = None;
    let refused = write(&rows, &mut |_| Ok(())).unwrap_err().to_string();
    assert!(refused.contains("may still run"), "{refused}");
}
