//! `weigh calls --per-call` and `weigh explain`: single calls, against what is known of them.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{run::Scratch, weigh_binary, workload};
use weigh_schema::call::CallsReport;
use weigh_schema::call_row::CallRow;

/// `weigh calls --per-call FILE OPTIONS -- COMMAND`: what it found, and the rows.
fn per_call(scratch: &Scratch, options: &str, command: &[&str]) -> (CallsReport, Vec<CallRow>) {
    let (file, json) = (scratch.path("calls.parquet"), scratch.path("calls.json"));
    let mut weigh = Command::new(weigh_binary());
    weigh.arg("calls").arg("--per-call").arg(&file).arg("--json").arg(&json);
    weigh.args(options.split_whitespace()).arg("--").args(command);
    let output = weigh.output().expect("weigh starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&std::fs::read(json).expect("JSON")).expect("a report");
    (report, rows(&file))
}

fn rows(file: &Path) -> Vec<CallRow> {
    let mut rows = Vec::new();
    let total = weigh_keep::each_call(file, |row| rows.push(row)).expect("a file of calls");
    assert_eq!(total, rows.len() as u64);
    rows
}

#[test]
fn each_call_has_a_row_of_its_own() {
    needs_root!();
    let scratch = Scratch::new();
    let data = scratch.path("data").display().to_string();
    let (report, rows) = per_call(&scratch, "--by file", &[&workload("calls"), &data, "100003"]);
    let count = |call: &str| rows.iter().filter(|row| row.call == call).count();
    assert_eq!(count("getppid"), 100_003);
    let reads: Vec<&CallRow> =
        rows.iter().filter(|row| row.call == "read" && row.result.0 == 4099).collect();
    assert_eq!(reads.len(), 23);
    assert!(reads.iter().all(|row| row.of.as_deref() == Some(data.as_str())), "{:?}", reads[0].of);
    assert_eq!((count("fsync"), count("clock_nanosleep")), (5, 7));
    assert_eq!((report.untold_total, report.lost_total), (0, 0));
    assert_eq!(rows.len() as u64, report.calls_total);
    // No call twice, and all in their time.
    let mut sequences: Vec<u64> = rows.iter().map(|row| row.sequence).collect();
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences.len(), rows.len());
    let now = jiff::Timestamp::now().as_nanosecond() as i64;
    assert!(rows.iter().all(|row| row.time_ns < now && row.time_ns > now - 120_000_000_000));
    let slept = rows.iter().filter(|row| row.call == "clock_nanosleep");
    assert!(slept.clone().all(|row| row.account.time_ns() >= 20_000_000));
    let total: u64 = rows.iter().map(|row| row.account.time_ns()).sum();
    let table: f64 = report.calls.iter().map(|kind| kind.time_seconds).sum();
    assert!((total as f64 / 1e9 - table).abs() < 1e-6, "{total} ns, {table} s");
}
