//! `weigh io --mechanism preload`, as a user without any rights: the same numbers as by the kernel side where
//! the library can know them, and nothing said to be exact that the kernel has counted more of.

use crate::support::io_report::{
    BYTES, HAS_READ, is_whole, moved, number, row, rows, source, text,
};
use crate::support::run::{Scratch, weigh_as};
use crate::support::{wait_until, workload};
use serde_json::Value;
use weigh_keep::Recording;
use weigh_schema::io::{IoFound, Unseen};

const NOBODY: u32 = 65534;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;

/// Follows a command as nobody.
#[track_caller]
fn io(scratch: &Scratch, command: &[&str]) -> (std::process::Output, Value) {
    let json = text(&scratch.path("io.json"));
    let options = ["io", "-q", "--mechanism", "preload", "--json", &json, "--"];
    let output = weigh_as(Some(NOBODY), scratch, &[&options[..], command].concat());
    let report = serde_json::from_str(&scratch.text("io.json"));
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = report.unwrap_or_else(|error| panic!("{error}: {}", said()));
    assert_eq!(report["mechanism"], "preload", "{report}");
    (output, report)
}

/// The library keeps a place for each file and process: who asks for threads is told, before anything runs.
#[test]
fn threads_are_refused_where_they_are_not_told_apart() {
    let scratch = Scratch::new();
    let refused = |arguments: &[&str]| {
        let output = weigh_as(None, &scratch, arguments);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("thread: only --mechanism bpf and ptrace tell threads apart"),
            "{said}"
        );
    };
    refused(&["io", "--by", "thread", "--mechanism", "preload", "--", "true"]);
    refused(&["run", "--io", "--io-by", "thread", "--mechanism", "preload", "--", "true"]);
}

#[test]
fn every_kind_is_counted_to_the_byte() {
    let scratch = Scratch::new();
    let (from, program) = (source(&scratch), workload("io"));
    let (reads, writes) = ([BYTES, CALLS, 0, 0], [0, 0, BYTES, CALLS]);
    let kinds: [(&str, &str, bool, bool); 13] = [
        ("read", "plain", true, false),
        ("pread", "positioned", true, false),
        ("readv", "vectored", true, false),
        ("preadv", "vectored", true, false),
        ("preadv2", "vectored", true, false),
        ("write", "plain", false, true),
        ("pwrite", "positioned", false, true),
        ("writev", "vectored", false, true),
        ("pwritev", "vectored", false, true),
        ("pwritev2", "vectored", false, true),
        ("sendfile", "copied", true, true),
        ("splice", "copied", true, true),
        ("copy_file_range", "copied", true, true),
    ];
    let target = |kind: &str| text(&scratch.path(&format!("work/{kind}")));
    let line = |(kind, _, is_read, is_write): &(&str, &str, bool, bool)| {
        let paths = [(*is_read, from.clone()), (*is_write, target(kind))];
        let paths: Vec<String> = paths.into_iter().filter(|(is, _)| *is).map(|p| p.1).collect();
        // The last one in a shell may be executed in its place: the PID is told before.
        format!("sh -c 'echo $$ >&5; exec {program} {kind} {BYTES} {CHUNK} {}'\n", paths.join(" "))
    };
    let script: String = kinds.iter().map(line).collect();
    let script = format!("set -e; exec 5>{}\n{script}", text(&scratch.path("pids")));
    let (output, report) = io(&scratch, &["bash", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    is_whole(&report);
    let pids = scratch.text("pids");
    let pids: Vec<u64> = pids.lines().map(|pid| pid.parse().expect("a PID")).collect();
    assert_eq!(pids.len(), kinds.len());
    for (pid, (kind, transfer, is_read, is_write)) in pids.iter().zip(kinds) {
        for (is, path, expected) in [(is_read, &from, reads), (is_write, &target(kind), writes)] {
            let row = rows(&report, path).into_iter().find(|row| row["pid"] == *pid);
            let Some(row) = row.filter(|_| is) else {
                assert!(!is, "{kind}: no row of {path}");
                continue;
            };
            assert_eq!(moved(row, transfer), expected, "{kind} {path}");
            // That, and mapped memory, which is there without a number.
            assert_eq!(row["by_kind"].as_object().expect("kinds").len(), 2, "{kind}: {row}");
            let sizes = if is_read && path == &from { "read_sizes" } else { "write_sizes" };
            assert_eq!(
                (&row[sizes]["512"], &row[sizes]["256"]),
                (&979.into(), &1.into()),
                "{kind}"
            );
            assert_eq!(number(row, "placed_total"), CALLS, "{kind}");
            assert_eq!((number(row, "opens_total"), number(row, "highest_bytes")), (1, BYTES));
            let consecutive = ["consecutive_reads_total", "consecutive_writes_total"];
            let consecutive: u64 = consecutive.iter().map(|key| number(row, key)).sum();
            assert_eq!(consecutive, CALLS - 1, "{kind} {path}");
        }
    }
}

#[test]
fn opens_order_metadata_and_failures_are_as_the_kernel_side_tells_them() {
    let scratch = Scratch::new();
    let (from, access) = (source(&scratch), workload("access"));
    let target = |name: &str| text(&scratch.path(&format!("work/{name}")));
    let script = format!(
        "{access} opens {from} 23; {access} strided {from} 101 5003; {access} again {from} 3; \
         {access} syncs {} 30; {access} deleted {}; {access} metadata {}; {access} map {from}; \
         {access} many {} 50; true",
        target("syncs"),
        target("gone"),
        target("meta"),
        target("f")
    );
    let (output, report) = io(&scratch, &["bash", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    is_whole(&report);
    let with = |key: &str, expected: u64| {
        let all = rows(&report, &from);
        let found = all.iter().filter(|row| number(row, key) == expected).count();
        assert_eq!(found, 1, "{key} {expected}: {all:?}");
        all.into_iter().find(|row| number(row, key) == expected).expect("counted above")
    };
    assert_eq!(moved(with("opens_total", 23), "plain"), [161, 23, 0, 0]);
    let strided = with("strided_reads_total", 99);
    assert_eq!(
        (number(strided, "sequential_reads_total"), moved(strided, "positioned")[1]),
        (1, 101)
    );
    assert_eq!(strided["read_strides"][0]["bytes"], 5003);
    assert_eq!(moved(with("reread_bytes", 2 * BYTES), "plain")[0], 3 * BYTES);
    assert_eq!(number(with("maps_total", 1), "opens_total"), 1);
    let synced = row(&report, &target("syncs"));
    assert_eq!((number(synced, "syncs_total"), number(synced, "small_syncs_total")), (30, 30));
    let gone = row(&report, &target("gone"));
    assert_eq!((&gone["is_deleted"], moved(gone, "plain")[2]), (&true.into(), 12_347));
    let facts = row(&report, &target("meta"));
    let told = ["seeks_total", "metadata_calls_total", "truncates_total", "failed_total"];
    assert_eq!(told.map(|key| number(facts, key)), [23, 19, 3, 5]);
    for file in 0..50 {
        let one = row(&report, &format!("{}.{file}", target("f")));
        assert_eq!((moved(one, "plain")[2], number(one, "closes_total")), (11, 1));
    }
    // What is not known has no number, not even 0.
    assert_eq!(report["totals"]["by_kind"]["mapped"], serde_json::json!({}));
    assert_eq!(row(&report, &target("syncs"))["by_kind"]["mapped"], serde_json::json!({}));
    for unknown in ["mapped", "filled_bytes"] {
        assert!(report["qualities"][unknown]["reason"].is_string(), "{}", report["qualities"]);
    }
}

/// Streams are read and written inside the C library.
#[test]
fn streams_are_seen_as_the_calls_that_they_make() {
    let scratch = Scratch::new();
    let (from, to) = (source(&scratch), text(&scratch.path("work/sorted")));
    // Both go through streams; sort writes by fwrite_unlocked, awk reads a pipe that it has opened.
    let script =
        format!("sort {from} >{to}; awk 'BEGIN {{ while (\"cat {to}\" | getline x) n++ }}'");
    let (output, report) = io(&scratch, &["bash", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    is_whole(&report);
    let written: u64 = rows(&report, &to).iter().map(|row| moved(row, "plain")[2]).sum();
    // The last line gets its end.
    assert_eq!(written, BYTES + 1);
    let read: u64 = rows(&report, &from).iter().map(|row| moved(row, "plain")[0]).sum();
    assert_eq!(read, BYTES);
}

/// Children read at a position that they share, and know where they are.
#[test]
fn positions_are_known_where_several_move_them() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let (_, report) = io(&scratch, &[&workload("access"), "shared", &from, "9"]);
    is_whole(&report);
    let of = |row: &&Value| (number(row, "lowest_bytes"), moved(row, "plain")[0]);
    let mut seen: Vec<_> = rows(&report, &from).iter().map(of).filter(|(_, n)| *n > 0).collect();
    seen.sort_unstable();
    let expected: Vec<_> = (0..9).map(|child| (child * 10_090, 10_090)).collect();
    assert_eq!(seen, expected);
}

/// What passes the library by is said, and how much it was.
/// Nothing is left out without a word where `weigh run --io` cannot have what it has as root.
#[test]
fn a_recording_has_what_can_be_had_and_says_what_not() {
    let scratch = Scratch::new();
    let (from, program) = (source(&scratch), workload("io"));
    let run = |options: &[&str]| {
        let recording = text(&scratch.path("recording"));
        let _ = std::fs::remove_dir_all(&recording);
        let command = ["--", &program, "read", "1000003", "1021", &from];
        let arguments = [&["run", "-q", "--io", "-o", &recording][..], options, &command].concat();
        let output = weigh_as(Some(NOBODY), &scratch, &arguments);
        assert!(output.status.success(), "{output:?}");
        let recording = Recording::open(&scratch.path("recording")).expect("it can be read");
        let of_job = |io: &IoFound| (io.totals.by_calls.read_bytes, io.totals.by_calls.read_calls);
        let found = recording.summary().io.as_deref().map(of_job);
        (found, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (found, said) = run(&["--io-calls"]);
    assert_eq!(found, Some((BYTES, CALLS)), "{said}");
    assert!(said.contains("--io-calls: no row for each call, only sums by file: "), "{said}");
    // What the library cannot see is not nothing when it is read again.
    let recording = Recording::open(&scratch.path("recording")).expect("it can be read");
    let mut files = Vec::new();
    recording.each_file(|row| files.push(row)).expect("rows");
    let used = files.iter().find(|row| row.name == from && row.is_followed());
    let used = used.expect("the file was followed");
    assert_eq!(used.totals.by_kind["plain"].read_bytes, BYTES);
    let unseen = used.totals.by_kind.get("mapped").map(|kind| kind.unseen);
    assert_eq!(unseen, Some(Unseen { reads: true, writes: true }), "{used:#?}");
    assert!(!used.totals.by_kind.contains_key("vectored"), "this is seen, and did not happen");
    let (found, said) = run(&["--mechanism", "poll"]);
    assert_eq!(found, None, "{said}");
    assert!(said.contains("--io: nothing is told by file: "), "{said}");
}

#[test]
fn a_static_program_is_named_and_what_it_moved_is_told_by_the_kernel() {
    let scratch = Scratch::new();
    let (from, program) = (source(&scratch), workload("io-static"));
    let command = format!("{program} read {BYTES} {CHUNK} {from}; true");
    let (_, report) = io(&scratch, &["bash", "-c", &command]);
    assert_eq!(report["quality"], "estimated");
    let notes = report["notes"].as_array().expect("notes");
    let told =
        |words: &str| notes.iter().any(|note| note.as_str().is_some_and(|n| n.contains(words)));
    assert!(told("io-static") && told("past the library"), "{notes:?}");
    let witness = &report["witness"];
    let of = |who: &str| witness[who]["read_bytes"].as_u64().expect("a number");
    let unseen = of("kernel") - of("seen") - of("start");
    assert!((BYTES..BYTES + 8192).contains(&unseen), "{witness}");
    let processes = report["processes"].as_array().expect("processes");
    let hidden = processes.iter().find(|process| process["name"] == "io-static");
    let hidden = hidden.unwrap_or_else(|| panic!("it has its program's name: {processes:?}"));
    assert_eq!(hidden["moved_quality"], "unavailable", "{hidden}");
    assert!(hidden.get("read_bytes").is_none(), "nobody knows how much: {hidden}");
    let bash = processes.iter().find(|process| process["name"] == "bash").expect("the shell");
    assert!(bash["moved_quality"] == "estimated" && bash["written_bytes"] == 0, "{bash}");
    let rings = format!("{} uring-read {BYTES} {CHUNK} {from}; true", workload("io"));
    let (_, report) = io(&scratch, &["bash", "-c", &rings]);
    assert_eq!(report["quality"], "estimated");
    assert!(report["qualities"]["uring"]["reason"].is_string(), "{}", report["qualities"]);
}

/// Neither the library nor the kernel counts messages and splices that a program makes past the C library: no sum and no
/// row is exact by the library, whatever the program.
#[test]
fn what_may_be_sent_past_the_library_is_never_exact() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    for way in ["raw", "number", "named"] {
        let (output, report) = io(&scratch, &[&workload("past"), way, &from]);
        assert!(output.status.success(), "{way}: {output:?}");
        assert_eq!(report["quality"], "estimated", "{way}");
        let notes: Vec<&str> =
            report["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let past: Vec<&&str> =
            notes.iter().filter(|note| note.contains("past the C library")).collect();
        assert_eq!(past.len(), 1, "{way}: {notes:?}");
        assert_eq!(past[0].contains("there were such calls"), way == "number", "{way}: {past:?}");
        let row = row(&report, &from);
        assert_eq!(row["moved_quality"], if way == "number" { "unavailable" } else { "estimated" });
        assert_ne!(row["again_quality"], "exact", "{way}: {row}");
        let process = &report["processes"][0];
        assert_eq!(process["moved_quality"], "estimated", "{way}: {process}");
        let files = report["files"].as_array().expect("files").iter();
        let sockets: Vec<&Value> = files.filter(|row| row["object"] == "socket").collect();
        if way == "named" {
            let sum = |at: usize| sockets.iter().map(|row| moved(row, "message")[at]).sum::<u64>();
            assert_eq!([sum(0), sum(1), sum(2), sum(3)], [11 * 1013, 11, 11 * 1013, 11]);
            assert_eq!(moved(row, "copied"), [997, 1, 0, 0]);
        }
        assert!(sockets.iter().all(|row| row.get("moved_quality").is_some()), "{sockets:?}");
    }
}

/// What requests wrote is in no call: the file was written by nobody knows how much, not by nothing.
#[test]
fn what_requests_moved_unseen_is_no_zero() {
    for kind in ["uring-write", "aio-write"] {
        let scratch = Scratch::new();
        let (bytes, chunk) = (BYTES.to_string(), CHUNK.to_string());
        let out = text(&scratch.path("work/out"));
        let (output, report) = io(&scratch, &[&workload("io"), kind, &bytes, &chunk, &out]);
        if kind == "uring-write" && !output.status.success() {
            continue; // no io_uring here
        }
        assert!(output.status.success(), "{kind}: {output:?}");
        let row = row(&report, &out);
        for key in ["read_bytes", "read_calls", "written_bytes", "write_calls"] {
            assert!(row.get(key).is_none(), "{kind} {key}: {row}");
        }
        let qualities = [&row["moved_quality"], &row["again_quality"]];
        assert_eq!(qualities, ["unavailable"; 2], "{kind}: {row}");
        let process = &report["processes"][0];
        // It told what it did by a call.
        assert!(process["written_bytes"].as_u64() < Some(1000), "{kind}: {process}");
        assert_eq!(process["moved_quality"], "estimated", "{kind}: {process}");
        assert!(process.get("read_bytes").is_none(), "{kind}: {process}");
    }
}

/// Killed at any moment: what was counted is there.
#[test]
fn what_a_killed_process_did_is_known() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let script = format!("{} wait {from} & {}; kill -9 $!; wait", workload("access"), HAS_READ);
    let (_, report) = io(&scratch, &["bash", "-c", &script]);
    assert_eq!(moved(row(&report, &from), "plain"), [100, 10, 0, 0]);
}

#[test]
fn the_job_outlives_weigh_and_its_output_is_its_own() {
    use std::os::unix::process::ExitStatusExt as _;
    let scratch = Scratch::new();
    let (output, _) = io(&scratch, &["sh", "-c", "echo out; exit 3"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b"out\n"[..]));
    let (output, _) = io(&scratch, &["sh", "-c", "kill -9 $$"]);
    assert_eq!((output.status.signal(), output.stderr.as_slice()), (Some(9), &b""[..]));
    let from = source(&scratch);
    let mut weigh = std::process::Command::new(crate::support::weigh_binary());
    crate::support::run::set_surroundings(&mut weigh, &scratch);
    weigh.args(["io", "-q", "--mechanism", "preload", "--", &workload("access"), "wait", &from]);
    let mut weigh = weigh.spawn().expect("weigh");
    wait_until("the job runs", 20.0, || scratch.survivors().len() == 1);
    weigh.kill().expect("it ends");
    let _ = weigh.wait();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(scratch.survivors().len(), 1);
}
