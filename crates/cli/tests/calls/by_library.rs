//! `weigh calls` by the library that marks calls, against what the programs themselves know.

use std::process::{Command, Output};

use super::accounts::{calls, number, parts_add_up, rows, slept_as_long, truth};
use crate::support::run::{Scratch, weigh};
use crate::support::workload;
use serde_json::Value;

/// Follows a command by the library; what it ended with, and the report.
#[track_caller]
fn marked(scratch: &Scratch, command: &[&str]) -> (Output, Value) {
    calls(scratch, &["-q", "--mechanism", "preload"], command)
}

#[track_caller]
fn notes(report: &Value) -> String {
    let notes = report["notes"].as_array().expect("notes").iter();
    notes.map(|note| note.as_str().expect("text")).collect::<Vec<&str>>().join("\n")
}

#[test]
fn the_library_counts_every_call_of_a_function() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("work/file").display().to_string();
    let (output, report) = marked(&scratch, &[&workload("calls"), &file]);
    assert!(output.status.success(), "{output:?}");
    let said = scratch.text("truth");
    assert_eq!(report["mechanism"], "preload");
    for call in ["read", "pwrite64", "fsync", "clock_nanosleep"] {
        assert_eq!(number(&report, call, "calls_total"), truth(&said, call), "{call}");
    }
    assert_eq!(number(&report, "read", "bytes_total"), truth(&said, "read_bytes"));
    assert_eq!(number(&report, "read", "errors_total"), truth(&said, "read_errors"));
    // It is made without a function of the C library, and that is said.
    assert!(rows(&report, "getppid").is_empty(), "{report}");
    assert!(notes(&report).contains("without a function of the C library"), "{report}");
    assert!(!notes(&report).contains("was not split"), "{report}");
    let slept = slept_as_long(&report, &said);
    let waited = slept["parts"]["sched"]["waiting_seconds"].as_f64().expect("seconds");
    // Of a wait whose end the kernel told nobody of the library knows no more than the whole call.
    let missed = report.get("missed_arrivals_total").map_or(0, |n| n.as_u64().expect("a number"));
    assert!(missed <= 3 && waited > 0.019 * (7 - missed) as f64, "{missed} missed: {slept}");
    parts_add_up(&report);
}

#[test]
fn only_the_calls_that_are_asked_for_are_marked() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("work/file").display().to_string();
    let options =
        ["-q", "--mechanism", "preload", "--only", "fsync,network,read", "-s", "sched,socket"];
    let (output, report) = calls(&scratch, &options, &[&workload("calls"), &file]);
    assert!(output.status.success(), "{output:?}");
    let said = scratch.text("truth");
    for call in ["read", "fsync"] {
        assert_eq!(number(&report, call, "calls_total"), truth(&said, call), "{call}");
    }
    for call in ["pwrite64", "clock_nanosleep", "openat", "close"] {
        assert!(rows(&report, call).is_empty(), "{call}: {report}");
    }
    // No interrupt takes part in what these two see.
    let parts = report["subsystems"].as_array().expect("parts").iter();
    assert_eq!(parts.map(|part| part["name"].clone()).collect::<Vec<_>>(), ["sched", "socket"]);
    parts_add_up(&report);
}

/// What is written to a log is not.
#[test]
fn what_is_not_by_a_socket_is_not_of_the_network() {
    needs_root!();
    // Two writes are to a device, and one says how many there were.
    for (only, others) in [("network", 0), ("network,write", 3)] {
        let scratch = Scratch::new();
        let options = ["-q", "--mechanism", "preload", "--only", only, "-s", "sched"];
        let (output, report) = calls(&scratch, &options, &[&workload("sockets")]);
        assert!(output.status.success(), "{output:?}");
        let said = scratch.text("truth");
        let of_sockets = truth(&said, "moving_calls") + truth(&said, "looking_calls");
        assert_eq!(report["calls_total"], of_sockets + others, "{only}: {report}");
    }
}

#[test]
fn what_goes_by_sockets_is_counted_whatever_else_its_number_was() {
    needs_root!();
    for mechanism in ["preload", "bpf"] {
        let scratch = Scratch::new();
        let options = ["-q", "--mechanism", mechanism, "-s", "sched,socket"];
        let (output, report) = calls(&scratch, &options, &[&workload("sockets")]);
        assert!(output.status.success(), "{output:?}");
        let said = scratch.text("truth");
        let parts = report["subsystems"].as_array().expect("parts");
        if parts.iter().any(|part| part["name"] == "socket" && part.get("missing").is_some()) {
            assert_eq!(mechanism, "bpf", "{report}");
            continue;
        }
        let sum = |field: &str| -> u64 {
            let rows = report["calls"].as_array().expect("rows").iter();
            rows.filter_map(|row| row["parts"]["socket"][field].as_u64()).sum()
        };
        let counted = (sum("sent_bytes_total"), sum("received_bytes_total"));
        let expected = (truth(&said, "sent_bytes"), truth(&said, "received_bytes"));
        assert_eq!(counted, expected, "{mechanism}: {report}");
        // The library counts each call on a socket that moved bytes, and no probe is attached for it.
        if mechanism == "preload" {
            assert_eq!(sum("entries_total"), truth(&said, "moving_calls"), "{report}");
            let of = |part: &&Value| part["name"] == "socket";
            assert_eq!(parts.iter().find(of).map(|part| &part["probes"]), Some(&0.into()));
        }
    }
}

/// Forks before it has made a call, and while it makes some; each process writes.
const FAMILY: &str = "
import os
null = os.open('/dev/null', os.O_WRONLY)
children = []
for child in range(60):
    pid = os.fork()
    if not pid:
        for i in range(500):
            os.write(null, b'12345')
        os._exit(0)
    children.append(pid)
    for i in range(50):
        os.write(null, b'12345')
for pid in children:
    os.waitpid(pid, 0)
";

#[test]
fn the_calls_of_many_processes_at_once_are_all_counted() {
    needs_root!();
    let scratch = Scratch::new();
    let options = ["-q", "--mechanism", "preload", "--only", "write", "-s", "sched"];
    let (output, report) = calls(&scratch, &options, &["python3", "-c", FAMILY]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(number(&report, "write", "calls_total"), 60 * (500 + 50), "{report}");
    assert_eq!(number(&report, "write", "bytes_total"), 60 * (500 + 50) * 5, "{report}");
}

#[test]
fn programs_that_the_library_is_not_in_are_named() {
    needs_root!();
    let scratch = Scratch::new();
    let static_one = workload("calls-static");
    let file = scratch.path("work/file").display().to_string();
    let script = format!("{static_one} {file}; env -u LD_PRELOAD true; dd if={file} of=/dev/null");
    let (output, report) = marked(&scratch, &["bash", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    assert!(rows(&report, "clock_nanosleep").is_empty(), "{report}");
    assert!(notes(&report).contains("was not in calls-static, true:"), "{report}");
    let refused = weigh(&scratch, &["calls", "--mechanism", "preload", "--", &static_one, &file]);
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("static"), "{refused:?}");
}

#[test]
fn the_library_changes_nothing_of_a_program() {
    needs_root!();
    let scratch = Scratch::new();
    let program = ["python3", "-c", PROGRAM];
    let alone = Command::new(program[0]).args(&program[1..]).output().expect("python3");
    let (output, report) = marked(&scratch, &program);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, alone.stdout);
    assert_eq!(output.stderr, alone.stderr);
    // Four threads and a child of 100 reads each, and 3 bytes that the handler wrote.
    assert!(number(&report, "pread64", "calls_total") >= 500, "{report}");
    assert_eq!(number(&report, "pread64", "bytes_total"), 500 * 7, "{report}");
}

/// Errors, the lowest free descriptor, descriptors that are closed without looking, threads, a fork,
/// a handler that writes while a call is open, and an exec at the end.
const PROGRAM: &str = r#"
import os, signal, threading, time
first = os.open("/dev/null", os.O_RDONLY)
print(first)
try:
    os.read(77, 1)
except OSError as error:
    print(error.errno)
os.closerange(3, 4096)
for fd in range(3, 2048):
    try:
        os.close(fd)
        print("open", fd)
    except OSError:
        pass
data = os.open("/dev/zero", os.O_RDONLY)
print(data)
def reads():
    for at in range(100):
        os.pread(data, 7, at)
threads = [threading.Thread(target=reads) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
signal.signal(signal.SIGALRM, lambda *_: os.write(1, b"rings\n"))
signal.setitimer(signal.ITIMER_REAL, 0.02)
time.sleep(0.1)
child = os.fork()
if child == 0:
    reads()
    os.write(1, b"child\n")
    os._exit(3)
print(os.waitpid(child, 0)[1], flush=True)
os.execvp("sh", ["sh", "-c", "echo end; exec true"])
"#;
