//! `weigh calls`: states of connections and CPUs, and what the code of each part of the kernel did itself.

use serde_json::Value;
use weigh_schema::call_row::{COST_COLUMNS, CallRow};

use crate::accounts::{calls, rows, truth};
use crate::support::run::{Scratch, weigh};
use crate::support::{is_slow, workload};

/// A state is told as it was last, under its own name, where it was seen; in the file of all calls, too.
#[test]
fn a_connection_s_state_and_moves_to_other_cpus_are_told() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("each.parquet");
    let program = workload("states");
    let options = ["--per-call", &file.display().to_string()];
    let (output, report) = calls(&scratch, &options, &[&program, "connection", "5"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let told = scratch.text("truth");
    let tcp = &rows(&report, "sendto")[0]["parts"]["tcp"];
    for key in ["cwnd", "unacked"] {
        assert_eq!(tcp[key].as_u64(), Some(truth(&told, key)), "{key}: {tcp} {said}");
    }
    // The kernel keeps eighths of a microsecond, the program is told whole ones; a nanosecond is a float's own error.
    let srtt = tcp["srtt_seconds"].as_f64().expect("seconds") * 1e6 + 1e-3;
    assert_eq!(srtt.floor() as u64, truth(&told, "srtt_us"), "{tcp}");
    assert!(rows(&report, "bind").iter().all(|row| row["parts"]["tcp"].get("cwnd").is_none()));
    let cwnd = COST_COLUMNS.iter().find(|column| column.name == "tcp_cwnd").expect("a column");
    let (mut last, mut others) = (None, Vec::new());
    let see = |row: CallRow| match row.call.as_str() {
        "sendto" => last = cwnd.raw(&row),
        _ => others.extend(cwnd.raw(&row)),
    };
    weigh_keep::each_call(&file, see).expect("rows");
    assert_eq!((last, others), (Some(truth(&told, "cwnd")), Vec::new()));
    std::fs::remove_file(scratch.path("truth")).expect("a truth");
    let (_, report) = calls(&scratch, &[], &[&program, "migrate", "37"]);
    let (told, moves) = (scratch.text("truth"), "migrations_total");
    let moved = rows(&report, "sched_setaffinity")[0]["parts"]["sched"][moves].as_u64();
    let expected = truth(&told, "moves");
    assert!(moved.unwrap_or(0).abs_diff(expected) <= 1, "{moved:?}, and not {expected}");
}

/// What is told of each part adds up to what is told of the whole, in each row.
#[test]
fn allocations_are_told_of_each_part_where_that_is_asked_for() {
    needs_root!();
    let scratch = Scratch::new();
    let to = format!("of={}", scratch.path("file").display());
    let command = ["dd", "if=/dev/zero", &to, "bs=64k", "count=10", "conv=fsync"];
    let (output, report) = calls(&scratch, &["--by-part", "--all"], &command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("by part: "), "{said}");
    let number = |numbers: &Value, key: &str| numbers[key].as_u64().unwrap_or(0);
    let mut parts_seen = 0;
    for row in report["calls"].as_array().expect("rows") {
        let parts = row["by_part"].as_object().cloned().unwrap_or_default();
        for key in ["allocations_total", "allocated_bytes_total", "pages_total"] {
            let sum: u64 = parts.values().map(|numbers| number(numbers, key)).sum();
            assert_eq!(sum, number(&row["parts"]["memory"], key), "{key}: {row}");
        }
        assert!(parts.values().all(|numbers| numbers.get("cycles_total").is_none()), "{row}");
        parts_seen = parts_seen.max(parts.len());
    }
    assert!(parts_seen > 1, "{report}");
    // What follows is user space's.
    if is_slow() {
        return;
    }
    let (output, report) = calls(&scratch, &["--all"], &command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(rows(&report, "write").iter().all(|row| row.get("by_part").is_none()), "{report}");
    assert!(!said.contains("by part: "), "{said}");
    let refused = |options: &[&str], words: &str| {
        let output = weigh(&scratch, &[&["calls", "--by-part"], options, &["--", "true"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(125) && said.contains(words), "{said}");
    };
    refused(&["-s", "block"], "neither is asked for");
    refused(&["--mechanism", "preload"], "--by-part takes --mechanism bpf");
}
