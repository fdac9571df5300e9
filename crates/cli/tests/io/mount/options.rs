//! Calls one by one, threads apart, for a time, in a recording: what `weigh io` and `weigh run --io` have, of a mount.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use weigh_keep::Recording;
use weigh_schema::io::IoCall;

use super::{Served, can_mount, folders, rows, served, text};
use crate::support::run::Scratch;
use crate::support::{patience, wait_until, weigh_for_everybody, workload};

const BYTES: u64 = 1_000_003;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;
const PIECE: u64 = 4099;
const THREADS: u64 = 7;

/// Writes a file, reads it, renames it, and fails to remove what is not there.
fn script(at: &str) -> String {
    let io = workload("io");
    format!(
        "{io} write {BYTES} {CHUNK} {at}/odd && {io} pread {BYTES} {CHUNK} {at}/odd && \
         mv {at}/odd {at}/moved && ! rmdir {at}/moved"
    )
}

fn calls(table: &Path) -> Vec<IoCall> {
    let mut rows = Vec::new();
    let untold = weigh_keep::each_io_call(table, |row| rows.push(row)).expect("a table");
    assert_eq!(untold.calls_total, 0);
    rows
}

/// Bytes and calls of rows that are such a deed with the file.
fn sum(rows: &[IoCall], deed: &str) -> [u64; 2] {
    let of = rows.iter().filter(|row| row.deed == deed);
    let of = of.filter(|row| row.path.as_ref().is_some_and(|path| path.ends_with("/odd")));
    of.fold([0; 2], |[bytes, calls], row| [bytes + row.bytes, calls + row.calls_total])
}

#[test]
fn each_call_that_comes_has_a_row_and_what_does_not_come_is_named() {
    if !can_mount() {
        return;
    }
    for way in super::WAYS {
        let scratch = folders();
        let (at, table) = (text(scratch.path("at")), scratch.path("calls.parquet"));
        let table_word = text(table.clone());
        let options = [way, &["--calls", &table_word]].concat();
        let (status, said, report) = served(&scratch, &options, &["bash", "-c", &script(&at)]);
        assert_eq!(status, Some(0), "{way:?}: {said}");
        let told = calls(&table);
        let notes = report["notes"].as_array().cloned().unwrap_or_default();
        let is_named =
            notes.iter().any(|note| note.as_str().is_some_and(|n| n.contains("have no row")));
        let is_known = |key: &str| report["qualities"][key]["quality"] != "unavailable";
        let [reads, writes] = [is_known("read_bytes"), is_known("written_bytes")];
        assert_eq!(is_named, !(reads && writes), "{way:?}: {notes:?}");
        // Without --exact a call may come in pieces: as many as are counted.
        let counted = |is_seen: bool, key: &str| match (is_seen, way.first()) {
            (false, _) => [0; 2],
            (true, Some(&"--exact")) => [BYTES, CALLS],
            (true, _) => [BYTES, report["totals"][key].as_u64().expect("a number")],
        };
        let expected = [counted(reads, "read_calls"), counted(writes, "write_calls")];
        assert_eq!([sum(&told, "read"), sum(&told, "write")], expected, "{way:?}");
        if way == ["--exact"] {
            assert!(reads && writes, "{report}");
        }
        let opens: u64 = rows(&report, "/odd")
            .iter()
            .map(|row| row["numbers"]["opens_total"].as_u64().expect("opens"))
            .sum();
        let opened = told.iter().filter(|row| row.deed == "open" && row.error.0 == 0);
        let opened = opened.filter(|row| row.path.as_ref().is_some_and(|p| p.ends_with("/odd")));
        assert_eq!((opened.count() as u64, opens), (2, 2), "{way:?}");
        let by_path: Vec<_> = told
            .iter()
            .filter(|row| row.deed == "path")
            .map(|row| (row.call.as_str(), row.error.0))
            .collect();
        // ENOTDIR: the kernel knows that by itself, and asks nobody.
        assert_eq!(by_path, [("rename", 0)], "{way:?}");
        assert!(told.iter().all(|row| row.pid > 0 && row.tid > 0 && row.time_ns > 0), "{told:?}");
    }
}

/// The same command, told both ways.
#[test]
fn rows_of_threads_add_up_to_those_of_their_process() {
    if !can_mount() {
        return;
    }
    let of = |by: &str| -> Vec<Value> {
        let scratch = folders();
        std::fs::write(scratch.path("source/from"), vec![7; 1 << 20]).expect("a file");
        let (from, access) = (text(scratch.path("at/from")), workload("access"));
        let command = [&*access, "threads", &from, &THREADS.to_string()];
        let (status, said, report) = served(&scratch, &["--exact", "-q", "--by", by], &command);
        assert_eq!(status, Some(0), "{said}");
        rows(&report, "/from").into_iter().cloned().collect()
    };
    let calls = |row: &Value| row["by_kind"]["positioned"]["read_calls"].as_u64().unwrap_or(0);
    let bytes = |row: &Value| row["read_bytes"].as_u64().expect("it is known");
    let (process, threads) = (of("process"), of("thread"));
    assert_eq!(process.len(), 1);
    // By what each thread reads by itself, and what it reads of the stream that they share.
    let own = THREADS * (THREADS + 1) / 2;
    let expected = PIECE * own + 7 * THREADS;
    assert_eq!((bytes(&process[0]), calls(&process[0])), (expected, own + THREADS));
    let sums = |of: &dyn Fn(&Value) -> u64| threads.iter().map(of).sum::<u64>();
    assert_eq!((sums(&bytes), sums(&calls)), (expected, own + THREADS));
    let by_thread: BTreeMap<u64, u64> =
        threads.iter().map(|row| (row["tid"].as_u64().expect("a thread"), calls(row))).collect();
    let mut each: Vec<u64> = by_thread.values().copied().filter(|calls| *calls > 0).collect();
    each.sort_unstable();
    assert_eq!(each, (2..=THREADS + 1).collect::<Vec<_>>(), "{threads:#?}");
}

#[test]
fn what_is_done_after_the_time_is_not_counted_and_the_command_goes_on() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let (at, io, go) = (text(scratch.path("at")), workload("io"), text(scratch.path("go")));
    let line = format!(
        "{io} write 1009 13 {at}/before; while [ ! -e {go} ]; do sleep 0.05; done; \
         {io} write 4001 13 {at}/after"
    );
    let span = patience(2.0);
    let word = format!("{}ms", span.as_millis());
    let mut weigh = super::mounting(&scratch, &["--exact", "-q", "--for", &word]);
    weigh.args(["--", "bash", "-c", &line]);
    let mut running = weigh.spawn().expect("weigh starts");
    wait_until("it is written", 2.0, || scratch.path("source/before").exists());
    std::thread::sleep(span + patience(0.5));
    std::fs::write(&go, "").expect("told to go on");
    assert_eq!(running.wait().expect("it ends").code(), Some(0));
    assert_eq!(std::fs::metadata(scratch.path("source/after")).expect("written").len(), 4001);
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    assert_eq!(report["totals"]["written_bytes"], 1009, "{report}");
    assert!(rows(&report, "/after").is_empty());
    let seconds = report["wall_seconds"].as_f64().expect("a number");
    let span = span.as_secs_f64();
    assert!((span..span + patience(0.5).as_secs_f64()).contains(&seconds), "{seconds} of {span}");
}

#[test]
fn without_a_command_the_mount_ends_with_its_time() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let span = format!("{}ms", patience(1.0).as_millis());
    let served = Served::start(&scratch, &["--exact", "--for", &span]);
    std::fs::write(scratch.path("at/file"), vec![7; 4001]).expect("written");
    let (status, report) = served.end();
    assert_eq!((status, report["totals"]["written_bytes"].as_u64()), (Some(0), Some(4001)));
    assert!(!super::is_mounted(&text(scratch.path("at"))));
}

/// `weigh run --io --io-mount source at OPTIONS -- bash -c LINE`: what it says.
#[track_caller]
pub fn recorded(scratch: &Scratch, options: &[&str], line: &str) -> std::process::Output {
    let mut weigh = std::process::Command::new(weigh_for_everybody());
    let [recording, source, at] = ["recording", "source", "at"].map(|n| text(scratch.path(n)));
    weigh.args(["run", "-q", "--io", "-o", &recording, "--io-mount", &source, &at]);
    weigh.args(options).args(["--", "bash", "-c", line]).stdin(std::process::Stdio::null());
    crate::support::run::set_surroundings(&mut weigh, scratch);
    weigh.output().expect("weigh runs")
}

#[test]
fn a_recording_of_a_mount_has_every_call_and_its_sums() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let line = script(&text(scratch.path("at")));
    let output = recorded(&scratch, &["--io-exact", "--io-calls", "--interval=50ms"], &line);
    assert!(output.status.success(), "{output:?}");
    assert!(!super::is_mounted(&text(scratch.path("at"))));
    let recording = Recording::open(&scratch.path("recording")).expect("it can be read");
    let found = recording.summary().io.as_deref().expect("a section of its own");
    let by = found.totals.by_calls;
    assert_eq!(
        [by.read_bytes, by.read_calls, by.written_bytes, by.write_calls],
        [BYTES, CALLS, BYTES, CALLS]
    );
    assert_eq!(found.mechanism, weigh_schema::Mechanism::Fuse);
    let (mut moments, mut files) = ([0; 2], [0; 2]);
    recording
        .each_io_moment(|row| {
            moments[0] += row.read_bytes.expect("seen");
            moments[1] += row.written_bytes.expect("seen");
            assert_eq!(row.device_read_bytes, None, "a mount does not see devices");
        })
        .expect("rows");
    assert_eq!(moments, [BYTES; 2]);
    recording
        .each_file(|row| {
            let used = row.totals.by_calls;
            files[0] += used.read_bytes;
            files[1] += used.written_bytes;
        })
        .expect("rows");
    assert_eq!(files, [BYTES; 2]);
    let mut told = Vec::new();
    recording.each_io_call(|row| told.push(row)).expect("rows");
    assert_eq!([sum(&told, "read"), sum(&told, "write")], [[BYTES, CALLS]; 2]);
    let page = scratch.text("recording/report.html");
    assert!(page.contains("/odd") && page.contains("\"are_reads_unseen\":false"));
    let mapped = &recording.summary().metrics["mmap_read_bytes_total"];
    assert!(mapped.value.is_none() && mapped.reason.is_some(), "{mapped:?}");
}

#[test]
fn a_recording_says_what_a_mount_does_not_see() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let line = script(&text(scratch.path("at")));
    // Writes are seen, reads are not, on every kernel.
    let output = recorded(&scratch, &["--io-no-passthrough", "--interval=50ms"], &line);
    assert!(output.status.success(), "{output:?}");
    let recording = Recording::open(&scratch.path("recording")).expect("it can be read");
    let mut written = 0;
    recording
        .each_io_moment(|row| {
            assert_eq!((row.read_bytes, row.read_calls_total), (None, None));
            written += row.written_bytes.expect("seen");
        })
        .expect("rows");
    assert_eq!(written, BYTES);
    let page = scratch.text("recording/report.html");
    assert!(page.contains("\"are_reads_unseen\":true") && page.contains("an unknown amount read"));
    assert!(page.contains("\"are_writes_unseen\":false"));
}

/// The command would run where its files are not.
#[test]
fn a_recording_refuses_what_can_not_be_mounted() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    std::fs::write(scratch.path("at/in-the-way"), "x").expect("a file");
    let output = recorded(&scratch, &[], &format!("touch {}", text(scratch.path("ran"))));
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("MOUNTPOINT") && said.contains("an empty directory"), "{said}");
    assert!(!scratch.path("ran").exists() && !scratch.path("recording").exists());
}

/// Who else has a file of it open goes on to be served when the job has ended.
#[test]
fn a_recorded_job_outlasts_whoever_has_a_file_of_its_mount_open() {
    if !can_mount() {
        return;
    }
    let scratch = folders();
    let [at, ready, done] = ["at", "ready", "done"].map(|name| text(scratch.path(name)));
    let line = format!(": > {ready}; while [ ! -e {done} ]; do sleep 0.05; done");
    let mut recording = None;
    let written = std::thread::scope(|scope| {
        let weigh = scope.spawn(|| recorded(&scratch, &["--io-exact"], &line));
        wait_until("it runs", 20.0, || scratch.path("ready").exists());
        let mut file = std::fs::File::create(scratch.path("at/file")).expect("made");
        std::fs::write(&done, "").expect("the job may end");
        wait_until("it is unmounted", 20.0, || !super::is_mounted(&at));
        std::thread::sleep(patience(0.5));
        let written = std::io::Write::write_all(&mut file, b"after the end");
        drop(file);
        recording = Some(weigh.join().expect("it ran"));
        written
    });
    assert!(written.is_ok(), "{written:?}");
    let output = recording.expect("it ended");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(scratch.text("source/file"), "after the end");
    assert!(String::from_utf8_lossy(&output.stderr).contains("somebody has files of it open"));
}
