//! What weigh says decides about nothing: whatever becomes of standard error, the command runs, limits are held,
//! and weigh ends as it did. And nothing of what comes from outside steers a terminal.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, set_surroundings, weigh};
use crate::support::terminal::Terminal;
use crate::support::{is_root, wait_until, weigh_binary, weigh_for_everybody};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, tcflow};
use weigh_schema::printable::is_unprintable;

const NOBODY: u32 = 65534;

/// A standard error that takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Each write fails, as on a full disk.
    Full,
    /// The reader has gone.
    Gone,
    /// A pipe that is full, and nobody reads.
    Stuck,
    /// A terminal on which Ctrl-S was pressed.
    Stopped,
}

const ALL: [Trouble; 4] = [Trouble::Full, Trouble::Gone, Trouble::Stuck, Trouble::Stopped];

/// Where weigh is to write, and what has to stay open meanwhile.
struct Troubled {
    to: OwnedFd,
    _other: Option<OwnedFd>,
}

impl Trouble {
    fn make(self) -> Troubled {
        match self {
            Trouble::Full => {
                let full = File::options().write(true).open("/dev/full").expect("/dev/full");
                Troubled { to: full.into(), _other: None }
            }
            Trouble::Gone => {
                let (_, to) =
                    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
                Troubled { to, _other: None }
            }
            Trouble::Stuck => stuck(),
            Trouble::Stopped => stopped(),
        }
    }
}

fn stuck() -> Troubled {
    let (reader, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    let flags = fcntl_getfl(&to).expect("flags");
    fcntl_setfl(&to, flags | OFlags::NONBLOCK).expect("flags");
    while rustix::io::write(&to, &[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&to, flags).expect("flags");
    Troubled { to, _other: Some(reader) }
}

fn stopped() -> Troubled {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a pseudo-terminal");
    grantpt(&master).expect("grantpt");
    unlockpt(&master).expect("unlockpt");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let to = rustix::fs::open(name, flags, Mode::empty()).expect("the terminal's other end");
    tcflow(&to, Action::OOff).expect("a terminal can be stopped");
    Troubled { to, _other: Some(master) }
}

/// weigh with these arguments; `R` is a recording in the folder.
fn start(scratch: &Scratch, user: Option<u32>, line: &str, script: &str, error: OwnedFd) -> Mortal {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(weigh_binary());
    if let Some(uid) = user {
        command = Command::new(weigh_for_everybody());
        command.uid(uid).gid(uid);
    }
    let recording = scratch.path("recording").display().to_string();
    let words = line.split_whitespace().map(|word| if word == "R" { &recording } else { word });
    command.args(words).args(["--", "sh", "-c", script]);
    set_surroundings(&mut command, scratch);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(error);
    Mortal::of(command.spawn())
}

#[track_caller]
fn ends(child: &mut Mortal, what: &str) -> ExitStatus {
    let mut status = None;
    wait_until(&format!("{what} ends"), 60.0, || {
        status = child.try_wait().expect("it is our child");
        status.is_some()
    });
    status.expect("waited for")
}

/// All of these at once: each waits for a reader at its end.
fn run_all(trouble: Trouble, user: Option<u32>, lines: &[&str]) {
    let mut all: Vec<_> = lines
        .iter()
        .map(|line| {
            let (scratch, troubled) = (Scratch::new(), trouble.make());
            let to = troubled.to.try_clone().expect("dup");
            let child = start(&scratch, user, line, "echo ran > ran; exit 9", to);
            (line, scratch, troubled, child)
        })
        .collect();
    for (line, scratch, _troubled, child) in &mut all {
        let what = format!("{trouble:?}, {user:?}: weigh {line}");
        let status = ends(child, &what);
        assert_eq!(status.code(), Some(9), "{what}");
        assert_eq!(scratch.text("work/ran"), "ran\n", "{what}");
        if line.contains(" R") {
            assert!(scratch.path("recording/summary.json").exists(), "{what}: no summary");
        }
    }
}

/// Two troubles at a time, as a reader that never comes is waited for.
fn run_in_all_troubles(user: Option<u32>, lines: &[&str]) {
    for two in ALL.chunks(2) {
        std::thread::scope(|scope| {
            for trouble in two {
                scope.spawn(|| run_all(*trouble, user, lines));
            }
        });
    }
}

#[test]
fn a_command_runs_whatever_becomes_of_standard_error() {
    needs_root!();
    let lines =
        ["run -o R", "run -q --progress -o R", "io", "calls", "trace -e raw_syscalls:sys_enter"];
    run_in_all_troubles(None, &lines);
}

#[test]
fn a_user_who_is_told_two_lines_has_the_command_run() {
    let user = is_root().then_some(NOBODY);
    let lines = ["run -q --details -o R", "run --mechanism ptrace -o R", "io"];
    run_in_all_troubles(user, &lines);
}

#[test]
fn a_limit_is_held_whatever_becomes_of_its_message() {
    needs_root!();
    let script = "sleep 100; echo end > end";
    for trouble in ALL {
        let runs = ["--limit wall_seconds=1", "--limit processes_total=2 --mechanism ptrace"].map(
            |limit| {
                let (scratch, troubled) = (Scratch::new(), trouble.make());
                let to = troubled.to.try_clone().expect("dup");
                let line = format!("run -q -o R --grace 1s {limit}");
                let script = format!("/bin/true; /bin/true; /bin/true; {script}");
                let child = start(&scratch, None, &line, &script, to);
                (line, scratch, troubled, child)
            },
        );
        for (line, scratch, _troubled, mut child) in runs {
            assert_eq!(ends(&mut child, &line).code(), Some(124), "{trouble:?}: {line}");
            assert!(!scratch.path("work/end").exists(), "{trouble:?}: {line}: the job went on");
            let summary = scratch.text("recording/summary.json");
            assert!(summary.contains("\"exceeded\": true"), "{trouble:?}: {line}: {summary}");
        }
    }
}

/// What weigh says before the command starts stands before what that writes, into the same pipe.
#[test]
fn notices_come_before_the_command() {
    let user = is_root().then_some(NOBODY);
    let scratch = Scratch::new();
    let (reader, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    let mut child = start(&scratch, user, "run -q --details -o R", "echo of the job >&2", to);
    let mut said = String::new();
    File::from(reader).read_to_string(&mut said).expect("text");
    assert!(ends(&mut child, "weigh run").success(), "{said}");
    let place = |part: &str| said.find(part).unwrap_or_else(|| panic!("no '{part}' in {said}"));
    assert!(place("weigh: the kernel does not follow this job") < place("of the job"), "{said}");
}

#[test]
fn a_slow_reader_gets_all() {
    let scratch = Scratch::new();
    let (reader, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    // Full but for a few bytes: what weigh shows does not fit.
    let size = rustix::pipe::fcntl_setpipe_size(&to, 4096).expect("a small pipe");
    let filled = vec![b'x'; size - 100];
    rustix::io::write(&to, &filled).expect("it has room");
    let mut child = start(&scratch, None, "run --details --mechanism ptrace -o R", "exit 3", to);
    let (mut reader, mut read) = (File::from(reader), Vec::new());
    let mut piece = [0; 700];
    while let Ok(length @ 1..) = reader.read(&mut piece) {
        read.extend_from_slice(&piece[..length]);
        // Slower than weigh's patience would be for all of it.
        std::thread::sleep(Duration::from_millis(400));
    }
    assert_eq!(ends(&mut child, "weigh run").code(), Some(3));
    let recording = scratch.path("recording").display().to_string();
    let shown = String::from_utf8(weigh(&scratch, &["show", "--details", &recording]).stdout)
        .expect("text");
    let read = String::from_utf8(read).expect("text");
    assert!(shown.len() > 1000 && read.ends_with(&shown), "read:\n{read}\nshown:\n{shown}");
}

/// An argument that would turn the terminal red, wipe it, forge a line, and turn the direction of writing.
const HOSTILE: &str = "A\x1b[31mRED\x1b[2J\nweigh: forged\u{9b}2J\u{202e}\u{2028}";

#[track_caller]
fn is_harmless(text: &[u8], what: &str) {
    let text = std::str::from_utf8(text).unwrap_or_else(|_| panic!("{what}: not UTF-8: {text:?}"));
    // Tabs stand between the columns of darshan-parser.
    let raw = text.chars().find(|c| is_unprintable(*c) && !['\n', '\t'].contains(c));
    assert_eq!(raw, None, "{what}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("weigh: forged")), "{what}: {text}");
}

#[test]
fn a_commands_arguments_do_not_steer_the_terminal() {
    let scratch = Scratch::new();
    let recording = scratch.path("recording").display().to_string();
    let options =
        ["run", "--mechanism", "ptrace", "--io", "-o", &recording, "--limit", "processes_total=2"];
    let script = "cat /etc/passwd > copy; /bin/true; /bin/true";
    let output = weigh(&scratch, &[&options[..], &["--", "sh", "-c", script, HOSTILE]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("has passed its limit of 2"), "{said}");
    is_harmless(&output.stderr, "what run says");
    // A shell reads the same words.
    let quoted = said.split("by sh -c ").nth(1).and_then(|rest| rest.split(" (PID").next());
    let words =
        format!("printf '%s\\n' {}", quoted.unwrap_or_else(|| panic!("no command: {said}")));
    let read = Command::new("bash").args(["-c", &words]).output().expect("bash").stdout;
    assert_eq!(String::from_utf8_lossy(&read), format!("{script}\n{HOSTILE}\n"));

    for verb in ["show", "show --details", "export --format darshan-parser", "export --format dot"]
    {
        let words: Vec<&str> = verb.split(' ').chain([recording.as_str()]).collect();
        let output = weigh(&scratch, &words);
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
        is_harmless(&output.stdout, verb);
    }
    // JSON has the text as it is, and a terminal JSON's own escapes for it.
    let json = weigh(&scratch, &["show", "--json", &recording]).stdout;
    let text: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(text["job"]["command"][3], HOSTILE);
    assert!(String::from_utf8_lossy(&json).contains('\u{202e}'));
    let binary = weigh_binary().display().to_string();
    let terminal = Terminal::start(&scratch, 40, 200, &[&binary, "show", "--json", &recording]);
    // Its end is read by a thread, which may be behind.
    terminal.wait_for("\\u202e\\u2028", 1);
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown}");
    is_harmless(shown.as_bytes(), "show --json on a terminal");
}

#[test]
fn a_foreign_recording_does_not_steer_the_terminal() {
    let scratch = Scratch::new();
    let recording = scratch.path("recording").display().to_string();
    let output =
        weigh(&scratch, &["run", "-q", "--mechanism", "ptrace", "-o", &recording, "--", "true"]);
    assert!(output.status.success());
    let place = scratch.path("recording/summary.json");
    let summary = std::fs::read_to_string(&place).expect("a summary");
    let hostile = serde_json::to_string(HOSTILE).expect("JSON");
    let forged = [
        summary.replacen(&format!("\"{}\"", weigh_schema::summary::SCHEMA), &hostile, 1),
        summary.replacen("\"exited\"", &hostile, 1),
        summary.replacen("\"true\"", &hostile, 1),
        format!("{HOSTILE}{summary}"),
    ];
    for (number, text) in forged.iter().enumerate() {
        assert_ne!(*text, summary, "{number}: nothing is forged");
        std::fs::write(&place, text).expect("written");
        for verb in ["show", "show --details", "report", "export --format darshan-parser"] {
            let words: Vec<&str> = verb.split(' ').chain([recording.as_str()]).collect();
            let output = weigh(&scratch, &words);
            is_harmless(&output.stderr, &format!("{verb} of {number}"));
            is_harmless(&output.stdout, &format!("{verb} of {number}"));
        }
    }
}

/// `weigh trace … | head -1`.
#[test]
fn a_stream_ends_when_its_only_reader_has_gone() {
    needs_root!();
    for options in [
        &[][..],
        &["-o", "-"],
        &["--latency", "sched_wakeup -> sched_switch by p->pid == next->pid"],
    ] {
        let scratch = Scratch::new();
        let mut command = Command::new(weigh_binary());
        command.args(["trace", "-e", "sched:sched_switch"]).args(options);
        set_surroundings(&mut command, &scratch);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Mortal::of(command.spawn());
        let output = child.stdout.take().expect("a pipe");
        // Of what is told in the end there is no line to read before.
        match options.contains(&"--latency") {
            true => drop(output),
            false => {
                let length = BufReader::new(output).read_line(&mut String::new());
                assert!(length.expect("a line") > 0, "{options:?}");
            }
        }
        assert_eq!(ends(&mut child, "weigh trace").code(), Some(0), "{options:?}");
        let said = child.wait_with_output().expect("what it said").stderr;
        assert_eq!(String::from_utf8_lossy(&said), "", "{options:?}");
    }
}

#[test]
fn a_command_goes_on_when_nobody_reads_its_events() {
    needs_root!();
    let scratch = Scratch::new();
    let mut command = Command::new(weigh_binary());
    command.args(["trace", "-o", "-", "-e", "raw_syscalls:sys_enter", "--", "sh", "-c"]);
    command.arg("read go; for i in 1 2 3 4; do /bin/true; done; echo ran > ran; exit 9");
    set_surroundings(&mut command, &scratch);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Mortal::of(command.spawn());
    drop(child.stdout.take());
    child.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
    assert_eq!(ends(&mut child, "weigh trace").code(), Some(9));
    assert_eq!(scratch.text("work/ran"), "ran\n");
}

fn shown(scratch: &Scratch, recording: &Path) -> String {
    let output = weigh(scratch, &["show", "--details", &recording.display().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_job_that_runs_is_told_from_one_without_an_end() {
    let scratch = Scratch::new();
    let error = File::create(scratch.path("said")).expect("a file");
    let line = "run --mechanism poll --interval 50ms -o R";
    let mut child = start(&scratch, None, line, "echo ran > ran; sleep 100", error.into());
    wait_until("the job runs", 30.0, || scratch.path("work/ran").exists());
    let recording = scratch.path("recording");
    let running = shown(&scratch, &recording);
    assert!(running.starts_with("weigh  still running"), "{running}");
    assert!(running.contains("This recording is still being recorded"), "{running}");
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let cut_short = shown(&scratch, &recording);
    assert!(cut_short.starts_with("weigh  no end recorded"), "{cut_short}");
    assert!(cut_short.contains("it has no end (weigh was killed, the machine went"), "{cut_short}");
}

#[test]
fn a_refusal_names_what_helps() {
    let scratch = Scratch::new();
    let mut command = Command::new(weigh_binary());
    command.args(["run", "--", "true"]);
    set_surroundings(&mut command, &scratch);
    command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    let said = command.output().expect("weigh").stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("neither XDG_STATE_HOME nor HOME"), "{said}");
    assert!(said.lines().all(|line| line.matches("-o DIR").count() < 2), "{said}");
    command.env("HOME", "/proc/nowhere");
    let said = command.output().expect("weigh").stderr;
    assert!(String::from_utf8_lossy(&said).contains("-o DIR names a place"), "{said:?}");
    let limited = |limit: &str| {
        let output = weigh(&scratch, &["run", "--limit", limit, "--", "true"]);
        assert_eq!(output.status.code(), Some(125), "{limit}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(limited("processes_peak=1.5").contains("'1.5' is not a whole number"));
    let said = limited("nosuch=1");
    assert!(said.contains("limits are on") && said.contains("memory_peak_bytes"), "{said}");
}

#[test]
fn a_command_that_writes_where_the_json_goes_is_named() {
    let scratch = Scratch::new();
    // Of a pipe no kernel since 6.15 says when it was written to.
    let says = |command: &[&str]| {
        let mut weigh = Command::new(weigh_binary());
        weigh.args(["run", "--mechanism", "poll", "--json", "-", "--"]).args(command);
        weigh.stdout(File::create(scratch.path("out")).expect("a file"));
        set_surroundings(&mut weigh, &scratch);
        let output = weigh.stderr(Stdio::piped()).output().expect("weigh starts");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).contains("`--json fd:3 3>FILE`")
    };
    assert!(says(&["sh", "-c", "sleep 0.1; echo too"]));
    assert!(!says(&["true"]));
    assert!(!says(&["sh", "-c", "echo elsewhere >&2"]));
}
