//! What goes wrong is found before the job starts if it can be, is said clearly, and never harms
//! the job.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::support::measured::Measured;
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, Weigh, weigh};
use crate::support::{patience, processes, wait_until, workload, worth_the_time};
use rustix::fs::FlockOperation;
use weigh_keep::Recording;
use weigh_schema::summary::ExitKind;

/// Runs weigh with options that must be refused before the job starts; gives what it said.
#[track_caller]
pub fn refused(scratch: &Scratch, options: &[&str]) -> String {
    let marker = scratch.path("job-has-run").display().to_string();
    let recording = scratch.path("recording").display().to_string();
    let mut arguments = vec!["run"];
    if !options.contains(&"-o") {
        arguments.extend(["-o", &recording]);
    }
    arguments.extend(options);
    arguments.extend(["--", "touch", &marker]);
    let output = weigh(scratch, &arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
    assert!(output.stdout.is_empty(), "{options:?} wrote to standard output");
    assert!(!Path::new(&marker).exists(), "{options:?}: the job was started; {said}");
    assert!(!Path::new(&recording).exists(), "{options:?}: it left a recording; {said}");
    said
}

/// Text that must be in what weigh said.
#[track_caller]
pub fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "no '{part}' in:\n{said}");
    }
}

#[track_caller]
fn did_not_start(measured: &Measured, status: i32, command: &str) {
    measured.check(measured.status.code() == Some(status), || format!("expected {status}"));
    measured.said(command);
    let exit = measured.summary().exit.clone().expect("it is over");
    assert_eq!((exit.kind, exit.code), (ExitKind::FailedToStart, Some(status)));
    assert!(exit.error.is_some_and(|error| error.contains(command)));
    // What was not measured is not 0.
    assert_eq!(measured.value("cpu_seconds").value, None);
}

#[test]
fn a_command_that_is_not_there() {
    needs_root!();
    let measured = Weigh::run(["no-such-command-anywhere"]).end();
    did_not_start(&measured, 127, "no-such-command-anywhere");
    measured.said("No such file or directory");
    did_not_start(&Weigh::run(["/no/such/path"]).end(), 127, "/no/such/path");
    did_not_start(&Weigh::run([""]).end(), 127, "''");
}

#[test]
fn a_command_that_can_not_be_executed() {
    needs_root!();
    let scratch = Scratch::new();
    let plain = scratch.path("plain").display().to_string();
    fs::write(&plain, "just text").expect("a file");
    let measured = Weigh::run([&plain]).end();
    did_not_start(&measured, 126, &plain);
    measured.said("Permission denied");

    let directory = scratch.mark().display().to_string();
    did_not_start(&Weigh::run([&directory]).end(), 126, &directory);
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_the_shell() {
    needs_root!();
    let scratch = Scratch::new();
    let script = scratch.path("script").display().to_string();
    fs::write(&script, "exit 17\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permissions");
    let measured = Weigh::run([&script]).end();
    measured.check(measured.status.code() == Some(17), || "as execvp(3) does".to_string());
}

#[test]
fn wrong_options() {
    needs_root!();
    let scratch = Scratch::new();
    says(&refused(&scratch, &["--colour"]), &["--colour"]);
    says(&refused(&scratch, &["--interval", "1ms"]), &["'1ms' is too short", "10ms"]);
    says(&refused(&scratch, &["--interval", "soon"]), &["soon", "a duration", "250ms"]);
    says(&refused(&scratch, &["--wait-for", "godot"]), &["godot", "main", "all"]);
    says(&refused(&scratch, &["--on-limit", "explode"]), &["explode", "kill, warn or stop"]);
    says(&refused(&scratch, &["--grace=-1s"]), &["-1s"]);
    says(&refused(&scratch, &["--without", "brains"]), &["brains", "bpf", "network"]);
    says(&refused(&scratch, &["--label", "plain"]), &["plain", "KEY=VALUE"]);
}

/// A command line as somebody types it who comes from elsewhere, and what the answer tells to type.
#[rustfmt::skip]
const MISTAKES: &[(&[&str], &str)] = &[
    (&["sh", "-c", "true"], "`weigh run -- sh -c true`"),
    (&["./no-such", "a b"], "`weigh run -- ./no-such 'a b'`"),
    (&["runn", "--", "true"], "`weigh run -- true`"),
    (&["record", "--help"], "`weigh run -o DIR -- COMMAND`"),
    (&["help", "rnu"], "`weigh run --help`"),
    (&["run"], "`weigh run -- COMMAND`"),
    (&["-q", "--json", "x", "sh", "-c", "true"], "`weigh run -q --json x -- sh -c true`"),
    (&["run", "--quite", "--", "true"], "did you mean `--quiet`?"),
    (&["run", "-p", "1"], "did you mean `--pid`?"),
    (&["--verison"], "did you mean `weigh --version`?"),
    (&["-q", "run", "-o", "x", "--", "true"], "`weigh run -q -o x -- true`"),
    (&["--json", "j", "io", "true"], "`weigh io --json j -- true`"),
    (&["run", "--memory", "5G", "--", "true"], "did you mean `--limit memory_peak_bytes=VALUE`?"),
    (&["run", "--timeout", "60", "--", "true"], "did you mean `--limit wall_seconds=VALUE`?"),
    (&["run", "--slowest", "3", "--", "true"], "it is an option of `weigh calls`"),
    (&["run", "--mechanism", "bfp", "--", "true"], "did you mean 'bpf'?"),
    (&["history"], "`weigh serve`"),
    (&["run", "-z", "1"], "`weigh run --help`"),
    (&["doctor", "kernle"], "`weigh doctor kernel`"),
    (&["trace", "-e", "openat", "true"], "`weigh trace -e openat -- true`"),
    (&["syscalls:sys_enter_openat"], "`weigh trace -e syscalls:sys_enter_openat -- COMMAND`"),
    (&["trace", "openat"], "`weigh trace -e openat -- COMMAND`"),
    (&["trace", "-e", "sched_switch", "-p", "1"], "did you mean `--pid`?"),
    (&["trace", "-e", "syscalls:sys_enter_opnat", "--", "true"], "near it: sys_enter_openat"),
    (&["trace", "-e", "openat if ret == -ENOEN", "--", "true"], "near it: -ENOENT"),
    (&["trace", "-e", "interval:s:1", "--", "true"], "`--live`"),
    (&["trace", "--", "true"], "-e EVENT"),
    (&["run", "--limit", "memory=2GiB", "--", "true"], "did you mean memory_peak_bytes?"),
    (&["run", "--limit", "time=1h", "--", "true"], "did you mean wall_seconds?"),
    (&["run", "--limit", "memory_peak_bytes", "--", "true"], "memory_peak_bytes=2GiB"),
    (&["run", "--limit", "memory_peak_bytes=2 gigs", "--", "true"], "GiB"),
    (&["run", "--mechanism", "ebpf", "--", "true"], "auto, bpf, ptrace, preload, poll"),
    (&["run", "--interval", "0", "--", "true"], "at least 10ms"),
    (&["run", "--without", "gpus", "--", "true"], "gpu"),
    (&["run", "--grace", "-5s", "--", "true"], "'-5s' is no value of '--grace'"),
    (&["calls", "--slowest", "-1", "--", "true"], "'-1' is no value of '--slowest'"),
    (&["calls", "--slowest", "x", "--", "true"], "'--slowest <N>': expected a whole number"),
    (&["serve", "--export-jobs=x"], "expected a whole number"),
    (&["io", "--rows", "99999999999999999999999", "--", "true"], "expected a smaller number"),
    (&["agent", "--statsd", "localhost"], "expected an address and a port"),
    (&["run", "--io-calls", "--", "true"], "`weigh run --io-calls` needs --io;"),
    (&["run", "-q", "--io-mount", "a", "b", "--", "true"], "`weigh run --io-mount` needs --io;"),
    (&["run", "--io", "--userns", "--", "true"], "`weigh run --userns` needs --io-mount-over <DIR>;"),
    (&["top", "--json"], "`weigh top --json` needs --once;"),
    (&["show"], "`weigh show` needs <DIR>;"),
    (&["control", "1", "publsh"], "did you mean `weigh control publish`?"),
    (&["export", "--format", "darshan", "x"], "darshan-parser, wfformat, dot"),
    (&["export", "x"], "--format"),
    (&["explain", "/no/such.parquet"], "No such file or directory"),
    (&["explain", "/"], "`weigh calls --per-call FILE -- COMMAND`"),
    (&["show", "/no/such"], "/no/such"),
    (&["run", "-o", "/proc/no/such", "--", "true"], "/proc/no"),
    (&["run", "--limits", "/no/such.toml", "--", "true"], "/no/such.toml: No such file or directory"),
];

#[test]
fn each_typical_mistake_is_answered_by_a_line_that_says_what_to_type() {
    let scratch = Scratch::new();
    for (words, says) in MISTAKES {
        let output = weigh(&scratch, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}: {said}");
        assert!(said.contains(says), "{words:?}: no {says} in: {said}");
        assert!(said.starts_with("weigh: "), "{words:?}: {said}");
        assert!(!said.contains("os error"), "{words:?}: {said}");
        let first = said.lines().filter(|line| !line.starts_with("  ")).count();
        assert_eq!(first, 1, "{words:?}: more than one line: {said}");
    }
}

#[test]
fn help_is_a_verb_too() {
    let scratch = Scratch::new();
    for words in [&["help"][..], &["help", "run"], &["help", "trace", "list"]] {
        let output = weigh(&scratch, words);
        let shown = String::from_utf8_lossy(&output.stdout);
        let wanted = ["weigh", &words[1..].join(" ")].join(" ");
        assert!(output.status.success() && shown.contains(wanted.trim_end()), "{words:?}: {shown}");
    }
}

#[test]
fn wrong_limits() {
    needs_root!();
    let scratch = Scratch::new();
    let limit = |text: &str| refused(&scratch, &["--limit", text]);
    says(&limit("memory_peek_bytes=1GB"), &["memory_peek_bytes", "did you mean memory_peak_bytes"]);
    says(&limit("memory_peak_bytes"), &["METRIC=VALUE"]);
    says(&limit("memory_peak_bytes=lots"), &["memory_peak_bytes", "lots", "a size"]);
    says(&limit("wall_seconds=2GB"), &["wall_seconds", "2GB", "a duration"]);
    says(&limit("cpu_cores_average=2"), &["cpu_cores_average", "allowed are", "wall_seconds"]);
}

#[test]
fn wrong_limits_files() {
    needs_root!();
    let scratch = Scratch::new();
    let path = scratch.path("limits.toml").display().to_string();
    let file = |text: &str| {
        fs::write(&path, text).expect("a file");
        refused(&scratch, &["--limits", &path])
    };
    says(&file("memory_peek_bytes = 1"), &[&path, "memory_peek_bytes", "memory_peak_bytes"]);
    says(&file("wall_seconds = \"blue\""), &[&path, "wall_seconds", "'blue'", "a duration"]);
    says(&file("on_limit = \"explode\""), &[&path, "explode", "kill, warn or stop"]);
    says(&file("grace = \"long\""), &[&path, "grace", "long", "a duration"]);
    says(&file("cpu_seconds = [1]"), &[&path, "cpu_seconds", "array", "a number"]);
    says(&file("cpu_seconds = 1\n= 2\n"), &[&path, "line 2"]);
    says(&file("cpu_seconds = -1"), &[&path, "cpu_seconds", "-1"]);
    let absent = scratch.path("absent.toml").display().to_string();
    says(&refused(&scratch, &["--limits", &absent]), &[&absent, "No such file"]);
}

#[test]
fn a_place_that_can_not_be_written() {
    needs_root!();
    let scratch = Scratch::new();
    // Not even root can make a directory there.
    for place in ["/dev/full", "/proc/recording", "/dev/null/recording"] {
        says(&refused(&scratch, &["-o", place]), &[place]);
    }
}

#[test]
fn a_place_that_is_taken() {
    needs_root!();
    let measured = Weigh::run(["true"]).options("-q").measure();
    let place = measured.scratch.path("recording");
    let before = fs::read(place.join("summary.json")).expect("a summary");
    let text = place.display().to_string();
    let other = Scratch::new();
    says(&refused(&other, &["-o", &text]), &[&text, "summary.json"]);
    assert!(fs::read(place.join("summary.json")).expect("still there") == before);
    // A directory with other things in it is fine, and keeps them.
    fs::create_dir(other.path("place")).expect("a directory");
    fs::write(other.path("place/mine"), "kept").expect("a file");
    let place = other.path("place").display().to_string();
    let output = weigh(&other, &["run", "-q", "-o", &place, "--", "true"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(other.text("place/mine"), "kept");
    assert!(Recording::open(Path::new(&place)).expect("a recording").is_complete());
}

#[test]
fn a_summary_that_can_not_be_written() {
    needs_root!();
    let scratch = Scratch::new();
    // Found before the job starts.
    says(&refused(&scratch, &["--json", "/no/such/place"]), &["--json", "/no/such/place"]);
    says(&refused(&scratch, &["--json", "fd:77"]), &["--json", "77"]);
    says(&refused(&scratch, &["--json", "fd:x"]), &["--json", "fd:x", "fd:3"]);
    // Found when it is full: the job is over, its recording is there, and it is said; the status says so where that is
    // asked for.
    for (options, status) in [("", 0), ("--require-recording", 125)] {
        let run = Weigh::run(["touch", "ran"]).options("--json /dev/full").options(options);
        let measured = run.end();
        measured.check(measured.status.code() == Some(status), || format!("expected {status}"));
        measured.said("/dev/full");
        measured.check(measured.recording().is_complete(), || "the recording is cut".to_string());
    }
    let measured = Weigh::run(["touch", "ran"]).options("--json /dev/full").end();
    measured.check(measured.recording().is_complete(), || "the recording is cut".to_string());
    assert!(measured.scratch.path("work/ran").exists());
}

#[test]
fn the_library_is_asked_for_where_it_follows_the_job() {
    let scratch = Scratch::new();
    let run = ["run", "--io", "--io-mechanism", "preload", "--", "true"];
    let output = weigh(&scratch, &run);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    says(&String::from_utf8_lossy(&output.stderr), &["say --mechanism preload"]);
}

/// `-o -` is standard output, but where a directory is written.
#[test]
fn a_dash_is_standard_output() {
    let scratch = Scratch::new();
    let recording = scratch.path("recording").display().to_string();
    let refused = weigh(&scratch, &["run", "-o", "-", "--", "touch", "ran"]);
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    says(&String::from_utf8_lossy(&refused.stderr), &["`--json -`", "standard output"]);
    assert!(!scratch.path("work/ran").exists() && !scratch.path("work/-").exists());
    let run = weigh(&scratch, &["run", "-q", "-o", &recording, "--", "true"]);
    assert!(run.status.success(), "{run:?}");
    let page = weigh(&scratch, &["report", "-o", "-", &recording]);
    assert!(page.status.success() && page.stdout.starts_with(b"<!"), "{page:?}");
    assert!(!scratch.path("work/-").exists());
}

/// By a pipe, whose reader takes at once what comes.
#[test]
fn what_the_command_writes_before_the_summary_is_told() {
    let scratch = Scratch::new();
    let recording = scratch.path("recording").display().to_string();
    for (command, is_told) in [("echo out", true), ("echo out >&2", false)] {
        let arguments = ["run", "-q", "-o", &recording, "--json", "-", "--", "sh", "-c", command];
        let output = weigh(&scratch, &arguments);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.contains("`--json fd:3 3>FILE`"), is_told, "{command}: {said}");
        fs::remove_dir_all(&recording).expect("it is removed");
    }
}

#[test]
fn a_recording_that_is_none() {
    let scratch = Scratch::new();
    let show = |place: &str| {
        let output = weigh(&scratch, &["show", place]);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let absent = scratch.path("absent").display().to_string();
    says(&show(&absent), &[&absent]);
    let empty = scratch.path("work").display().to_string();
    says(&show(&empty), &[&empty]);
    fs::write(scratch.path("work/summary.json"), "{\"schema\": 5}").expect("a file");
    says(&show(&empty), &[&empty, "summary.json"]);
}

/// A job that takes a while, has children, and says when it has begun and when it is done; and how
/// many processes it is.
fn steady() -> (String, u64) {
    let children = crate::support::amount(150);
    let fill = workload("fill");
    let rest = patience(0.3).as_secs_f64();
    let script = format!(
        "echo > begun; for ((i = 0; i < {children}; i++)); do /bin/true; done; {fill} 20000000; sleep {rest}; echo done > finished"
    );
    (script, children + 3)
}

/// When weigh is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    AfterItsStart(Duration),
    AfterTheJobs(Duration),
}

/// Kills weigh at that moment; what must be so then is checked, what was recorded is returned.
#[track_caller]
fn killed(moment: Moment) -> Option<(Scratch, Recording)> {
    let (script, _) = steady();
    let run = Weigh::bash(&script).options("--interval 20ms --limit memory_peak_bytes=10GB");
    let mut running = run.start();
    match moment {
        Moment::AfterItsStart(time) => std::thread::sleep(time),
        Moment::AfterTheJobs(time) => {
            let begun = running.scratch.path("work/begun");
            running.wait_until("the job has begun", 20.0, || begun.exists());
            std::thread::sleep(time);
        }
    }
    let held = processes::bpf_identifiers(running.pid());
    assert!(running.child.try_wait().expect("our child").is_none(), "killed too late");
    running.child.kill().expect("it is killed");
    running.child.wait().expect("our child");
    let scratch = &running.scratch;

    wait_until("the probes are gone", 10.0, || held.iter().all(|(kind, id)| is_gone(kind, *id)));
    // The job goes on to its end, if it has begun; else it has never been.
    wait_until("all of the job has ended", 30.0, || scratch.survivors().is_empty());
    let (begun, done) = (scratch.path("work/begun").exists(), scratch.text("work/finished"));
    assert!(!begun || done == "done\n", "the job was harmed by a kill {moment:?}");
    if begun {
        // Some moments before that, weigh had everything attached.
        assert!(held.iter().any(|(kind, _)| kind == "prog_id"), "weigh held no programs: {held:?}");
    }

    let place = scratch.path("recording");
    let recording = place.exists().then(|| Recording::open(&place));
    if !begun && !matches!(recording, Some(Ok(_))) {
        return None;
    }
    let recording = recording.expect("a place").unwrap_or_else(|error| panic!("{error}"));
    assert!(!recording.is_complete() && !recording.is_running());
    let output = weigh(scratch, &["show", &place.display().to_string()]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    says(&said, &["This recording is incomplete", "weigh was killed"]);
    Some((running.scratch, recording))
}

/// Whether the kernel no longer has a BPF program or link.
fn is_gone(kind: &str, id: u32) -> bool {
    let object = if kind == "prog_id" { "prog" } else { "link" };
    match Command::new("bpftool").args([object, "show", "id", &id.to_string()]).output() {
        Ok(Output { status, .. }) => !status.success(),
        // Without the tool: nobody holds it any more.
        Err(_) => processes::all()
            .into_iter()
            .all(|pid| !processes::bpf_identifiers(pid).contains(&(kind.to_string(), id))),
    }
}

#[test]
fn killed_while_it_gets_ready() {
    needs_root!();
    for milliseconds in worth_the_time(&[0, 80, 140, 5, 20, 50, 110, 170], 3) {
        killed(Moment::AfterItsStart(patience(*milliseconds as f64 * 1e-3)));
    }
}

#[test]
fn killed_while_the_job_runs() {
    needs_root!();
    let mut most = 0;
    for seconds in [0.0, 0.1, 0.3] {
        let moment = Moment::AfterTheJobs(patience(seconds));
        let (_scratch, recording) = killed(moment).expect("the job had begun");
        let samples = recording.samples(None).expect("they can be read").rows;
        let rows = recording.processes(None).expect("they can be read").rows;
        most = most.max(samples.len().min(rows.len()));
        // What can be shown is what was recorded.
        let cpu = recording.summary().metrics.get("cpu_seconds").and_then(|cpu| cpu.number());
        let sampled = samples.iter().rfind(|row| row.metric == "cpu_seconds");
        assert_eq!(cpu, sampled.map(|row| row.value), "the summary has not the last sample");
    }
    assert!(most > 5, "the best of the recordings has {most} samples and rows");
}

#[test]
fn a_job_that_is_frozen_with_weigh_lives_on() {
    needs_root!();
    // Stopped, weigh cannot write; killed then, it leaves what it had written.
    let (script, processes) = steady();
    let mut running = Weigh::bash(&script).options("--interval 20ms").start();
    let begun = running.scratch.path("work/begun");
    running.wait_until("the job has begun", 20.0, || begun.exists());
    crate::support::processes::signal(running.pid(), 19);
    let finished = running.scratch.path("work/finished");
    let end = std::time::Instant::now() + patience(20.0);
    while !finished.exists() {
        assert!(std::time::Instant::now() < end, "the job waits for weigh");
        std::thread::sleep(Duration::from_millis(10));
    }
    crate::support::processes::signal(running.pid(), 18);
    let measured = running.end();
    assert!(measured.status.success(), "{}", measured.everything());
    // Nothing was lost meanwhile: the kernel side went on counting.
    measured.is("processes_total", processes);
    let rows = measured.processes().len() as u64;
    measured.check(rows == processes, || format!("{rows} rows, expected {processes}"));
}

#[test]
fn mechanisms_and_levels_that_do_not_go_together() {
    let scratch = Scratch::new();
    says(
        &refused(&scratch, &["--mechanism", "magic"]),
        &["magic", "auto", "bpf", "ptrace", "poll"],
    );
    says(&refused(&scratch, &["--level", "4"]), &["'4'", "1, 2 or 3"]);
    says(&refused(&scratch, &["--mechanism", "poll", "--level", "3"]), &["poll", "level 3", "bpf"]);
    says(&refused(&scratch, &["--mechanism", "bpf", "--level", "1"]), &["bpf", "level 1", "poll"]);
}

/// Processes that were started with this word in their environment.
fn marked(word: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == word.as_bytes())
    };
    pids.filter(is_marked).collect()
}

/// What the switch of delays is after runs of weigh, each of which restores what one that was killed had switched on:
/// other tests' have it on meanwhile.
fn delays_after(mut run: impl FnMut()) -> String {
    use weigh_collect::delays::{LOCK, SYSCTL};
    let mut settled = None;
    wait_until("no weigh has delays on", 60.0, || {
        run();
        let Ok(lock) = fs::File::open(LOCK) else { return true };
        let is_alone = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_alone && lock.metadata().is_ok_and(|about| about.len() == 0) {
            settled = fs::read_to_string(SYSCTL).ok();
        }
        settled.is_some()
    });
    settled.unwrap_or_else(|| fs::read_to_string(SYSCTL).unwrap_or_default())
}

#[test]
fn what_is_killed_at_any_moment_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let temporary = scratch.path("temporary");
    fs::create_dir(&temporary).expect("a folder");
    let word = format!("KILLED_AT_ANY_MOMENT={}", std::process::id());
    let (name, value) = word.split_once('=').expect("two parts");
    let start = |words: &[&str]| {
        let mut command = Command::new(crate::support::weigh_binary());
        command.args(words).args(["--", "sleep", "0.5"]).env(name, value);
        command.env("TMPDIR", &temporary).env("HOME", &temporary).current_dir(&temporary);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Mortal::of(command.spawn())
    };
    // Each is killed at moments that are so many milliseconds apart.
    let mut ways: Vec<(u64, Vec<&str>)> = vec![(11, vec!["io", "-q", "--mechanism", "ptrace"])];
    if crate::support::is_root() {
        ways.push((60, vec!["run", "-q", "--delays", "-o", "recording"]));
        ways.push((60, vec!["calls", "-q"]));
    }
    let run = || {
        let _ = fs::remove_dir_all(temporary.join("recording"));
        let status = start(&["run", "-q", "-o", "recording"]).wait().expect("it ends");
        assert!(status.success(), "{status}");
    };
    let before = delays_after(run);
    for round in 0..12u64 {
        for (apart, way) in &ways {
            let mut weigh = start(way);
            std::thread::sleep(Duration::from_millis(round * apart));
            weigh.kill().and_then(|()| weigh.wait()).expect("it is there");
            let _ = fs::remove_dir_all(temporary.join("recording"));
        }
    }
    let places = || {
        let names = fs::read_dir(&temporary).expect("a folder").flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("weigh-")).count()
    };
    if crate::support::is_root() && places() == 0 {
        let mut weigh = start(&["calls", "-q", "--for", "60s"]);
        wait_until("it has a place for programs with libweigh", 60.0, || places() > 0);
        weigh.kill().and_then(|()| weigh.wait()).expect("it is there");
        assert!(places() > 0, "nobody has taken it away");
    }
    // The jobs end by themselves.
    wait_until("no process is left", 20.0, || marked(&word).is_empty());
    assert_eq!(delays_after(run), before, "kernel.task_delayacct");
    assert_eq!(places(), 0);
}

/// What `tests/torture` would write back is never what a weigh that still runs, or was killed, had switched on.
#[test]
fn the_torture_reads_the_switch_of_delays_when_no_weigh_has_it_on() {
    let script = "import fcntl, pathlib, sys; sys.path.insert(0, sys.argv[1]); import torture
switch, lock = (pathlib.Path(sys.argv[2]) / name for name in ('switch', 'lock'))
def settled(patience=30):
    with torture.settled_delays(lock, switch, patience) as value:
        return value
switch.write_text('1\\n'); lock.write_text('0')
assert settled() == '0', 'one was killed'
with open(lock) as other:
    fcntl.flock(other, fcntl.LOCK_SH)
    assert settled(0.2) is None, 'one runs'
lock.write_text('')
assert settled() == '1', 'it is on for good'";
    let folder = tempfile::tempdir().expect("a folder");
    let torture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/torture");
    let mut command = Command::new("python3");
    command.args(["-B", "-c", script, torture]).arg(folder.path());
    let output = command.output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
