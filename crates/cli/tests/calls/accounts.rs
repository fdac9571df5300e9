//! `weigh calls`, against what the programs themselves know.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};

use crate::support::run::{Scratch, set_surroundings, weigh};
use crate::support::{
    is_slow, patience, wait_until, weigh_binary, weigh_for_everybody, workload, worth_the_time,
};
use serde_json::Value;

/// Follows a command; what it ended with, and the report.
#[track_caller]
pub fn calls(scratch: &Scratch, options: &[&str], command: &[&str]) -> (Output, Value) {
    let json = scratch.path("calls.json").display().to_string();
    let arguments = [&["calls", "--json", &json][..], options, &["--"], command].concat();
    let output = weigh(scratch, &arguments);
    let report = serde_json::from_str(&scratch.text("calls.json"));
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    (output.clone(), report.unwrap_or_else(|error| panic!("{error}: {}", said())))
}

/// The rows of a kind of call.
pub fn rows<'a>(report: &'a Value, call: &str) -> Vec<&'a Value> {
    let rows = report["calls"].as_array().expect("rows").iter();
    rows.filter(|row| row["call"] == call).collect()
}

#[track_caller]
pub fn number(report: &Value, call: &str, key: &str) -> u64 {
    let numbers = rows(report, call).into_iter().map(|row| row[key].as_u64().expect("a number"));
    numbers.sum()
}

/// Whether this machine has counters of the CPU is perf's to say, by the same call.
#[test]
fn counters_are_counted_or_said_to_be_unavailable_with_the_reason() {
    needs_root!();
    let scratch = Scratch::new();
    let options = ["--counters", "instructions,cycles", "--slowest", "3", "--all"];
    let (output, report) = calls(&scratch, &options, &["sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8_lossy(&output.stderr);
    let counters = report["counters"].as_array().expect("counters");
    let names: Vec<_> = counters.iter().map(|counter| counter["name"].as_str()).collect();
    assert_eq!(names, [Some("cycles"), Some("instructions")]);
    for counter in counters {
        let name = counter["name"].as_str().expect("a name");
        let key = format!("{name}_total");
        let counts = report["calls"].as_array().expect("rows").iter();
        let counts: Vec<_> = counts.filter_map(|row| row["counters"][&key].as_u64()).collect();
        match counter["unavailable"].as_str() {
            Some(why) => {
                let line = format!("{name} unavailable: {why}");
                // Before the command, and in the report.
                assert_eq!(said.matches(&line).count(), 2, "{said}");
                assert!(why.starts_with("perf_event_open"), "{why}");
                assert!(counts.is_empty(), "{counts:?}");
            }
            None => {
                assert!(counts.iter().sum::<u64>() > 0);
                assert!(said.contains("counted: "), "{said}");
            }
        }
    }
    // Nobody asked.
    let (_, report) = calls(&scratch, &[], &["true"]);
    assert!(report.get("counters").is_none());
}

/// Who reads from a pipe whose writer sleeps is idle: not among the slowest, unless that is asked for.
#[test]
fn an_idle_wait_for_a_writer_is_no_slow_call_unless_it_is_asked_for() {
    needs_root!();
    let scratch = Scratch::new();
    let command = ["sh", "-c", "(sleep 1; echo) | cat >&2"];
    let is_long_read = |call: &&Value| {
        let is_of_pipe = call["of"].as_str().is_some_and(|of| of.starts_with("pipe:["));
        let is_long = call["time_seconds"].as_f64().is_some_and(|seconds| seconds > 0.9);
        call["call"] == "read" && is_of_pipe && is_long
    };
    let long_reads = |report: &Value| {
        report["slowest"].as_array().expect("the slowest").iter().filter(is_long_read).count()
    };
    let options = ["--by", "file", "--slowest", "50"];
    let (output, report) = calls(&scratch, &options, &command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(long_reads(&report), 0, "{said}");
    assert!(!report["slowest"].as_array().expect("the slowest").is_empty());
    assert!(said.contains("idle, and not in the table (--idle): "), "{said}");
    // Nothing is left out of the JSON's table.
    let listed = rows(&report, "read").into_iter();
    let most = listed.filter_map(|row| row["time_seconds"].as_f64()).fold(0.0, f64::max);
    assert!(most > 0.9, "{report}");
    let (output, report) = calls(&scratch, &[&options[..], &["--idle"]].concat(), &command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(long_reads(&report) >= 1, "{said}");
    assert!(said.contains("idle: waiting for its writer"), "{said}");
    assert!(!said.contains("(--idle)"), "{said}");
}

/// Names that are no UTF-8 keep their bytes, in the table, in single calls and in the file of all calls; two files whose
/// names look alike are two.
#[test]
fn names_that_are_no_text_have_their_bytes_beside_them() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("each.parquet");
    let path = file.display().to_string();
    let script = r#"printf x >"$(printf 'a\377')"; printf xy >"$(printf 'a\376')""#;
    let options = ["--by", "file", "--slowest", "50", "--per-call", &path];
    let (_, report) = calls(&scratch, &options, &["sh", "-c", script]);
    let folder = scratch.path("work");
    let expected = [0xff, 0xfe].map(|byte| {
        weigh_schema::base64::encode(
            &[folder.as_os_str().as_encoded_bytes(), b"/a", &[byte]].concat(),
        )
    });
    let is_it = |row: &&Value| {
        let is_named = row["of"].as_str().is_some_and(|of| of.ends_with("/a\u{fffd}"));
        is_named && row["call"] == "write"
    };
    for table in ["calls", "slowest"] {
        let rows = report[table].as_array().expect("rows").iter().filter(is_it);
        let mut found: Vec<&str> =
            rows.map(|row| row["of_base64"].as_str().expect("bytes")).collect();
        found.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
        let mut expected = expected.each_ref().map(String::as_str);
        expected.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
        assert_eq!(found, expected, "{table}: {report}");
    }
    let mut found = Vec::new();
    let see = |row: weigh_schema::call_row::CallRow| {
        if row.call == "write" && row.of.as_deref().is_some_and(|of| of.ends_with("/a\u{fffd}")) {
            found.extend(row.of_base64);
        }
    };
    weigh_keep::each_call(&file, see).expect("rows");
    assert_eq!(found, expected);
    let report = explained(&scratch, &path);
    assert!(report.get("command_base64").is_none(), "{report}");
    let kinds = report["kinds"].as_array().expect("kinds").iter().filter(is_it);
    let mut found: Vec<&str> = kinds.map(|kind| kind["of_base64"].as_str().expect("it")).collect();
    found.sort_unstable();
    let mut expected = expected.each_ref().map(String::as_str);
    expected.sort_unstable();
    assert_eq!(found, expected, "{report}");
}

/// What `weigh explain` tells of a file of calls.
#[track_caller]
fn explained(scratch: &Scratch, file: &str) -> Value {
    let output = weigh(scratch, &["explain", "-q", "--json", "-", file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_command_that_is_no_text_keeps_its_bytes_in_the_file_of_all_calls() {
    needs_root!();
    let scratch = Scratch::new();
    let path = scratch.path("each.parquet").display().to_string();
    let mut command = Command::new(weigh_binary());
    set_surroundings(&mut command, &scratch);
    command.args(["calls", "-q", "--per-call", &path, "--", "true"]);
    command.arg(std::ffi::OsStr::from_bytes(b"a\xff"));
    assert!(command.output().expect("weigh starts").status.success());
    let report = explained(&scratch, &path);
    assert_eq!(report["command"], "true 'a\u{fffd}'", "{report}");
    assert_eq!(report["command_base64"], weigh_schema::base64::encode(b"true\0a\xff\0"));
}

/// An idle wait in the table by kind of call, which knows no file: of pipes and of sockets; not of files.
#[test]
fn an_idle_wait_is_told_where_calls_are_not_told_apart_by_file() {
    needs_root!();
    let scratch = Scratch::new();
    let of_pipe = ["sh", "-c", "(sleep 1; echo) | cat >&2"];
    let program = "import os, socket, time
a, b = socket.socketpair()
if not os.fork():
    time.sleep(1)
    a.send(b'x')
    os._exit(0)
os.read(b.fileno(), 1)";
    let of_socket = ["python3", "-c", program];
    for (command, end) in [(&of_pipe[..], "pipe"), (&of_socket[..], "socket")] {
        let (output, report) = calls(&scratch, &["--slowest", "50"], command);
        let said = String::from_utf8_lossy(&output.stderr);
        let key = format!("waiting_at_{end}s_seconds");
        let read = &rows(&report, "read")[0];
        let [waited, all] = [&read[&key], &read["time_seconds"]].map(|s| s.as_f64().expect("s"));
        assert!(waited > 0.9 && waited <= all, "{read}");
        assert!(said.contains("idle, and not in the table (--idle): "), "{said}");
        let idle = said.lines().find(|line| line.contains("not in the table")).expect("a line");
        assert!(idle.contains("read "), "{said}");
        let is_long = |call: &&Value| call["time_seconds"].as_f64().is_some_and(|s| s > 0.9);
        let slowest = |report: &Value| -> Vec<Value> {
            let slowest = report["slowest"].as_array().expect("the slowest").iter();
            slowest.filter(|call| call["call"] == "read").filter(is_long).cloned().collect()
        };
        assert_eq!(slowest(&report).len(), 0, "{report}");
        let (output, report) = calls(&scratch, &["--slowest", "50", "--idle"], command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(slowest(&report).iter().all(|call| call["waited_at"] == end), "{report}");
        assert!(slowest(&report).len() == 1 && said.contains("idle: waiting for "), "{said}");
    }
    // A wait for a device is none for another end.
    let (_, report) = calls(&scratch, &[], &["cat", "/proc/self/stat"]);
    assert!(rows(&report, "read").iter().all(|row| row.get("waiting_at_pipes_seconds").is_none()));
}

#[test]
fn a_counter_that_there_is_not_is_refused_with_those_that_there_are() {
    let scratch = Scratch::new();
    let refused = |options: &[&str]| {
        let output = weigh(&scratch, &[&["calls"], options, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(125));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused(&["--counters", "cyles"]);
    assert!(said.contains("'cyles'") && said.contains("cycles, instructions"), "{said}");
    let said = refused(&["--counters", "cycles", "--mechanism", "preload"]);
    assert!(said.contains("--counters takes bpf"), "{said}");
}

#[test]
fn a_file_of_single_calls_is_refused_where_they_are_added_up() {
    let scratch = Scratch::new();
    let options = ["calls", "--mechanism", "preload", "--per-call", "rows.parquet", "--", "true"];
    let output = weigh(&scratch, &options);
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--per-call takes bpf"), "{said}");
}

/// A `key=value` line of a workload's truth.
#[track_caller]
pub fn truth(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {key} in {text}")).parse().expect("a number")
}

/// The parts of each row are its time, no more and no less.
#[track_caller]
pub fn parts_add_up(report: &Value) {
    for row in report["calls"].as_array().expect("rows") {
        let parts = row["parts"].as_object().expect("parts");
        let of = |key: &str| parts.values().filter_map(|p| p[key].as_f64()).sum::<f64>();
        let sum = of("time_seconds") + of("waiting_seconds") + of("run_queue_seconds");
        let time = row["time_seconds"].as_f64().expect("seconds");
        assert!((sum - time).abs() < 1e-6, "{}: {sum} of {time}", row["call"]);
    }
}

/// The time of the workload's sleeps is what it saw itself: the row. On a slow machine much may lie
/// between the clock that it looks at and the call.
#[track_caller]
pub fn slept_as_long<'a>(report: &'a Value, said: &str) -> &'a Value {
    let slept = rows(report, "clock_nanosleep")[0];
    let seconds = slept["time_seconds"].as_f64().expect("seconds");
    let own = truth(said, "clock_nanosleep_ns") as f64 / 1e9;
    let least = if is_slow() { 7.0 * 0.02 } else { own * 0.95 };
    assert!(seconds <= own && seconds > least, "{seconds} of {own}");
    slept
}

#[test]
fn every_call_is_counted_and_its_parts_add_up() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("work/file").display().to_string();
    for program in worth_the_time(&["calls", "calls-static"], 1) {
        let _ = std::fs::remove_file(scratch.path("truth"));
        let (output, report) = calls(&scratch, &["-q"], &[&workload(program), &file]);
        assert!(output.status.success(), "{output:?}");
        let said = scratch.text("truth");
        for call in ["pwrite64", "fsync", "clock_nanosleep", "getppid"] {
            assert_eq!(number(&report, call, "calls_total"), truth(&said, call), "{call}");
        }
        assert_eq!(report["lost_total"], 0);
        slept_as_long(&report, &said);
        parts_add_up(&report);
    }
}

/// The cost is not known where other load met all that was tried.
fn with_a_cost(measure: impl FnMut() -> (Output, Value)) -> (Output, Value) {
    let mut tries = std::iter::repeat_with(measure).take(5);
    tries.find(|(_, report)| report["cost"].is_object()).expect("a cost, of five tries")
}

/// It is tried out with calls that are in no table, and no row.
#[test]
fn what_following_a_call_costs_here_is_said() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("calls.parquet");
    let options = ["--all", "--per-call", &file.display().to_string()];
    let (output, report) = with_a_cost(|| calls(&scratch, &options, &["true"]));
    let cost = |key: &str| report["cost"][key].as_f64().expect("seconds");
    let (followed, others) = (cost("followed_seconds"), cost("others_seconds"));
    assert!(followed > others && others > 0.0 && followed < 1e-3, "{followed} {others}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("to be followed costs each call"), "{said}");
    let rows = report["calls"].as_array().expect("rows");
    let counted: u64 = rows.iter().filter_map(|row| row["calls_total"].as_u64()).sum();
    assert_eq!(report["calls_total"].as_u64(), Some(counted), "{report}");
    let is_known = |row: &Value| !row["call"].as_str().expect("a name").contains("32766");
    assert!(counted < 1000 && rows.iter().all(is_known), "{counted} {report}");
    assert_eq!((&report["threads_total"], &report["untold_total"]), (&1.into(), &0.into()));
    assert_eq!(weigh_keep::each_call(&file, |_| {}).expect("rows"), counted);
}

/// By a library, which has to be in a program for that; it is in no table either.
#[test]
fn what_marking_a_call_costs_here_is_said() {
    needs_root!();
    let scratch = Scratch::new();
    let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1009", "count=23"];
    let measure = || calls(&scratch, &["--all", "--mechanism", "preload"], &command);
    // It is not known where other load met all that was tried.
    let known =
        std::iter::repeat_with(measure).take(5).find(|(_, report)| report["cost"].is_object());
    let (output, report) = known.expect("five tries");
    let cost = |key: &str| report["cost"][key].as_f64().expect("seconds");
    let (followed, others) = (cost("followed_seconds"), cost("others_seconds"));
    assert!(followed > others && others >= 0.0 && followed < 1e-3, "{followed} {others}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("to be followed costs each call"), "{said}");
    assert_eq!(number(&report, "write", "calls_total"), 23, "{report}");
    assert!(
        rows(&report, "lseek").iter().all(|row| row["calls_total"].as_u64() < Some(10)),
        "{report}"
    );
    assert_eq!((&report["threads_total"], &report["lost_total"]), (&1.into(), &0.into()));
    let notes = report["notes"].as_array().expect("notes");
    assert!(!notes.iter().any(|note| note.to_string().contains("was not in")), "{report}");
}

#[test]
fn the_command_keeps_its_output_and_status() {
    needs_root!();
    let scratch = Scratch::new();
    let (output, _) = calls(&scratch, &["--all"], &["sh", "-c", "echo out; exit 3"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b"out\n"[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("exit_group"), "{output:?}");
    let (output, report) = calls(&scratch, &["-q"], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.signal(), Some(9));
    assert_eq!(number(&report, "kill", "calls_total"), 1);
    let missing = weigh(&scratch, &["calls", "--", "no-such-command-anywhere"]);
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
}

#[test]
fn a_call_that_never_returns_counts_until_its_thread_ends() {
    needs_root!();
    let scratch = Scratch::new();
    let seconds = patience(0.3).as_secs_f64();
    let command = ["timeout", "-s", "KILL", &seconds.to_string(), "sleep", "1000"];
    let (_, report) = calls(&scratch, &["-q"], &command);
    let slept = rows(&report, "clock_nanosleep");
    let time = slept[0]["time_seconds"].as_f64().expect("seconds");
    assert!(time > seconds * 0.5 && time < seconds + 5.0, "{time}");
    assert_eq!(number(&report, "clock_nanosleep", "calls_total"), 1);
}

#[test]
fn what_the_command_leaves_behind_is_followed_too() {
    needs_root!();
    let scratch = Scratch::new();
    let script = "(setsid sh -c 'sleep 0.2; mkdir left-over' &) ; true";
    let (_, report) = calls(&scratch, &["-q"], &["sh", "-c", script]);
    assert_eq!(number(&report, "mkdir", "calls_total"), 1, "{report}");
}

#[test]
fn a_file_has_rows_of_its_own() {
    needs_root!();
    let scratch = Scratch::new();
    let file = scratch.path("work/data file").display().to_string();
    let command = ["dd", "if=/dev/zero", &format!("of={file}"), "bs=1009", "count=23"];
    let (_, report) = calls(&scratch, &["-q", "--by", "file"], &command);
    let of = |call: &str, of: &str| {
        let mut rows = rows(&report, call).into_iter().filter(|row| row["of"] == of);
        rows.next().unwrap_or_else(|| panic!("no {call} of {of}: {report}")).clone()
    };
    assert_eq!(of("write", &file)["calls_total"], 23);
    assert_eq!(of("write", &file)["bytes_total"], 23 * 1009);
    assert_eq!(of("read", "/dev/zero")["calls_total"], 23);
    assert_eq!(of("read", "/dev/zero")["bytes_total"], 23 * 1009);
}

#[test]
fn pipes_have_the_names_that_the_kernel_gives_them() {
    needs_root!();
    let scratch = Scratch::new();
    let names = scratch.path("names").display().to_string();
    let script = "{ readlink /proc/self/fd/0 >>\"$0\"; cat; }";
    let script = format!("echo one | {script} | cat | {script}");
    let command = ["sh", "-c", &script, &names];
    let (_, report) = calls(&scratch, &["-q", "--by", "file"], &command);
    let names = scratch.text("names");
    assert_eq!(names.lines().count(), 2, "{names}");
    for name in names.lines() {
        let read = rows(&report, "read").into_iter().find(|row| row["of"] == name);
        let read = read.unwrap_or_else(|| panic!("no read of {name}: {report}"));
        assert_eq!(read["bytes_total"], "one\n".len(), "{report}");
    }
}

#[test]
fn a_connection_has_rows_of_its_own() {
    needs_root!();
    let scratch = Scratch::new();
    let options = ["-q", "--by", "connection", "-s", "socket,tcp,net"];
    let (_, report) = calls(&scratch, &options, &[&workload("net"), "1000003", "3"]);
    let said = scratch.text("truth");
    let moved = |calls: &[&str]| -> u64 {
        let rows = calls.iter().flat_map(|call| rows(&report, call));
        let rows = rows.filter(|row| row["of"].as_str().is_some_and(|of| of.contains(" -> ")));
        rows.map(|row| row["bytes_total"].as_u64().expect("bytes")).sum()
    };
    let sent = moved(&["write", "sendto", "sendmsg", "writev"]);
    let received = moved(&["read", "recvfrom", "recvmsg", "readv"]);
    assert_eq!(sent, truth(&said, "net_sent_bytes"), "{report}");
    assert_eq!(received, truth(&said, "net_received_bytes"), "{report}");
    // Three connections, each seen from both ends.
    let mut names: Vec<&str> =
        rows(&report, "write").iter().filter_map(|r| r["of"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert!(
        names.iter().filter(|name| name.starts_with("tcp 127.0.0.1:")).count() >= 3,
        "{names:?}"
    );
}

#[test]
fn a_process_that_runs_already() {
    needs_root!();
    let scratch = Scratch::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "while :; do sleep 0.05; done"]).stdout(Stdio::null());
    set_surroundings(&mut shell, &scratch);
    let mut shell = shell.spawn().expect("a shell");
    let json = scratch.path("calls.json").display().to_string();
    let duration = format!("{}ms", patience(0.7).as_millis());
    let pid = shell.id().to_string();
    let output = weigh(&scratch, &["calls", "--pid", &pid, "--for", &duration, "--json", &json]);
    // What is written where is user space's.
    let piped = (!is_slow())
        .then(|| weigh(&scratch, &["calls", "--pid", &pid, "--for", "0.3s", "--json", "-"]));
    shell.kill().and_then(|()| shell.wait()).expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("clock_nanosleep"), "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("calls.json")).expect("JSON");
    assert!(number(&report, "clock_nanosleep", "calls_total") >= 3, "{report}");
    assert!(number(&report, "wait4", "calls_total") >= 3, "{report}");
    assert_eq!(report["pid"], shell.id());
    let Some(piped) = piped else { return };
    // A reader of standard output gets JSON alone, and people the table beside it.
    let report: Value = serde_json::from_slice(&piped.stdout).expect("JSON and nothing else");
    assert_eq!(report["pid"], shell.id());
    assert!(String::from_utf8_lossy(&piped.stderr).contains("clock_nanosleep"), "{piped:?}");
}

#[test]
fn a_signal_to_weigh_reaches_the_command() {
    needs_root!();
    let scratch = Scratch::new();
    let mut weigh = Command::new(weigh_binary());
    weigh.args([
        "calls",
        "-q",
        "--",
        "sh",
        "-c",
        "trap 'exit 7' TERM; echo ready; while :; do sleep 0.02; done",
    ]);
    weigh.stdout(Stdio::piped());
    set_surroundings(&mut weigh, &scratch);
    let mut weigh = weigh.spawn().expect("weigh");
    let mut ready = [0; 6];
    let mut said = weigh.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut said, &mut ready).expect("it is ready");
    crate::support::processes::signal(weigh.id(), 15);
    let mut status = None;
    wait_until("weigh ends", 20.0, || {
        status = weigh.try_wait().expect("it is our child");
        status.is_some()
    });
    assert_eq!(status.expect("waited for").code(), Some(7));
}

#[test]
fn what_is_wrong_is_said_before_the_command_runs() {
    needs_root!();
    let scratch = Scratch::new();
    let marker = scratch.path("has-run").display().to_string();
    let library = ["calls", "--mechanism", "preload", "--only"];
    let unknown = [&library[..], &["fsink", "--", "touch", &marker]].concat();
    let cases: [(&[&str], &str); 6] = [
        (&unknown, "no call 'fsink'"),
        (&["calls", "--only", "fsync", "--", "touch", &marker], "--only takes --mechanism preload"),
        (&["calls", "-s", "blok", "--", "touch", &marker], "did you mean block?"),
        (&["calls"], "expected either a command"),
        (&["calls", "--pid", "4194303", "--for", "1s"], "there is no process 4194303"),
        (&["calls", "--json", "/no/such/folder/x", "--", "touch", &marker], "/no/such/folder/x"),
    ];
    for (arguments, expected) in cases {
        let output = weigh(&scratch, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {said}");
        assert!(said.contains(expected), "no '{expected}' in {said}");
        assert!(!scratch.path("has-run").exists(), "{arguments:?}: the command ran");
    }
}

#[test]
fn without_rights_it_says_what_is_missing() {
    needs_root!();
    let scratch = Scratch::new();
    let weigh = weigh_for_everybody();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(weigh).args(["calls", "--", "true"]);
    set_surroundings(&mut command, &scratch);
    let output = command.output().expect("setpriv");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("CAP_BPF"), "{said}");
    // All that an agent would do instead is named.
    for served in ["`weigh run`", "`weigh io`", "`weigh trace`", "libweigh"] {
        assert!(said.contains(served), "no {served}: {said}");
    }
}
