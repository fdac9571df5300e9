//! `weigh io --mechanism preload+ptrace`, as a user without any rights: the library counts in dynamic programs, a tracer
//! in those that it cannot be in, of one job; nothing is counted by both, and nothing by nobody.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;

use crate::support::io_report::{BYTES, is_whole, moved, number, rows, source, text};
use crate::support::run::{Scratch, weigh_as};
use crate::support::{wait_until, workload};
use serde_json::Value;

const NOBODY: u32 = 65534;
const CHUNK: u64 = 1021;
const CALLS: u64 = 980;

/// Follows a command as nobody.
#[track_caller]
fn io(scratch: &Scratch, command: &[&str]) -> (Output, Value) {
    let mechanism = "preload+ptrace";
    let json = text(&scratch.path("io.json"));
    let options = ["io", "-q", "--mechanism", mechanism, "--json", &json, "--"];
    let output = weigh_as(Some(NOBODY), scratch, &[&options[..], command].concat());
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_str(&scratch.text("io.json"));
    let report: Value = report.unwrap_or_else(|error| panic!("{error}: {}", said()));
    assert_eq!(report["mechanism"], mechanism, "{report}");
    (output, report)
}

fn sources(row: &Value) -> Vec<&str> {
    row["sources"].as_array().expect("who has counted").iter().flat_map(Value::as_str).collect()
}

fn stops(report: &Value) -> u64 {
    report["price"]["stops_total"].as_u64().expect("a price")
}

/// A link of a chain of programs: it reads, and then goes on in that way.
fn link(kind: &str, from: &str, how: &str) -> String {
    format!("{} {from} {BYTES} {CHUNK} {how}", workload(&format!("chain{kind}")))
}

#[test]
fn a_shells_programs_are_counted_once_each_whatever_they_are() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let to = |name: &str| text(&scratch.path(&format!("work/{name}")));
    let (dynamic, fixed) = (workload("io"), workload("io-static"));
    let script = format!(
        "{dynamic} read {BYTES} {CHUNK} {from}; {fixed} pread {BYTES} {CHUNK} {from}; \
         {dynamic} write {BYTES} {CHUNK} {}; {fixed} writev {BYTES} {CHUNK} {}; \
         {fixed} sendfile {BYTES} {CHUNK} {from} {}; {fixed} splice {BYTES} {CHUNK} {from} {}; \
         {dynamic} copy_file_range {BYTES} {CHUNK} {from} {}; exit 7",
        to("a"),
        to("b"),
        to("c"),
        to("d"),
        to("e")
    );
    let (output, report) = io(&scratch, &["sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    is_whole(&report);
    let of = |path: &str, kind: &str, source: &str| {
        let all = rows(&report, path);
        let own = all.into_iter().filter(|row| sources(row) == [source]);
        own.map(|row| moved(row, kind)).find(|moved| moved.iter().any(|number| *number > 0))
    };
    let (reads, writes) = (Some([BYTES, CALLS, 0, 0]), Some([0, 0, BYTES, CALLS]));
    assert_eq!(of(&from, "plain", "preload"), reads);
    assert_eq!(of(&from, "positioned", "ptrace"), reads);
    assert_eq!(of(&to("a"), "plain", "preload"), writes);
    assert_eq!(of(&to("b"), "vectored", "ptrace"), writes);
    assert_eq!(of(&to("c"), "copied", "ptrace"), writes);
    assert_eq!(of(&to("d"), "copied", "ptrace"), writes);
    assert_eq!(of(&to("e"), "copied", "preload"), writes);
    let read: u64 = rows(&report, &from).iter().map(|row| number(row, "opens_total")).sum();
    assert_eq!(read, 5, "each of those that read has opened it once");
}

/// Each program counts itself, or is counted, through any chain of execs, forks and threads.
#[test]
fn who_counts_is_settled_at_each_exec() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let chain = |links: &[(&str, &str)]| -> (Value, Option<i32>) {
        let line: Vec<String> = links.iter().map(|(kind, how)| link(kind, &from, how)).collect();
        let line = line.join(" ");
        let words: Vec<&str> = line.split(' ').collect();
        let (output, report) = io(&scratch, &words);
        is_whole(&report);
        (report, output.status.code())
    };
    const S: &str = "-static";
    const D: &str = "";
    type Links = &'static [(&'static str, &'static str)];
    // How often the file is read by the library, by the tracer, and in how many processes.
    let chains: [(Links, u64, u64, usize); 8] = [
        (&[(S, "exec"), (D, "exec"), (S, "end")], 1, 2, 1),
        (&[(D, "exec"), (S, "exec"), (D, "exec"), (S, "end")], 2, 2, 1),
        (&[(S, "fork"), (D, "end")], 1, 2, 2),
        (&[(S, "vfork"), (D, "end")], 1, 1, 2),
        (&[(D, "vfork"), (S, "spawn"), (D, "spawn"), (S, "end")], 2, 2, 4),
        (&[(S, "threads")], 0, 6, 1),
        (&[(D, "threads")], 6, 0, 1),
        (&[(S, "late"), (D, "late"), (S, "end")], 2, 3, 1),
    ];
    for (links, by_library, by_tracer, processes) in chains {
        let (report, status) = chain(links);
        assert_eq!(status, Some(0), "{links:?}");
        let all = rows(&report, &from);
        assert_eq!(all.len(), processes, "{links:?}: {all:?}");
        let times = by_library + by_tracer;
        let sum = |at: usize| all.iter().map(|row| moved(row, "plain")[at]).sum::<u64>();
        assert_eq!([sum(0), sum(1)], [times * BYTES, times * CALLS], "{links:?}: {all:?}");
        let of = |key: &str| all.iter().map(|row| number(row, key)).sum::<u64>();
        assert_eq!([of("opens_total"), of("closes_total")], [times; 2], "{links:?}");
        let has = |source: &str| all.iter().any(|row| sources(row).contains(&source));
        assert_eq!([has("preload"), has("ptrace")], [by_library > 0, by_tracer > 0], "{links:?}");
        // Two for each call of a traced program: what the library counts is not stopped at.
        let more = stops(&report) - 2 * CALLS * by_tracer;
        assert!(more < 2 * CALLS, "{links:?}: {} beside {by_tracer}", stops(&report));
    }
}

/// A static program takes the environment away, and the loader is not told of the library: the tracer counts.
#[test]
fn programs_that_the_library_is_kept_from_are_traced() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let read = link("", &from, "end");
    for (kind, by) in [("-static", &["ptrace"][..]), ("", &["preload"])] {
        let line = format!("{} {read}", link(kind, &from, "bare"));
        let words: Vec<&str> = line.split(' ').collect();
        let (output, report) = io(&scratch, &words);
        assert!(output.status.success(), "{output:?}");
        let all = rows(&report, &from);
        assert_eq!(all.len(), 1, "{kind}: {all:?}");
        assert_eq!(moved(all[0], "plain"), [2 * BYTES, 2 * CALLS, 0, 0], "{kind}");
        assert_eq!(sources(all[0]), by, "{kind}");
        is_whole(&report);
    }
}

/// Who traces others is let go; the library goes on in it.
#[test]
fn programs_that_trace_are_let_go_and_counted_still() {
    if std::process::Command::new("strace").arg("-V").output().is_err() {
        crate::support::leave_out("no strace here");
        return;
    }
    let scratch = Scratch::new();
    let from = source(&scratch);
    let log = text(&scratch.path("work/log"));
    let read = link("", &from, "end");
    let script = format!("strace -f -o {log} {read}; {read}");
    let (output, report) = io(&scratch, &["sh", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    let all = rows(&report, &from);
    let moved: Vec<[u64; 4]> = all.iter().map(|row| moved(row, "plain")).collect();
    assert_eq!(moved, [[BYTES, CALLS, 0, 0]; 2], "{all:?}");
    assert!(scratch.text("work/log").contains("read("));
}

#[test]
fn the_end_is_the_programs_own() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let ends = [("kill -9 $$", Some(9)), ("kill -TERM $$", Some(15)), ("exit 41", None)];
    for kind in ["", "-static"] {
        for (script, signal) in ends {
            let line = link(kind, &from, "fork");
            let mut words: Vec<&str> = line.split(' ').collect();
            words.extend(["sh", "-c", script]);
            let (output, report) = io(&scratch, &words);
            assert_eq!(output.status.signal(), signal, "{kind} {script}");
            let code = signal.is_none().then_some(41);
            assert_eq!(output.status.code(), code, "{kind} {script}");
            let read: u64 = rows(&report, &from).iter().map(|row| moved(row, "plain")[0]).sum();
            assert_eq!(read, 2 * BYTES, "{kind} {script}");
        }
    }
}

/// Nothing of weigh stays in the job.
#[test]
fn the_job_goes_on_when_weigh_is_killed() {
    let scratch = Scratch::new();
    let from = source(&scratch);
    let (go, done) = (scratch.path("work/go"), scratch.path("work/done"));
    let (dynamic, fixed) = (link("", &from, "end"), link("-static", &from, "end"));
    let wait = format!("while [ ! -e {} ]; do sleep 0.02; done", go.display());
    let inner = format!("{wait}; {dynamic} && {fixed} && echo well >{}", done.display());
    let line = link("-static", &from, "exec");
    let json = text(&scratch.path("io.json"));
    let mut words = vec!["io", "-q", "--mechanism", "preload+ptrace", "--json", &json, "--"];
    words.extend(line.split(' '));
    words.extend(["sh", "-c", &inner]);
    let mut weigh = std::process::Command::new(crate::support::weigh_for_everybody());
    crate::support::run::set_surroundings(&mut weigh, &scratch);
    let mut weigh = weigh.args(&words).spawn().expect("weigh");
    wait_until("the job waits", 20.0, || scratch.survivors().len() >= 2);
    weigh.kill().expect("it ends");
    let _ = weigh.wait();
    std::fs::write(&go, "").expect("a file");
    wait_until("the job ends well", 20.0, || scratch.text("work/done") == "well\n");
}

/// Programs get the library when they begin, and it adds up.
#[test]
fn what_takes_one_of_them_alone_is_refused() {
    let scratch = Scratch::new();
    let calls = text(&scratch.path("calls.parquet"));
    let refused: [(&[&str], &str); 4] = [
        (&["--pid", "1"], "takes --mechanism"),
        (&["--by", "thread", "--", "true"], "only --mechanism bpf and ptrace tell threads apart"),
        (&["--calls", &calls, "--", "true"], "only --mechanism bpf and ptrace tell of each call"),
        (&["--seccomp", "--", "true"], "--seccomp is for --mechanism ptrace only"),
    ];
    for (arguments, why) in refused {
        let options = [&["io", "--mechanism", "preload+ptrace"], arguments].concat();
        let output = weigh_as(Some(NOBODY), &scratch, &options);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(why), "{said}");
    }
}
