//! `weigh io` and `weigh run --io` of an ordinary user with an agent: the same accounts as root has, to the byte, and of
//! nobody's files but his own. Without root nothing of this can be tested.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use crate::support::agent::{Agent, NOBODY, root_for_everybody};
use crate::support::io_report::{BYTES, moved, row, rows, source, text};
use crate::support::run::{Scratch, Weigh};
use crate::support::{patience, wait_until, workload};
use serde_json::Value;
use weigh_agent::RemoteIo;
use weigh_collect::io::{RowScope, Telling};
use weigh_schema::io::IoCall;
use weigh_schema::{Mechanism, Quality};

const CHUNK: u64 = 1021;
const CALLS: u64 = 980;
const PAGE: u64 = 4096;

/// Follows a command as nobody, who asks the agent.
#[track_caller]
fn io(agent: &Agent, scratch: &Scratch, options: &[&str], command: &[&str]) -> Value {
    let json = text(&scratch.path("io.json"));
    let output = agent
        .weigh(scratch, &[&["io", "-q", "--json", &json][..], options, &["--"], command].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    assert_eq!(report["mechanism"], "bpf", "{said}");
    report
}

/// Nothing is missing.
#[track_caller]
fn is_whole(report: &Value) {
    for key in ["notes", "rest", "quality"] {
        assert!(report.get(key).is_none(), "{key}: {}", report[key]);
    }
}

#[test]
fn every_kind_is_exact_in_dynamic_and_static_programs() {
    needs_root!();
    let (agent, scratch) = (Agent::start(), Scratch::new());
    let (from, to) = (source(&scratch), text(&scratch.path("work/target")));
    let (reads, writes) = ([BYTES, CALLS, 0, 0], [0, 0, BYTES, CALLS]);
    let kinds: [(&str, &str, bool, bool); 14] = [
        ("read", "plain", true, false),
        ("pread", "positioned", true, false),
        ("readv", "vectored", true, false),
        ("preadv2", "vectored", true, false),
        ("write", "plain", false, true),
        ("pwrite", "positioned", false, true),
        ("writev", "vectored", false, true),
        ("sendfile", "copied", true, true),
        ("splice", "copied", true, true),
        ("copy_file_range", "copied", true, true),
        ("aio-read", "aio", true, false),
        ("aio-write", "aio", false, true),
        ("uring-read", "uring", true, false),
        ("uring-write", "uring", false, true),
    ];
    for program in ["io", "io-static"] {
        let program = workload(program);
        let line = |(kind, _, is_read, is_write): &(&str, &str, bool, bool)| {
            let paths = [(is_read, &from), (is_write, &to)].into_iter().filter(|(is, _)| **is);
            let paths: Vec<&str> = paths.map(|(_, path)| path.as_str()).collect();
            format!(
                "sh -c 'echo $$ >&5; exec {program} {kind} {BYTES} {CHUNK} {}'\n",
                paths.join(" ")
            )
        };
        let script: String = kinds.iter().map(line).collect();
        let pids = text(&scratch.path("pids"));
        let script = format!("set -e; exec 5>{pids}\n{script}");
        let report = io(&agent, &scratch, &[], &["bash", "-c", &script]);
        is_whole(&report);
        let pids = scratch.text("pids");
        let pids: Vec<u64> = pids.lines().map(|pid| pid.parse().expect("a PID")).collect();
        assert_eq!(pids.len(), kinds.len());
        for (pid, (kind, transfer, is_read, is_write)) in pids.iter().zip(kinds) {
            for (is, path, expected) in [(is_read, &from, reads), (is_write, &to, writes)] {
                let row = rows(&report, path).into_iter().find(|row| row["pid"] == *pid);
                assert_eq!(row.is_some(), is, "{program} {kind} {path}");
                let Some(row) = row else { continue };
                assert_eq!(moved(row, transfer), expected, "{program} {kind} {path}");
                assert_eq!(row["by_kind"].as_object().expect("kinds").len(), 1, "{kind}: {row}");
            }
        }
    }
    let hole = text(&scratch.path("work/hole"));
    let report = io(&agent, &scratch, &[], &[&workload("access-static"), "sparse", &hole, "77"]);
    is_whole(&report);
    assert_eq!(moved(row(&report, &hole), "mapped")[0], 77 * PAGE);
    wait_until("nobody follows a job any more", 5.0, || agent.sessions().is_empty());
}

/// Bytes and calls by kind and direction, of the rows.
fn sums(rows: &[IoCall]) -> BTreeMap<String, [u64; 4]> {
    let mut sums: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for row in rows {
        let Some(kind) = &row.kind else { continue };
        let at = if row.deed == "write" { 2 } else { 0 };
        let sum = sums.entry(kind.clone()).or_default();
        sum[at] += row.bytes;
        sum[at + 1] += row.calls_total;
    }
    sums.retain(|_, sum| *sum != [0; 4]);
    sums
}

#[test]
fn a_recording_has_it_and_each_call() {
    needs_root!();
    let agent = Agent::start();
    let script = format!(
        "{io}-static write {BYTES} {CHUNK} to; {io} pread {BYTES} {CHUNK} to; {access} sparse hole 77",
        io = workload("io"),
        access = workload("access"),
    );
    let measured = agent.asked_by(Weigh::bash(&script)).options("--io --io-calls").measure();
    let found = measured.summary().io.as_deref().expect("a section of its own");
    assert_eq!((found.mechanism, found.quality), (Mechanism::Bpf, Quality::Exact));
    assert_eq!((found.untold, found.notes.as_slice()), (None, &[][..]));
    let mut calls = Vec::new();
    measured.recording().each_io_call(|row| calls.push(row)).expect("a table");
    let totals: BTreeMap<String, [u64; 4]> = found
        .totals
        .by_kind
        .iter()
        .map(|(kind, t)| {
            (kind.clone(), [t.read_bytes, t.read_calls, t.written_bytes, t.write_calls])
        })
        .collect();
    assert_eq!(sums(&calls), totals);
    let of = |end: &str, deed: &str| {
        let rows = calls.iter().filter(|row| row.path.as_ref().is_some_and(|p| p.ends_with(end)));
        let rows: Vec<_> = rows.filter(|row| row.deed == deed).collect();
        (rows.iter().map(|row| row.bytes).sum::<u64>(), rows.len() as u64)
    };
    assert_eq!((of("/to", "write"), of("/to", "read")), ((BYTES, CALLS), (BYTES, CALLS)));
    assert_eq!(of("/hole", "read").0, 77 * PAGE);
    let job = &measured.summary().job;
    let (start, end) = (job.started.as_nanosecond(), job.ended.expect("an end").as_nanosecond());
    // The job's own times come through the agent, too: they are as right as an answer takes.
    let around = start - 1_000_000_000..end + 1_000_000_000;
    assert!(calls.iter().all(|row| around.contains(&i128::from(row.time_ns))));
}

/// A copy of a program that others than root may execute and not read.
fn executable_alone(scratch: &Scratch, program: &str) -> String {
    let closed = text(&scratch.path("closed"));
    std::fs::copy(program, &closed).expect("a copy");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o711)).expect("rights");
    closed
}

/// A program, as nobody, that goes on until it is killed.
struct Running(Child);

impl Running {
    fn start(command: &[&str]) -> Running {
        use std::os::unix::process::CommandExt as _;
        let mut started = Command::new(command[0]);
        started.args(&command[1..]).uid(NOBODY).gid(NOBODY).stdin(Stdio::null());
        Running(started.spawn().expect("it starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_runs_is_followed_if_it_is_the_user_s_own() {
    needs_root!();
    let (agent, scratch) = (Agent::start(), Scratch::new());
    let (from, json) = (source(&scratch), text(&scratch.path("io.json")));
    let follow = |pid: u32| {
        let pid = pid.to_string();
        agent.weigh(&scratch, &["io", "-q", "--pid", &pid, "--for", "400ms", "--json", &json])
    };
    // By its path: a head that is busybox's reads more than it was asked for.
    let read = format!("/bin/dd if={from} of=/dev/null bs={CHUNK} count=1 status=none");
    let script = format!("while :; do {read}; sleep 0.02; done");
    let own = Running::start(&["sh", "-c", &script]);
    let output = follow(own.0.id());
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    assert_eq!(report["mechanism"], "bpf");
    let [bytes, calls, _, _] = rows(&report, &from)
        .iter()
        .map(|row| moved(row, "plain"))
        .fold([0; 4], |sum, one| std::array::from_fn(|i| sum[i] + one[i]));
    assert!(calls > 0 && bytes == CHUNK * calls, "{bytes} by {calls}: {report}");
    let refused = |pid: u32, why: &str| {
        let output = follow(pid);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(125) && said.contains(why), "{said}");
    };
    let mut theirs = Command::new("sleep").arg("60").spawn().expect("it starts");
    refused(theirs.id(), "not the user's own");
    theirs.kill().expect("it is there");
    theirs.wait().expect("it is there");
    refused(agent.process.id(), "not the user's own");
    let closed = executable_alone(&scratch, "/usr/bin/sleep");
    let hidden = Running::start(&[&closed, "60"]);
    wait_until("it is executed", 5.0, || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", hidden.0.id()));
        name.is_ok_and(|name| name == "closed\n")
    });
    refused(hidden.0.id(), "does not let itself be looked at");
    // Root has no need to ask, and what he starts has rights.
    let refused =
        RemoteIo::open(&agent.scratch.path("socket"), Telling::Sums, RowScope::default()).map(drop);
    let error = refused.expect_err("it was taken").to_string();
    assert!(error.contains("capabilities of its own"), "{error}");
}

/// Of a program that has become root's, or that he may not read, he is told sums; of one that sees a part of the files alone, what it sees.
#[test]
fn what_the_user_may_not_see_is_not_told() {
    needs_root!();
    let (agent, scratch) = (Agent::start(), Scratch::new());
    let (from, program) = (source(&scratch), workload("io"));
    let become_root = root_for_everybody(&agent.scratch);
    let secret = text(&scratch.path("work/secret"));
    std::fs::write(&secret, vec![7; BYTES as usize]).expect("a file");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).expect("rights");
    let closed = executable_alone(&scratch, &program);
    let script = format!(
        "{closed} read {BYTES} {CHUNK} {from}; TRUTH_FILE=/dev/null {become_root} --reuid=0 --regid=0 --clear-groups sh -c \
         '{program} read {BYTES} {CHUNK} {secret}; {program} aio-read {BYTES} {CHUNK} {secret}'; \
         {program} read {BYTES} {CHUNK} {from}"
    );
    let table = scratch.path("calls.parquet");
    let report = io(&agent, &scratch, &["--calls", &text(&table)], &["bash", "-c", &script]);
    let files = report["files"].as_array().expect("files");
    let of_root = |row: &Value| row["name"].as_str().is_none_or(|name| name.contains("secret"));
    assert!(!files.iter().any(of_root), "{report}");
    assert_eq!(rows(&report, &from).len(), 1);
    assert_eq!(moved(row(&report, &from), "plain"), [BYTES, CALLS, 0, 0]);
    let rest = report["rest"]["by_kind"]["plain"]["read_bytes"].as_u64().expect("a number");
    assert!((2 * BYTES..2 * BYTES + 100_000).contains(&rest), "{}", report["rest"]);
    assert!(report["notes"].to_string().contains("that the user may not look at"), "{report}");
    let named = report["processes"].as_array().expect("processes").iter();
    let of_job: Vec<u64> =
        named.filter(|p| p["name"] == "io").map(|p| p["pid"].as_u64().expect("a PID")).collect();
    assert_eq!(of_job.len(), 3);
    let own = row(&report, &from)["pid"].as_u64();
    let mut calls = Vec::new();
    let untold = weigh_keep::each_io_call(&table, |row| calls.push(row)).expect("a table");
    assert!(untold.read_bytes >= BYTES, "{untold:?}");
    let foreign = |row: &&IoCall| {
        let is_named = row.path.as_ref().is_some_and(|path| path.contains("secret"));
        is_named
            || (of_job.contains(&row.pid.into())
                && Some(row.pid.into()) != own
                && row.path.is_some())
    };
    // What was done before it became root was the user's doing.
    let told: Vec<_> = calls.iter().filter(foreign).filter(|row| row.bytes > 0).collect();
    assert!(told.is_empty(), "{told:?}");

    std::fs::copy(workload("io-static"), scratch.path("work/program")).expect("a copy");
    let inside = text(&scratch.path("work"));
    let (bytes, chunk) = (BYTES.to_string(), CHUNK.to_string());
    let command = [
        "env",
        "TRUTH_FILE=/truth",
        "unshare",
        "-Ur",
        "-R",
        &inside,
        "/program",
        "read",
        &bytes,
        &chunk,
        "/source",
    ];
    let report = io(&agent, &scratch, &[], &command);
    assert_eq!(moved(row(&report, "/source"), "plain"), [BYTES, CALLS, 0, 0]);
    assert!(rows(&report, &from).is_empty(), "{report}");
}

#[test]
fn when_the_agent_dies_what_was_told_stays() {
    needs_root!();
    let (mut agent, scratch) = (Agent::start(), Scratch::new());
    let from = source(&scratch);
    let script = format!(
        "exec 3<{from}; {} read {BYTES} {CHUNK} {from} >/dev/null; : >running-$1; \
         until [ -e {go} ]; do sleep 0.05; done; cat {from} >/dev/null; echo done",
        workload("io-static"),
        go = text(&scratch.path("work/go")),
    );
    let json = text(&scratch.path("io.json"));
    let arguments = ["io", "-q", "--json", &json, "--", "bash", "-c", &script, "-", "io"];
    let mut command = agent.command(&scratch, &arguments);
    let io = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let run = Weigh::bash(&script).argument("-").argument("run").option("--io");
    let mut run = agent.asked_by(run).start();
    let marks = [scratch.path("work/running-io"), run.scratch.path("work/running-run")];
    run.wait_until("both jobs run", 30.0, || marks.iter().all(|mark| mark.exists()));
    // Until it has been looked at what is open.
    std::thread::sleep(patience(1.5));
    agent.process.kill().expect("it is there");
    agent.process.wait().expect("it is there");
    std::thread::sleep(patience(0.2));
    std::fs::write(scratch.path("work/go"), "").expect("a file");
    let output = io.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stdout == b"done\n", "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the agent has gone") && said.contains("is not told"), "{said}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    assert_eq!((&report["mechanism"], &report["quality"]), (&"bpf".into(), &"estimated".into()));
    assert!(report["notes"].to_string().contains("is missing"), "{}", report["notes"]);
    let by =
        |name: &str| rows(&report, &from).into_iter().find(|row| row["process"] == name).cloned();
    let read = by("io-static").expect("it was told");
    assert_eq!(moved(&read, "plain"), [BYTES, CALLS, 0, 0]);
    assert!(read.get("moved_quality").is_none(), "it was over: {read}");
    let open = by("bash").expect("it was looked at while it was open");
    assert_eq!(open["numbers"]["opens_total"], 1);
    assert!(open["moved_quality"] != "exact" && open.get("moved_quality").is_some(), "{open}");
    assert_eq!(by("cat"), None, "nobody told of it");

    let measured = run.end();
    assert!(measured.status.success(), "{}", measured.everything());
    let found = measured.summary().io.as_deref().expect("a section of its own");
    assert_eq!((found.mechanism, found.quality), (Mechanism::Bpf, Quality::Estimated));
    assert!(found.totals.by_calls.read_bytes >= BYTES, "{found:?}");
    let mapped = measured.value("mmap_read_bytes_total");
    measured.check(mapped.reason.as_ref().is_some_and(|r| r.contains("is missing")), || {
        format!("{mapped:?}")
    });
}

#[test]
fn one_too_many_is_done_without_the_agent() {
    needs_root!();
    let (agent, scratch) = (Agent::start(), Scratch::new());
    let held: Vec<Running> = (0..2)
        .map(|_| {
            let mut command = agent.command(&scratch, &["io", "-q", "--", "sleep", "60"]);
            Running(command.spawn().expect("it starts"))
        })
        .collect();
    wait_until("both are followed", 20.0, || agent.sessions().len() == 2);
    let json = text(&scratch.path("io.json"));
    let output = agent.weigh(&scratch, &["io", "--all", "--json", &json, "--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("as the agent allows"), "{said}");
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    assert_eq!(report["mechanism"], "preload", "{said}");
    // Jobs are counted apart.
    let measured = agent.workload("spin 20").measure();
    measured.was_followed_by_the_kernel();
    drop(held);
    // Who has just come is served before it is seen that he has gone.
    wait_until("nobody is served", 20.0, || agent.sessions().is_empty());
}

/// Where a write lies is the open file's to say.
#[test]
fn what_is_appended_lies_at_the_end() {
    needs_root!();
    let (agent, scratch) = (Agent::start(), Scratch::new());
    let path = text(&scratch.path("work/appended"));
    let report = io(&agent, &scratch, &[], &[&workload("appends"), "calls", &path]);
    let row = row(&report, &path);
    let number = |key: &str| row["numbers"][key].as_u64().unwrap_or(0);
    let size = scratch.path("work/appended").metadata().expect("it is there").len();
    // By RWF_NOAPPEND 60 of Linux 6.9 on, and 20 without the flag.
    assert!([20, 80].contains(&number("rewritten_bytes")), "{row}");
    assert_eq!(number("highest_bytes"), size, "{row}");
    assert_eq!(row["again_quality"], "exact", "{row}");
}
