//! What system calls cost, in a recording: the latest report is read from a journal and from `calls.json`.

use crate::support::{ended, started};
use serde_json::json;
use weigh_keep::{KeepError, Recording, RecordingWriter};
use weigh_schema::call::CallsReport;
use weigh_schema::recording::files;
use weigh_schema::update::Update;

fn report(calls: u64) -> CallsReport {
    serde_json::from_value(json!({
        "schema": "weigh.calls/1", "command": ["a\nb"], "wall_seconds": 0.1 + 0.2, "grouping": "call",
        "mechanism": "bpf", "subsystems": [{"name": "vfs", "probes": 0, "missing": ["no probe"]}],
        "calls_total": calls, "threads_total": 1, "lost_total": 0, "untold_total": 0,
        "calls": [{
            "call": "read", "calls_total": calls, "errors_total": 3, "bytes_total": 9_007_199_254_740_993_u64,
            "time_seconds": 1e-5, "time_p50_seconds": 1e-6, "time_p99_seconds": 1e-6, "time_max_seconds": 1e-6,
            "counters": {}, "parts": {"sched": {"run_queue_seconds": 0.5}}, "later": {"pending_total": 1},
        }],
    }))
    .unwrap()
}

fn writer(dir: &std::path::Path) -> RecordingWriter {
    let mut writer = RecordingWriter::create(dir).unwrap();
    writer.append(&started());
    for calls in [7, 1112] {
        writer.append(&Update::SyscallTotals(Box::new(report(calls))));
    }
    writer
}

#[test]
fn the_latest_report_is_read_however_the_recording_ended() {
    let dir = tempfile::tempdir().unwrap();
    drop(writer(dir.path()));
    let cut_short = Recording::open(dir.path()).unwrap();
    assert!(!cut_short.is_complete());
    assert_eq!(cut_short.calls().unwrap(), Some(report(1112)));

    let dir = tempfile::tempdir().unwrap();
    writer(dir.path()).finish(&ended()).unwrap();
    assert_eq!(Recording::open(dir.path()).unwrap().calls().unwrap(), Some(report(1112)));
    assert!(matches!(RecordingWriter::create(dir.path()), Err(KeepError::AlreadyRecorded { .. })));
}

#[test]
fn a_recording_without_calls_has_none_and_a_damaged_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut plain = RecordingWriter::create(dir.path()).unwrap();
    plain.append(&started());
    plain.finish(&ended()).unwrap();
    assert_eq!(Recording::open(dir.path()).unwrap().calls().unwrap(), None);
    let place = dir.path().join(files::CALLS);
    for (text, words) in [
        ("{", "calls.json"),
        (r#"{"schema":"weigh.calls/1"}"#, "calls.json"),
        (
            &serde_json::to_string(&report(1)).unwrap().replace("calls/1", "calls/9"),
            "reads 'weigh.calls/1'",
        ),
    ] {
        std::fs::write(&place, text).unwrap();
        let error = Recording::open(dir.path()).unwrap().calls().unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}
