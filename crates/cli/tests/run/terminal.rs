//! A command in a terminal is as without weigh: keys, window, job control of a shell.

use std::os::unix::process::ExitStatusExt as _;

use crate::support::run::Scratch;
use crate::support::terminal::Terminal;
use crate::support::{patience, processes, wait_until, weigh_binary, workload};

const SIGINT: i32 = 2;
const NOBODY: u32 = 65534;

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
    are_stopped(cat, parent);
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
    are_stopped(cat, parent);
    // It wants to read, which the background may not: it stops by itself, and the shell learns of that.
    terminal.types("bg; until [[ $(jobs -s) ]]; do sleep 0.02; done\n");
    terminal.wait_for("Stopped", 4);
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

/// Waits for both. The terminal stops each by itself, and the shell waits for weigh alone: a command that has not been on
/// a CPU since would take the next line that is typed with it into its stop.
fn are_stopped(command: u32, weigh: u32) {
    // By a tracer such a stop looks otherwise.
    wait_until("the command is stopped", 20.0, || {
        processes::state(command).is_some_and(|state| "Tt".contains(state))
    });
    wait_until("weigh is stopped", 20.0, || processes::state(weigh) == Some('T'));
}

/// Lines that weigh writes on a pipe or a terminal of 80 columns, with the status.
#[track_caller]
fn lines_of(user: Option<u32>, arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let scratch = Scratch::new();
    let program =
        if user.is_some() { crate::support::weigh_for_everybody() } else { weigh_binary() };
    let mut command = std::process::Command::new(program);
    if let Some(uid) = user {
        std::os::unix::process::CommandExt::uid(&mut command, uid);
        std::os::unix::process::CommandExt::gid(&mut command, uid);
    }
    command.args(arguments).stdin(std::process::Stdio::null());
    crate::support::run::set_surroundings(&mut command, &scratch);
    command.env("COLUMNS", "80");
    let output = command.output().expect("weigh");
    let said = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(said).expect("text");
    (output.status.code(), text.lines().map(str::to_string).collect())
}

/// So many lines at most, of 80 columns, whole but for paths and for notices that name the command, and in words: no key
/// of a metric.
#[track_caller]
fn fits(lines: &[String], most: usize) {
    let text = lines.join("\n");
    assert!(lines.len() <= most && !lines.is_empty(), "{} lines:\n{text}", lines.len());
    let is_free =
        |line: &&String| ["report ", "recording ", "weigh: "].iter().any(|l| line.starts_with(l));
    for line in lines.iter().filter(|line| !is_free(line)) {
        assert!(line.chars().count() <= 80, "{line}\n{text}");
    }
    assert!(!text.contains('\u{202f}'), "digits are plain:\n{text}");
}

const WORKERS: &str = "
import multiprocessing, os
def work(n):
    with open(f'out{n}', 'wb') as f:
        for i in range(100): f.write(os.urandom(65536))
    with open(f'out{n}', 'rb') as f:
        while f.read(4096): pass
    return n
with multiprocessing.get_context('fork').Pool(4) as pool: print(sum(pool.map(work, range(4))))
";

const TALKS: &str = "
import socket, threading
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
c = socket.create_connection(s.getsockname()); a, _ = s.accept()
threading.Thread(target=lambda: c.sendall(b'x' * 1000000)).start()
n = 0
while n < 1000000: n += len(a.recv(65536))
";

#[test]
fn a_run_is_told_in_twelve_lines_and_sixteen_where_there_is_more() {
    let root = crate::support::is_root();
    let users = if root { vec![None, Some(NOBODY)] } else { vec![None] };
    for user in users {
        for mechanism in ["auto", "ptrace", "preload", "poll"] {
            let options = ["run", "--mechanism", mechanism, "-o", "../recording"];
            let (status, lines) = lines_of(user, &[&options[..], &["--", "true"]].concat());
            assert_eq!(status, Some(0), "{lines:?}");
            fits(&lines, 12);
            assert!(lines.iter().all(|line| !line.contains('…')), "{lines:?}");
            // One notice at most, and that only where weigh had to choose.
            let notices = lines.iter().filter(|line| line.starts_with("weigh: ")).count();
            let is_told = mechanism == "auto" && (user.is_some() || !root);
            assert_eq!(notices, usize::from(is_told), "{lines:?}");
            assert!(lines.iter().any(|line| line.starts_with("weigh      exited 0 after ")));
            assert_eq!(
                lines.last().map(String::as_str),
                Some("report     ../recording/report.html")
            );
            let (_, quiet) = lines_of(
                user,
                &["run", "-q", "--mechanism", mechanism, "-o", "../recording", "--", "true"],
            );
            assert!(quiet.is_empty(), "{quiet:?}");
        }
        let run = ["run", "-o", "../recording"];
        let jobs: [(&[&str], &[&str], usize); 4] = [
            (&[], &["python3", "-c", WORKERS], 16),
            (
                &["--limit", "memory_peak_bytes=20MB"],
                &["python3", "-c", "x = b'1' * 100000000"],
                18,
            ),
            (&[], &["sh", "-c", "kill -9 $$"], 16),
            (&["--limit", "wall_seconds=1h"], &["python3", "-c", TALKS], 17),
        ];
        for (options, job, most) in jobs {
            let (_, lines) = lines_of(user, &[&run[..], options, &["--"], job].concat());
            fits(&lines, most);
            assert!(lines.iter().any(|line| line.starts_with("report ")), "{lines:?}");
        }
    }
}

#[test]
fn a_limit_is_told_in_the_unit_it_was_written_in() {
    let run = ["run", "-o", "../recording", "--limit", "memory_peak_bytes=20MB", "--"];
    let job = ["python3", "-c", "x = b'1' * 100000000"];
    let (status, lines) = lines_of(None, &[&run[..], &job].concat());
    assert_eq!(status, Some(124), "{lines:?}");
    let text = lines.join("\n");
    assert!(text.contains("memory_peak_bytes has passed its limit of 20MB ("), "{text}");
    assert!(text.contains("limit      memory_peak_bytes passed 20"), "{text}");
}

#[test]
fn files_calls_and_the_doctor_fit_on_a_screen() {
    needs_root!();
    let (_, lines) = lines_of(None, &["io", "--", "python3", "-c", WORKERS]);
    fits(&lines, 25);
    let text = lines.join("\n");
    // The path first, from the folder of the job on; what programs read whatever they do is folded.
    for worker in 0..4 {
        let name = format!("out{worker}");
        assert!(lines.iter().any(|line| line.starts_with(&format!("{name} "))), "{name} in {text}");
    }
    assert!(text.contains(" system files (--all)"), "{text}");
    assert!(
        !lines.iter().any(|line| line.contains(".pyc") || line.starts_with("/usr/lib")),
        "{text}"
    );
    assert!(text.contains("on pipes, sockets"), "{text}");
    let (_, all) =
        lines_of(None, &["io", "--all", "--rows", "2000", "--", "python3", "-c", WORKERS]);
    assert!(all.iter().any(|line| line.contains(".pyc") || line.contains(".so")), "{all:?}");
    let (_, lines) = lines_of(None, &["calls", "--", "python3", "-c", WORKERS]);
    fits(&lines, 25);
    let (_, lines) = lines_of(None, &["doctor"]);
    fits(&lines, 12);
    let (_, lines) = lines_of(Some(NOBODY), &["doctor"]);
    fits(&lines, 12);
}

#[test]
fn colours_are_as_they_are_asked_for() {
    for (choice, has) in [("always", true), ("auto", false), ("never", false)] {
        let run = ["run", "--color", choice, "-o", "../recording", "--", "true"];
        let (_, lines) = lines_of(None, &run);
        assert_eq!(lines.join("").contains('\x1b'), has, "{choice}: {lines:?}");
    }
}

/// A job of three seconds in a terminal: what was drawn over the line.
#[track_caller]
fn live_line(script: &str, options: &[&str], variable: &str) -> usize {
    let scratch = Scratch::new();
    let weigh = weigh_binary().display().to_string();
    let recording = scratch.path("recording").display().to_string();
    let measuring = ["env", variable, &weigh, "run", "-o", &recording];
    let command = [&measuring[..], options, &["--", "bash", "-c", script]].concat();
    let (status, shown) = Terminal::start(&scratch, 24, 120, &command).end();
    assert!(status.success(), "{shown}");
    shown.matches(" cores  ").count()
}

#[test]
fn a_live_line_comes_by_itself_where_the_job_leaves_the_terminal_alone() {
    needs_root!();
    const AWAY: &str = "exec </dev/null >log 2>&1; sleep 4.5";
    const HERE: &str = "sleep 4.5";
    let cases: [(&str, &[&str], &str, bool); 8] = [
        (AWAY, &[], "A=b", true),
        (HERE, &[], "A=b", false),
        ("exec >log 2>&1; read -t 4.5; true", &[], "A=b", false),
        (
            "exec 3</dev/tty >log 2>&1; stty -echo <&3; exec 3<&- </dev/null; sleep 4.5",
            &[],
            "A=b",
            false,
        ),
        (AWAY, &["-q"], "A=b", false),
        (AWAY, &[], "WEIGH_LIVE=never", false),
        (HERE, &["--live"], "A=b", true),
        (HERE, &["--progress"], "A=b", true),
    ];
    // They do nothing but wait.
    std::thread::scope(|scope| {
        for (script, options, variable, comes) in cases {
            scope.spawn(move || {
                let came = live_line(script, options, variable) > 0;
                assert_eq!(came, comes, "{script} {options:?} {variable}");
            });
        }
    });
}

fn parent_of(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    rest.split(' ').nth(1).and_then(|field| field.parse().ok()).expect("a PID")
}
