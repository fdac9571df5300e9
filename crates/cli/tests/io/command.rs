//! What `weigh io` does to its command, or to a process that runs, and shows meanwhile.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use super::files::{io, source};
use crate::support::io_report::{moved, rows, text};
use crate::support::run::{Scratch, set_surroundings, weigh};
use crate::support::terminal::Terminal;
use crate::support::{wait_until, weigh_binary, workload};
use serde_json::Value;

#[test]
fn the_command_keeps_its_output_and_status() {
    needs_root!();
    let scratch = Scratch::new();
    let (output, _) = io(&scratch, &[], &["sh", "-c", "echo out; exit 3"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b"out\n"[..]));
    let (output, _) = io(&scratch, &["-q"], &["sh", "-c", "kill -9 $$"]);
    assert_eq!((output.status.signal(), output.stderr.as_slice()), (Some(9), &b""[..]));
    let missing = weigh(&scratch, &["io", "--", "no-such-command-anywhere"]);
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    let neither = weigh(&scratch, &["io"]);
    assert_eq!(neither.status.code(), Some(125), "{neither:?}");
    assert!(String::from_utf8_lossy(&neither.stderr).contains("--pid"), "{neither:?}");
}

/// A process that runs and has its file open already.
#[test]
fn a_process_that_runs_is_followed_and_left_alone() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    // Reads by a shell that waits to be told.
    let gate = scratch.path("gate");
    let script = format!(
        "exec 4<{from}; until [ -e {} ]; do sleep 0.05; done; dd bs=777 count=1 status=none <&4; touch done; exec sleep 100",
        text(&gate)
    );
    let mut job = Command::new("bash");
    set_surroundings(&mut job, &scratch);
    let mut job = job.args(["-c", &script]).stdout(Stdio::null()).spawn().expect("a job");
    let json = scratch.path("io.json");
    let mut following = Command::new(weigh_binary());
    set_surroundings(&mut following, &scratch);
    following.args(["io", "-q", "--pid", &job.id().to_string(), "--json"]);
    let mut following = following.arg(&json).spawn().expect("weigh");
    // It has taken the process in soon after its programs are attached.
    wait_until("it follows", 30.0, || crate::support::processes::links_of(following.id()) >= 8);
    std::thread::sleep(crate::support::patience(0.5));
    std::fs::write(&gate, "").expect("the gate");
    wait_until("the job has read", 20.0, || scratch.path("work/done").exists());
    crate::support::processes::signal(following.id(), 2);
    assert!(following.wait().expect("it ends").success());
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    let read: u64 = rows(&report, &from).into_iter().map(|row| moved(row, "plain")[0]).sum();
    assert_eq!(read, 777, "{report}");
    assert!(job.try_wait().expect("its state").is_none(), "the job goes on");
    job.kill().expect("it ends");
    let _ = job.wait();
}

#[test]
fn a_job_outlives_weigh() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    let mut following = Command::new(weigh_binary());
    set_surroundings(&mut following, &scratch);
    let mut following = following
        .args(["io", "-q", "--", &workload("access"), "wait", &from])
        .spawn()
        .expect("weigh");
    wait_until("the job runs", 20.0, || scratch.survivors().len() == 1);
    following.kill().expect("it ends");
    let _ = following.wait();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(scratch.survivors().len(), 1);
}

/// No older than half a second, on a terminal that is smaller than the table.
#[test]
fn the_table_is_on_the_terminal_while_the_command_runs() {
    needs_root!();
    let scratch = Scratch::new();
    let from = source(&scratch);
    let binary = weigh_binary().display().to_string();
    let command = [binary.as_str(), "io", "--live", "--", &workload("access"), "wait", &from];
    let terminal = Terminal::start(&scratch, 9, 120, &command);
    // The row of the file that is still open: ten reads, all of them where the last one ended.
    terminal.wait_for("on 100 %", 3);
    let shown = terminal.shown();
    assert!(shown.contains("100 B       10"), "{shown}");
    for pid in scratch.survivors() {
        crate::support::processes::signal(pid, 15);
    }
    let (status, shown) = terminal.end();
    assert_eq!(status.signal(), Some(15), "{shown}");
}
