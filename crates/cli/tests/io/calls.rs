//! `weigh io --calls`, `weigh run --io --io-calls`: every call as a row, and all rows add up to what was counted.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::io;
use crate::support::io_report::{rows, source, text};
use crate::support::run::{Scratch, Weigh, weigh};
use crate::support::workload;
use serde_json::Value;
use weigh_schema::io::{IoCall, Untold};

const BYTES: u64 = 1_000_003;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;

/// Follows a command; the report, the rows, and what has none.
#[track_caller]
fn calls(scratch: &Scratch, script: &str) -> (Value, Vec<IoCall>, Untold) {
    let place = |name: &str| scratch.path(name).display().to_string();
    let (json, table) = (place("io.json"), place("calls.parquet"));
    let output = weigh(
        scratch,
        &["io", "-q", "--json", &json, "--calls", &table, "--", "bash", "-c", script],
    );
    assert!(output.status.success(), "{output:?}");
    let report = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    let mut rows = Vec::new();
    let untold = weigh_keep::each_io_call(Path::new(&table), |row| rows.push(row));
    (report, rows, untold.expect("a table"))
}

/// Bytes and calls by kind and direction, of the rows: as the report has them.
fn sums(rows: &[IoCall]) -> BTreeMap<String, [u64; 4]> {
    let mut sums: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for row in rows {
        let Some(kind) = &row.kind else {
            // Neither a mapping's address nor a descriptor is a number of bytes.
            assert!(row.bytes == 0 || row.deed == "fill", "{row:?}");
            continue;
        };
        let at = if row.deed == "write" { 2 } else { 0 };
        let sum = sums.entry(kind.clone()).or_default();
        sum[at] += row.bytes;
        sum[at + 1] += row.calls_total;
    }
    sums.retain(|_, sum| *sum != [0; 4]);
    sums
}

fn totals(report: &Value) -> BTreeMap<String, [u64; 4]> {
    let kinds = report["totals"]["by_kind"].as_object().expect("kinds").iter();
    let keys = ["read_bytes", "read_calls", "written_bytes", "write_calls"];
    let of = |kind: &Value| keys.map(|key| kind[key].as_u64().expect("a number"));
    kinds.map(|(name, kind)| (name.clone(), of(kind))).collect()
}

#[test]
fn every_call_has_a_row_and_they_add_up() {
    needs_root!();
    let scratch = Scratch::new();
    let from = scratch.path("work/source").display().to_string();
    let bytes: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    std::fs::write(&from, bytes).expect("a file");
    let (io, access) = (workload("io"), workload("access"));
    let reading = ["read", "pread", "readv", "preadv2", "aio-read", "uring-read"];
    let writing = ["write", "pwrite", "writev", "aio-write", "uring-write"];
    let both = ["sendfile", "splice", "copy_file_range"];
    let mut script = String::from("set -e\n");
    reading.iter().for_each(|kind| script += &format!("{io} {kind} {BYTES} {CHUNK} {from}\n"));
    writing.iter().for_each(|kind| script += &format!("{io} {kind} {BYTES} {CHUNK} to\n"));
    both.iter().for_each(|kind| script += &format!("{io} {kind} {BYTES} {CHUNK} {from} to\n"));
    script += &format!("{io} send {BYTES} {CHUNK}; {io} sendmmsg {BYTES} {CHUNK}\n");
    script += &format!("{access} store mapped 77; {access} metadata some; {access} map {from}\n");
    script += "cat /no/such/file || true";
    let (report, rows, untold) = calls(&scratch, &script);
    assert_eq!(untold, Untold::default());
    assert_eq!(sums(&rows), totals(&report));
    let of = |deed: &str| rows.iter().filter(|row| row.deed == deed).collect::<Vec<_>>();
    let number = |key: &str| report["totals"]["numbers"][key].as_u64().unwrap_or(0);
    for (deed, key) in [
        ("close", "closes_total"),
        ("seek", "seeks_total"),
        ("metadata", "metadata_calls_total"),
        ("sync", "syncs_total"),
        ("map", "maps_total"),
    ] {
        assert_eq!(of(deed).len() as u64, number(key), "{deed}");
    }
    let opened = of("open").into_iter().filter(|row| row.error.0 == 0).count();
    assert_eq!(opened as u64, number("opens_total"));
    let filled: u64 = of("fill").iter().map(|row| row.bytes).sum();
    assert_eq!(filled, number("filled_bytes"));
    let processes = report["processes"].as_array().expect("processes");
    let sum = |key: &str| processes.iter().filter_map(|process| process[key].as_u64()).sum::<u64>();
    assert_eq!(of("path").len() as u64, sum("path_calls_total"));
    let failed: Vec<_> = of("open").into_iter().filter(|row| row.error.0 < 0).collect();
    assert_eq!(failed.len() as u64, sum("failed_opens_total"));
    assert!(failed.iter().all(|row| row.path.is_none() && row.time_seconds > 0.0));
    assert!(failed.iter().any(|row| row.error.0 == -2), "{failed:?}");
    let seconds = report["totals"]["numbers"]["read_seconds"].as_f64().expect("a time");
    let told: f64 = of("read").iter().map(|row| row.time_seconds).sum();
    assert!((told - seconds).abs() < 1e-6 * seconds.max(1e-3), "{told} {seconds}");
    one_by_one(&rows, &from);
    assert!(rows.iter().all(|row| row.tid >= row.pid || row.tid > 0));
}

/// Each has its place, what it asked for, and its end.
fn one_by_one(rows: &[IoCall], from: &str) {
    let is_it = |row: &&IoCall| row.call == "pread64" && row.path.as_deref() == Some(from);
    let mut reads: Vec<&IoCall> = rows.iter().filter(is_it).collect();
    reads.sort_by_key(|row| row.time_ns);
    assert_eq!(reads.len() as u64, CALLS);
    for (place, row) in reads.iter().enumerate() {
        let at = place as u64 * CHUNK;
        let moved = CHUNK.min(BYTES - at);
        assert_eq!((row.offset_bytes, row.bytes), (Some(at), moved), "{row:?}");
        assert!(row.asked_bytes >= Some(moved) && row.asked_bytes <= Some(CHUNK), "{row:?}");
        assert_eq!((row.tid, row.error.0, row.deed.as_str()), (row.pid, 0, "read"), "{row:?}");
    }
    let vectored =
        rows.iter().filter(|row| row.call == "readv" && row.path.as_deref() == Some(from));
    assert!(vectored.clone().count() > 0);
    for row in vectored.filter(|row| row.bytes == CHUNK) {
        assert_eq!(row.asked_bytes, Some(CHUNK), "{row:?}");
    }
}

/// What a report has of some files, by process, without what a clock or a PID says.
fn counted(report: &Value, names: &[&str]) -> Vec<Value> {
    let mut counted: Vec<Value> =
        names.iter().flat_map(|name| rows(report, name)).cloned().collect();
    counted.sort_by_key(|row| (row["name"].to_string(), row["pid"].as_u64()));
    for row in &mut counted {
        let row = row.as_object_mut().expect("a row");
        for key in ["pid", "states", "slowest", "inode", "generation"] {
            row.remove(key);
        }
        let numbers = row["numbers"].as_object_mut().expect("numbers");
        numbers.retain(|key, _| !key.ends_with("_seconds") && !key.starts_with("device"));
    }
    counted
}

/// Reads and writes of a process with one thread are counted by a shorter way where none is told: order, strides, what was
/// read again and offsets are as by the other.
#[test]
fn what_is_not_told_is_counted_as_what_is() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    let access = workload("access");
    let script = format!(
        "set -e; rm -f to far; {access} again {from} 3; {access} reopened {from} 2; {access} joined {from}
        {access} syncs to 7; dd if={from} of=to bs=70001 conv=notrunc
        dd if={from} of=to bs=4097 skip=10 seek=100 count=50 conv=notrunc
        dd if={from} of=far bs=1000003 seek=300; dd if={from} of=far bs=1021 skip=7 seek=3 conv=notrunc
        dd if=far of=to iflag=direct bs=4096 count=3 conv=notrunc"
    );
    let (told, calls, _) = calls(&scratch, &script);
    let (output, at_once) = io(&scratch, &["-q"], &["bash", "-c", &script]);
    assert!(output.status.success() && calls.len() > 3000, "{output:?}");
    let folder = scratch.path("work");
    let (to, far) = (text(&folder.join("to")), text(&folder.join("far")));
    let names = [from.as_str(), &to, &far];
    let (told, at_once) = (counted(&told, &names), counted(&at_once, &names));
    assert!(told.len() >= 10, "{told:?}");
    assert_eq!(told, at_once);
}

/// weigh stands still while more calls are made than there is room for: what is not told is counted.
#[test]
fn what_comes_too_fast_is_counted() {
    needs_root!();
    let scratch = Scratch::new();
    let script = format!("kill -STOP $PPID; {} read 600011 3; kill -CONT $PPID", workload("io"));
    let (report, rows, untold) = calls(&scratch, &script);
    assert!(untold.calls_total > 0 && untold.read_bytes > 0, "{untold:?}");
    assert_eq!(report["untold"]["calls_total"], untold.calls_total);
    let told: u64 = rows.iter().filter(|row| row.deed == "read").map(|row| row.bytes).sum();
    let read: u64 = totals(&report).values().map(|sum| sum[0]).sum();
    assert_eq!(told + untold.read_bytes, read);
    assert!(read >= 600_011, "{read}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("came too fast to be told one by one"), "{notes}");
}

#[test]
fn a_recording_has_each_call_and_its_page_the_slowest() {
    needs_root!();
    let script = format!("{} write {BYTES} {CHUNK} target; sleep 0.2 | cat", workload("io"));
    let measured = Weigh::bash(&script).options("--io --io-calls").measure();
    let mut rows = Vec::new();
    measured.recording().each_io_call(|row| rows.push(row)).expect("a table");
    let found = measured.summary().io.as_deref().expect("what was found");
    let expected = found.totals.by_kind.iter().map(|(kind, of)| {
        (kind.clone(), [of.read_bytes, of.read_calls, of.written_bytes, of.write_calls])
    });
    assert_eq!(sums(&rows), expected.collect());
    // One that waited for others is the slowest, and is told with its time.
    let slowest = rows.iter().max_by(|a, b| a.time_seconds.total_cmp(&b.time_seconds));
    let slowest = slowest.expect("a row");
    assert!(slowest.time_seconds > 0.1 && slowest.path.is_some(), "{slowest:?}");
    let job = &measured.summary().job;
    let (start, end) = (job.started.as_nanosecond(), job.ended.expect("an end").as_nanosecond());
    assert!(rows.iter().all(|row| (start..end).contains(&i128::from(row.time_ns))));
    // On the page calls that waited for others come behind the rest, which may fill it.
    let own = rows
        .iter()
        .filter(|row| !row.path.as_deref().is_some_and(|path| path.starts_with("pipe:")));
    let own = own.max_by(|a, b| a.time_seconds.total_cmp(&b.time_seconds)).expect("a row");
    let page = measured.scratch.text("recording/report.html");
    assert!(page.contains(&format!("thread {} of process {}", own.tid, own.pid)), "{own:?}");
}

#[test]
fn who_can_not_tell_of_each_call_says_who_can() {
    let scratch = Scratch::new();
    let table = scratch.path("calls.parquet").display().to_string();
    let alone = weigh(&scratch, &["io", "--mechanism", "preload", "--calls", &table, "--", "true"]);
    let run = ["run", "--mechanism", "preload", "--io", "--io-calls", "-o", "r", "--", "true"];
    for output in [alone, weigh(&scratch, &run)] {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("--mechanism bpf"), "{said}");
    }
    assert!(!Path::new(&table).exists());
}
