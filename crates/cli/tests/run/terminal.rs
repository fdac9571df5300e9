//! A command in a terminal is as without weigh: keys, window, job control of a shell.

use std::os::unix::process::ExitStatusExt as _;

use crate::support::run::Scratch;
use crate::support::terminal::Terminal;
use crate::support::{patience, processes, wait_until, weigh_binary, workload};

const SIGINT: i32 = 2;

/// `weigh run` in a terminal of its own.
#[track_caller]
fn in_a_terminal(scratch: &Scratch, command: &[&str]) -> Terminal {
    let weigh = weigh_binary().display().to_string();
    let recording = scratch.path("recording").display().to_string();
    let measuring = [weigh.as_str(), "run", "-q", "-o", recording.as_str(), "--"];
    Terminal::start(scratch, 33, 101, &[&measuring[..], command].concat())
}

#[test]
fn a_terminal_is_found_as_it_is() {
    needs_root!();
    let scratch = Scratch::new();
    let (status, shown) = in_a_terminal(&scratch, &[&workload("tty")]).end();
    assert!(status.success(), "{shown}");
    for line in [
        "isatty0=1",
        "isatty1=1",
        "isatty2=1",
        "controlling_terminal=1",
        "rows=33",
        "columns=101",
        "foreground=1",
    ] {
        assert!(shown.contains(&format!("{line}\n")), "no {line}:\n{shown}");
    }
}

#[test]
fn keys_and_the_window_reach_the_program_once() {
    needs_root!();
    let scratch = Scratch::new();
    let mut terminal = in_a_terminal(&scratch, &[&workload("signals"), "4"]);
    terminal.wait_for("ready", 1);
    terminal.types("\x03");
    terminal.wait_for("signal INT", 1);
    terminal.types("\x1c");
    terminal.wait_for("signal QUIT", 1);
    terminal.resize(44, 120);
    terminal.wait_for("signal WINCH", 1);
    std::thread::sleep(patience(0.1));
    let program = terminal.shown();
    let program = program.split_once("ready ").and_then(|(_, rest)| rest.lines().next());
    let program = program.and_then(|pid| pid.parse().ok()).expect("a PID");
    processes::signal(program, 10);
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown}");
    for signal in ["INT", "QUIT", "WINCH", "USR1"] {
        let times = shown.matches(&format!("signal {signal}\n")).count();
        assert_eq!(times, 1, "{signal} came {times} times:\n{shown}");
    }
}

#[test]
fn interrupting_ends_both() {
    needs_root!();
    let scratch = Scratch::new();
    let mut terminal = in_a_terminal(&scratch, &["sleep", "60"]);
    let is_sleep = |pid: &u32| processes::command_line(*pid) == "sleep 60";
    wait_until("the command runs", 20.0, || scratch.survivors().iter().any(is_sleep));
    terminal.types("\x03");
    let (status, shown) = terminal.end();
    assert_eq!(status.signal(), Some(SIGINT), "{shown}");
}

#[test]
fn job_control_of_a_shell() {
    needs_root!();
    job_control("");
}

/// Two look at its programs at once: a library, and a tracer that learns of each stop first.
#[test]
fn job_control_beside_a_tracer_and_a_library() {
    job_control("--io --io-mechanism preload+ptrace");
}

fn job_control(options: &str) {
    let scratch = Scratch::new();
    let shell = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
    let mut terminal = Terminal::start(&scratch, 24, 80, &shell);
    terminal.types("PS1='prompt> '\n");
    terminal.wait_for("prompt> ", 2);
    let weigh = weigh_binary().display().to_string();
    let recording = scratch.path("recording").display().to_string();
    terminal.types(&format!("{weigh} run -q {options} -o {recording} -- cat\n"));
    let is_cat = |pid: &u32| processes::command_line(*pid) == "cat";
    wait_until("the command runs", 20.0, || scratch.survivors().iter().any(is_cat));
    let cat = scratch.survivors().into_iter().find(is_cat).expect("it runs");
    let parent = parent_of(cat);
    terminal.types("one\n");
    terminal.wait_for("one\n", 2);

    // Ctrl-Z stops the command and weigh, and the shell has its prompt back.
    terminal.types("\x1a");
    terminal.wait_for("Stopped", 1);
    // What is typed before the prompt is shown before it.
    terminal.wait_for("prompt> ", 3);
    // By a tracer such a stop looks otherwise.
    let is_stopped = processes::state(cat).is_some_and(|state| "Tt".contains(state));
    assert!(is_stopped, "{:?}", processes::state(cat));
    wait_until("weigh is stopped", 5.0, || processes::state(parent) == Some('T'));
    terminal.types("echo shell; jobs\n");
    terminal.wait_for("\nshell\n", 1);
    terminal.wait_for("Stopped", 2);

    // fg continues both, and the terminal is the command's again.
    terminal.types("fg\n");
    wait_until("the command goes on", 10.0, || processes::state(cat) == Some('S'));
    terminal.types("two\n");
    terminal.wait_for("two\n", 2);

    // And again, in the background.
    terminal.types("\x1a");
    terminal.wait_for("Stopped", 3);
    terminal.types("bg\n");
    // It wants to read, which the background may not: it stops by itself.
    std::thread::sleep(patience(0.2));
    terminal.types("fg\n");
    wait_until("the command goes on", 10.0, || processes::state(cat) == Some('S'));
    terminal.types("three\n");
    terminal.wait_for("three\n", 2);
    terminal.types("\x04");
    wait_until("the command has ended", 10.0, || !processes::is_alive(cat));
    terminal.types("echo status $?\n");
    terminal.wait_for("status 0\n", 1);
    terminal.types("exit\n");
    terminal.end();
}

fn parent_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    rest.split(' ').nth(1).and_then(|field| field.parse().ok()).expect("a PID")
}
