//! The table of calls: what the CPU's counters have counted, and what could not be counted.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::{Value, json};
use weigh_show::calls::{render, sentence};

fn report(counters: Value, of_calls: Value) -> String {
    let report = json!({
        "schema": "weigh.calls/1", "command": ["true"], "wall_seconds": 1.0, "grouping": "call",
        "mechanism": "bpf", "subsystems": [], "counters": counters, "calls_total": 4,
        "threads_total": 1, "lost_total": 0, "untold_total": 0,
        "calls": [{
            "call": "read", "calls_total": 4, "errors_total": 0, "bytes_total": 0, "time_seconds": 1e-5,
            "time_p50_seconds": 1e-6, "time_p99_seconds": 1e-6, "time_max_seconds": 1e-6,
            "counters": of_calls, "parts": {}, "later": {},
        }],
        "slowest": [{
            "call": "read", "pid": 1, "tid": 1, "at_seconds": 0.0, "time_seconds": 1e-6, "result": 0,
            "counters": of_calls, "parts": {},
        }],
    });
    // A narrow space stands between thousands.
    render(&serde_json::from_value(report).unwrap(), 20, 160, false).replace('\u{202f}', " ")
}

#[test]
fn counters_stand_below_their_calls_and_say_when_they_are_estimates() {
    let asked = json!([{ "name": "cycles" }, { "name": "instructions" }]);
    let text = report(asked.clone(), json!({ "cycles_total": 8000, "instructions_total": 6000 }));
    let counted =
        "counted: 8 000 cycles (2 000 a call), 6 000 instructions, 0.75 instructions per cycle\n";
    assert!(text.contains(counted), "{text}");
    assert!(text.contains("; 8 000 cycles, 6 000 instructions, 0.75"), "{text}");
    assert!(!text.contains("estimated"), "{text}");
    let text = report(asked, json!({ "cycles_total": 8000, "counted_ratio": 0.25 }));
    assert!(
        text.contains("8 000 cycles (2 000 a call), estimated: counted 25 % of the time"),
        "{text}"
    );
    assert!(!text.contains("per cycle"), "{text}");
}

#[test]
fn a_slow_call_says_how_many_of_its_requests_nobody_followed_has_caused() {
    let said = |block: Value| {
        let call = json!({
            "call": "fsync", "pid": 1, "tid": 1, "at_seconds": 0.0, "time_seconds": 8.5e-3, "result": 0,
            "parts": { "block": block },
        });
        sentence(&serde_json::from_value(call).unwrap())
    };
    let mut block = json!({
        "waiting_seconds": 8.3e-3, "requests_total": 4, "transferred_bytes_total": 1_048_576,
        "foreign_requests_total": 2, "foreign_bytes_total": 524_288,
    });
    assert_eq!(
        said(block.clone()),
        "fsync 8.5 ms: 8.3 ms waiting for block devices (4 requests, 1.0 MiB transferred; 2 of 4 \
         requests, with 512.0 KiB, caused by nobody followed)"
    );
    block.as_object_mut().unwrap().retain(|key, _| !key.starts_with("foreign"));
    assert_eq!(
        said(block),
        "fsync 8.5 ms: 8.3 ms waiting for block devices (4 requests, 1.0 MiB transferred)"
    );
}

/// However wide the terminal is: lines that go on are further in than the first one.
#[test]
fn a_slow_call_s_words_are_all_there() {
    let report = json!({
        "schema": "weigh.calls/1", "command": ["true"], "wall_seconds": 1.0, "grouping": "call",
        "mechanism": "bpf", "subsystems": [], "counters": [], "calls_total": 0, "threads_total": 1,
        "lost_total": 0, "untold_total": 0, "calls": [],
        "slowest": [{
            "call": "fsync", "pid": 1, "tid": 1, "at_seconds": 0.0, "time_seconds": 8.5e-3, "result": 0,
            "parts": { "block": {
                "waiting_seconds": 8.3e-3, "requests_total": 4, "transferred_bytes_total": 1_048_576,
                "foreign_requests_total": 2, "foreign_bytes_total": 524_288,
            } },
        }],
    });
    let report = serde_json::from_value(report).unwrap();
    for width in 80..=200 {
        let text = render(&report, 20, width, false);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("with 512.0 KiB, caused by nobody followed)"), "{width}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
    }
}

#[test]
fn what_can_not_be_counted_is_unavailable_and_never_nothing() {
    let asked = json!([{ "name": "cycles", "unavailable": "no such counter" }]);
    let text = report(asked, json!({}));
    assert!(text.contains("cycles unavailable: no such counter"), "{text}");
    assert!(!text.contains("counted:") && !text.contains("0 cycles"), "{text}");
    assert!(!report(json!([]), json!({})).contains("cycles"));
}
