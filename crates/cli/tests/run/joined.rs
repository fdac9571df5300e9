//! `weigh run --pid`: a process that runs already, and what it starts.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::support::agent::NOBODY;
use crate::support::measured::is_exact_but_for_uncounted;
use crate::support::processes::is_alive;
use crate::support::run::{Scratch, set_surroundings};
use crate::support::{wait_until, weigh_binary, weigh_for_everybody};
use weigh_schema::summary::{ExitKind, Summary};
use weigh_schema::{Mechanism, Quality};

/// A shell that runs such a script.
fn job(scratch: &Scratch, script: &str) -> Child {
    let mut job = Command::new("bash");
    set_surroundings(&mut job, scratch);
    job.args(["-c", script]).stdout(Stdio::null()).spawn().expect("a job")
}

/// A weigh that has joined it.
fn joined(scratch: &Scratch, job: &Child, options: &[&str]) -> Child {
    joined_by(Command::new(weigh_binary()), scratch, job, options)
}

/// The same, by this weigh.
fn joined_by(mut weigh: Command, scratch: &Scratch, job: &Child, options: &[&str]) -> Child {
    set_surroundings(&mut weigh, scratch);
    weigh.args(["run", "-q", "--pid", &job.id().to_string(), "-o"]).arg(scratch.path("recording"));
    let weigh = weigh.arg("--json").arg(scratch.path("summary.json")).args(options);
    let weigh = weigh.spawn().expect("weigh");
    let journal = scratch.path("recording/journal.jsonl");
    let text = || std::fs::read_to_string(&journal).unwrap_or_default();
    wait_until("it follows", 30.0, || text().contains("\"entry\":\"samples\""));
    weigh
}

fn summary(scratch: &Scratch) -> Summary {
    serde_json::from_str(&scratch.text("summary.json")).expect("a summary")
}

fn number(summary: &Summary, name: &str) -> f64 {
    let value = &summary.metrics[name];
    assert!(value.reason.as_deref().is_some_and(|why| why.contains("ran before")), "{value:?}");
    value.number().unwrap_or_else(|| panic!("{name}: {value:?}"))
}

/// It writes 777,777 bytes before, and 1,234,567 by a child and 4,321 by itself when weigh follows it.
#[test]
fn what_was_used_before_is_not_counted_and_all_that_follows_is() {
    needs_root!();
    let scratch = Scratch::new();
    let script = "
        write() { dd if=/dev/zero of=$1 bs=$2 count=1 status=none; }
        write before 777777
        touch ready
        until [ -e gate ]; do sleep 0.05; done
        write after 1234567
        printf '%04321d' 0 > own
        exit 7";
    let mut job = job(&scratch, script);
    wait_until("the job waits", 20.0, || scratch.path("work/ready").exists());
    let mut weigh = joined(&scratch, &job, &[]);
    std::fs::write(scratch.path("work/gate"), "").expect("the gate");
    let status = job.wait().expect("the job ends");
    assert_eq!(status.code(), Some(7));
    assert!(weigh.wait().expect("weigh ends").success(), "its status is not the job's");
    let summary = summary(&scratch);
    let exit = summary.exit.as_ref().expect("an end");
    assert_eq!((exit.kind, exit.code), (ExitKind::Exited, Some(7)));
    assert_eq!(summary.job.command[..2], ["bash", "-c"]);
    let written = "io_written_bytes_total";
    assert!(is_exact_but_for_uncounted(&summary.metrics[written]));
    assert_eq!(number(&summary, written), 1_234_567.0 + 4_321.0);
    // The witness: what the files hold.
    let length = |name: &str| std::fs::metadata(scratch.path("work").join(name)).expect(name).len();
    assert_eq!((length("after"), length("own")), (1_234_567, 4_321));
}

/// A user without privileges follows its own process: what it used before is in no value, and it goes on afterwards.
#[test]
fn one_s_own_process_is_followed_without_rights() {
    needs_root!();
    let scratch = Scratch::new();
    let script = "
        write() { dd if=/dev/zero of=$1 bs=$2 count=1 status=none; }
        write before 777777
        touch ready
        until [ -e gate ]; do sleep 0.05; done
        write after 1234567
        printf '%04321d' 0 > own
        exit 7";
    let mut shell = Command::new("bash");
    set_surroundings(&mut shell, &scratch);
    let shell = shell.args(["-c", script]).stdout(Stdio::null()).uid(NOBODY).gid(NOBODY);
    let mut job = shell.spawn().expect("a job");
    wait_until("the job waits", 20.0, || scratch.path("work/ready").exists());
    let mut weigh = Command::new(weigh_for_everybody());
    weigh.env("WEIGH_SOCKET", scratch.path("none")).uid(NOBODY).gid(NOBODY);
    let mut weigh = joined_by(weigh, &scratch, &job, &[]);
    std::fs::write(scratch.path("work/gate"), "").expect("the gate");
    assert_eq!(job.wait().expect("the job ends").code(), Some(7), "its end is its own");
    assert!(weigh.wait().expect("weigh ends").success());
    let summary = summary(&scratch);
    let exit = summary.exit.as_ref().expect("an end");
    assert_eq!((exit.kind, exit.code), (ExitKind::Exited, Some(7)));
    let written = &summary.metrics["io_written_bytes_total"];
    assert_eq!(written.source, Mechanism::Ptrace, "{written:?}");
    assert_eq!(number(&summary, "io_written_bytes_total"), 1_234_567.0 + 4_321.0);
    // The witness: what the files hold.
    let length = |name: &str| std::fs::metadata(scratch.path("work").join(name)).expect(name).len();
    assert_eq!((length("before"), length("after"), length("own")), (777_777, 1_234_567, 4_321));
}

/// What it started before is not of the job, though the kernel adds all of that to its parent's sums at its end.
#[test]
fn children_that_ran_before_are_not_of_the_job() {
    needs_root!();
    let script = "
        wait_for_gate() { until [ -e gate ]; do read -t 0.05 <> pipe; done; }
        mkfifo pipe
        { wait_for_gate; sleep 1.5; printf '%0777777d' 0 > childs; } &
        touch ready
        wait_for_gate
        printf '%04321d' 0 > own
        wait
        exit 7";
    for mechanism in ["bpf", "ptrace"] {
        let scratch = Scratch::new();
        let mut job = job(&scratch, script);
        wait_until("the job waits", 20.0, || scratch.path("work/ready").exists());
        let mut weigh = joined(&scratch, &job, &["--mechanism", mechanism]);
        std::fs::write(scratch.path("work/gate"), "").expect("the gate");
        assert_eq!(job.wait().expect("the job ends").code(), Some(7));
        assert!(weigh.wait().expect("weigh ends").success());
        let summary = summary(&scratch);
        assert_eq!(number(&summary, "io_written_bytes_total"), 4_321.0, "{mechanism}");
        assert_eq!(number(&summary, "processes_total"), 1.0, "{mechanism}");
        assert_eq!(summary.metrics["processes_total"].quality, Quality::Exact, "{mechanism}");
        let length = std::fs::metadata(scratch.path("work/childs")).expect("the child's").len();
        assert_eq!(length, 777_777, "the child has worked");
    }
}

/// A stop would cut off a write that waits for room: it would return what it had written so far.
#[test]
fn a_write_that_waits_is_not_cut_off() {
    needs_root!();
    let script = r#"exec perl -e '
        pipe R, W;
        unless (fork) { close W; until (-e "gate") { select undef, undef, undef, 0.05 } 1 while sysread R, $_, 65536; exit }
        close R;
        $written = syswrite W, "x" x 200000;
        open F, ">", "written"; print F $written; close F;
        exit 7'"#;
    for mechanism in ["bpf", "ptrace"] {
        let scratch = Scratch::new();
        let mut job = job(&scratch, script);
        let place = format!("/proc/{}/wchan", job.id());
        let waits = || std::fs::read_to_string(&place).is_ok_and(|at| at.contains("pipe_write"));
        wait_until("it waits for room", 20.0, waits);
        let mut weigh = joined(&scratch, &job, &["--mechanism", mechanism]);
        std::fs::write(scratch.path("work/gate"), "").expect("the gate");
        assert_eq!(job.wait().expect("the job ends").code(), Some(7));
        assert!(weigh.wait().expect("weigh ends").success());
        assert_eq!(scratch.text("work/written"), "200000", "{mechanism}");
    }
}

#[test]
fn a_process_that_goes_on_is_left_as_it_was() {
    needs_root!();
    let scratch = Scratch::new();
    let mut job = job(&scratch, "exec sleep 600");
    let mut weigh = joined(&scratch, &job, &["--for", "1500ms"]);
    assert!(weigh.wait().expect("weigh ends").success());
    assert!(is_alive(job.id()), "the job goes on");
    let first = summary(&scratch);
    let exit = first.exit.as_ref().expect("an end");
    assert_eq!((exit.kind, exit.code, exit.signal), (ExitKind::Detached, None, None));
    assert_eq!(number(&first, "processes_total"), 1.0);
    assert!(number(&first, "wall_seconds") >= 1.5);
    assert!(number(&first, "cpu_seconds") < 0.1, "nothing of its start is in it");
    job.kill().and_then(|()| job.wait()).expect("it ends");
}

#[test]
fn an_interrupt_ends_weigh_alone() {
    needs_root!();
    let scratch = Scratch::new();
    let mut job = job(&scratch, "exec sleep 600");
    let mut weigh = joined(&scratch, &job, &[]);
    assert!(crate::support::processes::signal(weigh.id(), 2));
    assert!(weigh.wait().expect("weigh ends").success());
    assert!(is_alive(job.id()), "the job goes on");
    let kind = summary(&scratch).exit.map(|exit| exit.kind);
    assert_eq!(kind, Some(ExitKind::Detached));
    job.kill().and_then(|()| job.wait()).expect("it ends");
}

#[test]
fn a_limit_that_was_typed_ends_it() {
    use std::os::unix::process::ExitStatusExt as _;
    needs_root!();
    let scratch = Scratch::new();
    let script =
        "until [ -e gate ]; do sleep 0.05; done; a=; while :; do a=$a$(printf %0100000d 0); done";
    let mut job = job(&scratch, script);
    let mut weigh =
        joined(&scratch, &job, &["--limit", "memory_peak_bytes=64MiB", "--grace", "0s"]);
    std::fs::write(scratch.path("work/gate"), "").expect("the gate");
    let ended = job.wait().expect("the job ends");
    assert!(ended.signal().is_some(), "{ended:?}");
    assert_eq!(weigh.wait().expect("weigh ends").code(), Some(124));
    let exit = summary(&scratch).exit.expect("an end");
    assert_eq!((exit.kind, exit.limit.as_deref()), (ExitKind::Limit, Some("memory_peak_bytes")));
}

#[test]
fn what_does_not_go_with_a_process_that_runs_is_refused() {
    let scratch = Scratch::new();
    let said = |words: &[&str]| {
        let output = crate::support::run::weigh(&scratch, words);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (mechanism, why) in [("preload", "when they begin"), ("poll", "another's child")] {
        let by = said(&["run", "--mechanism", mechanism, "--pid", "1"]);
        assert!(by.contains("only --mechanism bpf and ptrace") && by.contains(why), "{by}");
    }
    assert!(said(&["run", "--pid", "1", "--", "true"]).contains("--pid"));
    assert!(said(&["run", "--pid", "1", "--cgroup"]).contains("--cgroup"));
    assert!(said(&["run", "--for", "1s", "--", "true"]).contains("--pid"));
}
