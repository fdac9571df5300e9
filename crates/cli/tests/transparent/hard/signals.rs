//! Signals that weigh gets, keys, and terminals that go away.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use super::judge::{Truth, is_whole, judge_by};
use super::{Case, How, Outcome, followed};
use crate::support::measured::Measured;
use crate::support::run::{Scratch, Weigh, set_surroundings};
use crate::support::terminal::Terminal;
use crate::support::{
    patience, processes, wait_until, weigh_binary, weigh_for_everybody, workload,
};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGTSTP: i32 = 20;

/// Enough for `poll` to have looked.
const A_LOOK: Duration = Duration::from_millis(150);

/// The cases.
pub fn cases() -> Vec<Case> {
    let case = |name, does: &str, run: super::Run| Case {
        name,
        does: does.to_string(),
        needs_root: false,
        run,
    };
    vec![
        case("Ctrl-C", "the command dies of it, once, and weigh the same way", Box::new(ctrl_c)),
        case(
            "SIGTERM to weigh",
            "reaches the command once; both die of it",
            Box::new(|case, how| sent(case, how, SIGTERM, "TERM")),
        ),
        case(
            "SIGHUP to weigh",
            "reaches the command once; both die of it",
            Box::new(|case, how| sent(case, how, SIGHUP, "HUP")),
        ),
        case(
            "SIGTSTP to weigh, then SIGCONT",
            "weigh alone stops for 0.3 s while the job runs",
            Box::new(stopped),
        ),
        case("Ctrl-Z, then `fg`", "weigh and the command stop, and go on", Box::new(ctrl_z)),
        case("the terminal goes away", "the command dies of SIGHUP, and weigh", Box::new(hung_up)),
        case(
            "the terminal goes away, SIGHUP is ignored",
            "the command works on without it to its end",
            Box::new(hung_up_and_ignored),
        ),
    ]
}

/// A job that says what it gets and ends by the second signal, which the test sends it itself.
fn sent(case: &Case, how: &How, signal: i32, name: &str) -> Result<Outcome, String> {
    let mut running = followed(Weigh::workload("signals 2"), how, case.user(how)).start();
    let path = running.scratch.path("stdout");
    let says = |text: &str| std::fs::read_to_string(&path).is_ok_and(|said| said.contains(text));
    running.wait_until("the program is ready", 20.0, || says("ready"));
    let ready = running.scratch.text("stdout");
    let pid = ready.trim().strip_prefix("ready ").and_then(|pid| pid.parse().ok());
    let pid = pid.ok_or_else(|| format!("it said '{ready}'"))?;
    processes::signal(running.pid(), signal);
    running.wait_until("it has come", 10.0, || says(name));
    // Time enough for a second one, which must not come.
    std::thread::sleep(patience(0.1));
    processes::signal(pid, 14);
    let measured = running.end();
    let said = String::from_utf8_lossy(&measured.stdout).into_owned();
    if !measured.status.success() || said != format!("ready {pid}\nsignal {name}\nsignal ALRM\n") {
        return Err(format!("it said '{said}'\n{}", measured.everything()));
    }
    // And one who does not catch it.
    let mut running = followed(Weigh::run(["sleep", "60"]), how, case.user(how)).start();
    running.process("sleep 60");
    std::thread::sleep(A_LOOK);
    processes::signal(running.pid(), signal);
    died_of(running.end(), signal, 1)
}

/// The run ended by that signal, and its recording is whole.
fn died_of(measured: Measured, signal: i32, count: u64) -> Result<Outcome, String> {
    if measured.status.signal() != Some(signal) {
        return Err(format!("it did not die of signal {signal}\n{}", measured.everything()));
    }
    is_whole(&measured)?;
    let exit = measured.summary().exit.clone().expect("it has ended");
    if exit.signal != Some(signal) {
        return Err(format!("{exit:?}"));
    }
    let left = measured.scratch.survivors();
    if !left.is_empty() {
        return Err(format!("alive: {left:?}"));
    }
    // It lived long enough for every mechanism.
    match measured.value("processes_total").number() {
        Some(number) if number == count as f64 => Ok(Outcome::Exact),
        _ => Err(format!("not {count} processes\n{}", measured.everything())),
    }
}

/// The words that start weigh in a terminal, as who the tests run.
fn words(scratch: &Scratch, how: &How, command: &[&str]) -> Vec<String> {
    let recording = scratch.path("recording").display().to_string();
    let weigh = weigh_binary().display().to_string();
    let mut words = vec![weigh, "run".to_string(), "-o".to_string(), recording];
    words.extend(how.options().split(' ').map(String::from));
    words.push("--".to_string());
    words.extend(command.iter().map(|word| word.to_string()));
    words
}

fn in_a_terminal(scratch: &Scratch, words: &[String]) -> Terminal {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Terminal::start(scratch, 24, 80, &words)
}

fn ctrl_c(_: &Case, how: &How) -> Result<Outcome, String> {
    let scratch = Scratch::new();
    let signals = workload("signals");
    let mut terminal = in_a_terminal(&scratch, &words(&scratch, how, &[&signals, "2"]));
    terminal.wait_for("ready", 1);
    terminal.types("\x03");
    terminal.wait_for("signal INT", 1);
    std::thread::sleep(patience(0.1));
    let ready = terminal.shown();
    let pid = ready.split_once("ready ").and_then(|(_, rest)| rest.lines().next()?.parse().ok());
    processes::signal(pid.ok_or("it said no PID")?, 14);
    let (status, shown) = terminal.end();
    if !status.success() || shown.matches("signal INT\n").count() != 1 {
        return Err(format!("{status}: {shown}"));
    }
    let scratch = Scratch::new();
    let mut terminal = in_a_terminal(&scratch, &words(&scratch, how, &["sleep", "60"]));
    let runs = || scratch.survivors().iter().any(|p| processes::command_line(*p) == "sleep 60");
    wait_until("the command runs", 20.0, runs);
    std::thread::sleep(A_LOOK);
    terminal.types("\x03");
    let (status, _) = terminal.end();
    died_of(Measured::new(scratch, status, Duration::ZERO), SIGINT, 1)
}

fn stopped(case: &Case, how: &How) -> Result<Outcome, String> {
    // Long enough that a busy machine has stopped weigh before it is over.
    let script = format!("echo > begun; sleep 1; exec {} environment", workload("hide"));
    let run = Weigh::run(["sh", "-c", &script]).in_own_group();
    let mut running = followed(run, how, case.user(how)).start();
    let begun = running.scratch.path("work/begun");
    running.wait_until("the job runs", 10.0, || begun.exists());
    let weigh = running.pid();
    processes::signal(weigh, SIGTSTP);
    running.wait_until("weigh stops", 5.0, || processes::state(weigh) == Some('T'));
    std::thread::sleep(Duration::from_millis(300));
    processes::signal(weigh, SIGCONT);
    let measured = running.end();
    if !measured.status.success() || !measured.stderr.is_empty() {
        return Err(format!("harmed\n{}", measured.everything()));
    }
    // The shell's echo, and its sleep.
    let told = Truth::told(&measured);
    let truth =
        Truth { processes: told.processes + 1, written_bytes: told.written_bytes + 1, ..told };
    judge_by(&measured, &truth).map_err(|error| format!("{error}\n{}", measured.everything()))
}

fn ctrl_z(_: &Case, how: &How) -> Result<Outcome, String> {
    let scratch = Scratch::new();
    let shell = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
    let mut terminal = Terminal::start(&scratch, 24, 200, &shell);
    terminal.types("PS1='prompt> '\n");
    terminal.wait_for("prompt> ", 2);
    terminal.types(&format!("{}\n", words(&scratch, how, &["cat"]).join(" ")));
    let find = || scratch.survivors().into_iter().find(|p| processes::command_line(*p) == "cat");
    wait_until("the command runs", 20.0, || find().is_some());
    let cat = find().ok_or("it has gone")?;
    terminal.types("one\n");
    terminal.wait_for("one\n", 2);
    terminal.types("\x1a");
    terminal.wait_for("Stopped", 1);
    let stops = |pid| processes::state(pid).is_some_and(|state| matches!(state, 'T' | 't'));
    wait_until("the command is stopped", 5.0, || stops(cat));
    terminal.types("fg\n");
    wait_until("the command goes on", 10.0, || processes::state(cat) == Some('S'));
    terminal.types("two\n");
    terminal.wait_for("two\n", 2);
    terminal.types("\x04");
    wait_until("the command has ended", 10.0, || !processes::is_alive(cat));
    terminal.types("echo status $?\n");
    terminal.wait_for("status 0\n", 1);
    terminal.types("exit\n");
    let (status, _) = terminal.end();
    let measured = Measured::new(scratch, status, Duration::ZERO);
    is_whole(&measured)?;
    measured.is("processes_total", 1);
    Ok(Outcome::Exact)
}

/// Waits until weigh has looked at its job at least once from now on, where it sees the job's processes only by looking.
/// After each look it sleeps; the first sleep may be the end of a look that has begun already.
fn wait_for_a_look(how: &How, weigh: u32) {
    if how.name == "poll" {
        let before = processes::times_slept(weigh);
        wait_until("weigh has looked", 20.0, || processes::times_slept(weigh) >= before + 3);
    }
}

/// Takes the terminal away from a job that has begun and was looked at; what became of weigh. A child of the job that
/// opens `gate` ends after the look.
fn without_a_terminal(case: &Case, how: &How, script: &str) -> Result<(String, Measured), String> {
    use std::os::unix::process::CommandExt as _;
    let scratch = Scratch::new();
    let gate = scratch.path("work/gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    std::fs::set_permissions(&gate, Permissions::from_mode(0o666)).expect("for every user");
    let mut weigh = words(&scratch, how, &["sh", "-c", script]);
    let mut command = Command::new(workload("hangup"));
    if let Some(uid) = case.user(how) {
        weigh[0] = weigh_for_everybody().display().to_string();
        command.uid(uid).gid(uid);
    }
    command.arg("looked-at").args(weigh).stdin(Stdio::null()).stdout(Stdio::piped());
    set_surroundings(&mut command, &scratch);
    let hangup = command.spawn().expect("hangup starts");
    wait_until("the job has begun", 20.0, || scratch.path("work/begun").exists());
    let children = processes::children(hangup.id());
    wait_for_a_look(how, *children.first().expect("weigh is its child"));
    // Open until the end: who comes to it late finds it open, too.
    let _gate = OpenOptions::new().read(true).write(true).open(&gate).expect("a FIFO");
    std::fs::write(scratch.path("work/looked-at"), "").expect("a file");
    let output = hangup.wait_with_output().expect("it is our child");
    let ended = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let measured = Measured::new(scratch, ExitStatus::from_raw(SIGHUP), Duration::ZERO);
    Ok((ended, measured))
}

fn hung_up(case: &Case, how: &How) -> Result<Outcome, String> {
    let (ended, measured) =
        without_a_terminal(case, how, "(: <gate) & echo > begun; exec sleep 60")?;
    if ended != "signal 1" {
        return Err(format!("weigh: {ended}\n{}", measured.everything()));
    }
    died_of(measured, SIGHUP, 2)
}

fn hung_up_and_ignored(case: &Case, how: &How) -> Result<Outcome, String> {
    let hide = workload("hide");
    let script = format!("trap '' HUP; sleep 0.5 & echo > begun; wait; exec {hide} environment");
    let (ended, measured) = without_a_terminal(case, how, &script)?;
    if ended != "exited 0" {
        return Err(format!("weigh: {ended}\n{}", measured.everything()));
    }
    let told = Truth::told(&measured);
    let truth =
        Truth { processes: told.processes + 1, written_bytes: told.written_bytes + 1, ..told };
    judge_by(&measured, &truth).map_err(|error| format!("{error}\n{}", measured.everything()))
}
