//! A command runs as if weigh were not there: status, streams, surroundings, signals.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::run::{Scratch, Weigh, set_surroundings};
use crate::support::{patience, processes, wait_until, weigh_binary, workload, worth_the_time};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;

/// Bytes without a pattern.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn exit_codes() {
    needs_root!();
    let codes = [1, 124, 255, 0, 2, 3, 63, 64, 100, 123, 125, 126, 127, 128, 130, 137, 143, 200];
    for code in worth_the_time(&codes, 3).iter().copied() {
        let measured = Weigh::bash(&format!("exit {code}")).options("-q").end();
        measured.check(measured.status.code() == Some(code), || format!("expected {code}"));
        let exit = measured.summary().exit.clone().expect("the job has ended");
        assert_eq!((exit.code, exit.signal), (Some(code), None));
    }
}

#[test]
fn deaths_by_a_signal() {
    needs_root!();
    // KILL SEGV TERM HUP INT QUIT ILL TRAP ABRT BUS FPE USR1 USR2 PIPE ALRM XCPU SYS
    let signals = [9, 11, 15, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 24, 31];
    for signal in worth_the_time(&signals, 3).iter().copied() {
        // Not bash, which ignores QUIT.
        let script = format!("ulimit -c 0; kill -{signal} $$");
        let measured = Weigh::run(["sh", "-c", &script]).options("-q").end();
        measured.check(measured.status.signal() == Some(signal), || {
            format!("expected to see it die by signal {signal}")
        });
        let exit = measured.summary().exit.clone().expect("the job has ended");
        assert_eq!((exit.code, exit.signal), (None, Some(signal)));
    }
}

#[test]
fn a_shell_sees_the_same_status() {
    needs_root!();
    let scratch = Scratch::new();
    let weigh = weigh_binary().display().to_string();
    let script = format!(
        "{weigh} run -q -o {0}/a -- bash -c 'kill -TERM $$'; echo $?; {weigh} run -q -o {0}/b -- yes | head -n 1; echo ${{PIPESTATUS[0]}}",
        scratch.path("recordings").display()
    );
    let said = crate::support::run::bare(&scratch, &["bash", "-c", &script]);
    assert_eq!(String::from_utf8_lossy(&said), "143\ny\n141\n");
}

#[test]
fn bytes_pass_unchanged() {
    needs_root!();
    let scratch = Scratch::new();
    let bytes = noise(1_000_003);
    std::fs::write(scratch.path("noise"), &bytes).expect("a file");
    let measured = Weigh::run(["cat"]).stdin(&scratch.path("noise")).measure();
    assert!(measured.stdout == bytes, "standard output differs, {}", measured.stdout.len());
    assert!(measured.stderr.starts_with("weigh  "), "{}", measured.stderr);

    let run = Weigh::bash("cat >&2").options("-q").stdin(&scratch.path("noise"));
    let measured = run.measure();
    let stderr = std::fs::read(measured.scratch.path("stderr")).expect("standard error");
    assert!(stderr == bytes, "standard error differs, {} bytes", stderr.len());
    assert!(measured.stdout.is_empty());
}

#[test]
fn bytes_pass_through_pipes() {
    needs_root!();
    let scratch = Scratch::new();
    let bytes = noise(1_000_003);
    let mut command = Command::new(weigh_binary());
    command.args(["run", "-q", "-o"]).arg(scratch.path("recording")).args(["--", "cat"]);
    set_surroundings(&mut command, &scratch);
    let mut weigh = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("weigh");
    let (mut into, sent) = (weigh.stdin.take().expect("a pipe"), bytes.clone());
    let writer = std::thread::spawn(move || into.write_all(&sent));
    let mut received = Vec::new();
    weigh.stdout.take().expect("a pipe").read_to_end(&mut received).expect("read");
    writer.join().expect("no panic").expect("all is taken");
    assert!(weigh.wait().expect("our child").success());
    assert!(received == bytes, "received {} bytes", received.len());
}

/// Runs a command from a shell script that sets the scene, bare and measured; both say on standard
/// output what they find. Lines with PIDs differ by nature and are left out.
#[track_caller]
fn finds_the_same(scene: &str, command: &[&str]) -> String {
    let scratch = Scratch::new();
    let weigh = weigh_binary().display().to_string();
    let recording = scratch.path("recording").display().to_string();
    let script = format!("exec < /dev/null > out 2> err; {scene}; exec \"$@\"");
    let mut found: Vec<String> = Vec::new();
    for measuring in [&[][..], &[weigh.as_str(), "run", "-q", "-o", &recording, "--"][..]] {
        let shell = ["bash", "-c", script.as_str(), "bash"];
        let words = [&shell[..], measuring, command].concat();
        crate::support::run::bare(&scratch, &words);
        let out = scratch.text("work/out");
        assert!(!out.is_empty(), "{words:?} said nothing; {}", scratch.text("work/err"));
        // Variables as docs/transparent.md names them.
        let differing = ["pid=", "parent=", "variable=WEIGH_"];
        let has_pid = |line: &&str| differing.iter().any(|key| line.starts_with(key));
        found.push(out.split_inclusive('\n').filter(|line| !has_pid(line)).collect());
    }
    assert_eq!(found[1], found[0], "left: measured, right: bare");
    found.remove(1)
}

#[test]
fn the_environment() {
    needs_root!();
    // But for what names the weigh that serves programs with libweigh, and takes their regions.
    let command = ["env", "-u", "WEIGH_SOCKET", "-u", "WEIGH_REGIONS", "env", "-0"];
    let found = finds_the_same("export ODD=$'a\\nb=c'; unset HOME", &command);
    assert!(found.contains("ODD=a\nb=c\0"), "{found}");
}

#[test]
fn what_a_process_inherits() {
    needs_root!();
    let tty = workload("tty");
    let found = finds_the_same("cd /; umask 0153", &[&tty, "a", "b c", ""]);
    for line in ["umask=0153", "cwd=/", "arg2=b c", "arg3="] {
        assert!(found.contains(&format!("{line}\n")), "no {line}:\n{found}");
    }
}

#[test]
fn descriptors() {
    needs_root!();
    let scene = "echo x > file; exec 3< file 7>> file 9<> file 42< /dev/zero; exec 5>&-";
    let found = finds_the_same(scene, &[&workload("tty")]);
    for descriptor in ["fd0=/dev/null\n", "fd3=", "fd7=", "fd9=", "fd42=/dev/zero\n"] {
        assert!(found.contains(descriptor), "no {descriptor}:\n{found}");
    }
    assert!(!found.contains("fd5="), "{found}");
}

#[test]
fn limits_and_scheduling() {
    needs_root!();
    let script = "ulimit -a; umask; cat /proc/self/oom_score_adj /proc/self/coredump_filter /proc/self/timerslack_ns; nice; grep -E '^(Uid|Gid|Groups|NoNewPrivs|Seccomp|Cap|Cpus_allowed_list|Mems)' /proc/self/status";
    let found = finds_the_same(
        "umask 0137; ulimit -n 777 -s 4444 -c 0; echo 123 > /proc/self/oom_score_adj",
        &["bash", "-c", script],
    );
    assert!(
        found.contains("777") && found.contains("0137") && found.contains("\n123\n"),
        "{found}"
    );
}

#[test]
fn dispositions_of_signals() {
    needs_root!();
    let say = ["grep", "-E", "^(SigBlk|SigIgn|SigCgt)", "/proc/self/status"];
    let ignored = |found: &str| {
        let line = found.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
        u64::from_str_radix(line.expect("a line"), 16).expect("a mask")
    };
    const PIPE: u64 = 1 << 12;
    // Rust's start-up ignores SIGPIPE; the command must get what weigh was given.
    assert_eq!(ignored(&finds_the_same("true", &say)) & PIPE, 0);
    let found = finds_the_same("trap '' PIPE USR1 HUP", &say);
    assert_eq!(ignored(&found) & (PIPE | 1 | 1 << 9), PIPE | 1 | 1 << 9, "{found}");
}

#[test]
fn a_mask_of_blocked_signals() {
    needs_root!();
    use nix::sys::signal::{SigSet, Signal};
    let scratch = Scratch::new();
    let out = scratch.path("out").display().to_string();
    let recording = scratch.path("recording").display().to_string();
    let say = format!("exec grep SigBlk /proc/self/status > {out}");
    let weigh = weigh_binary();
    let weigh = weigh.to_str().expect("a plain path");
    let words = [weigh, "run", "-q", "-o", &recording, "--", "sh", "-c", &say];
    let words: Vec<_> =
        words.iter().map(|word| std::ffi::CString::new(*word).expect("no NUL")).collect();
    let environment: Vec<_> = std::env::vars()
        .map(|(name, value)| std::ffi::CString::new(format!("{name}={value}")).expect("no NUL"))
        .collect();
    // A thread of its own: the mask is the thread's, and std's Command would clear it.
    let status = std::thread::spawn(move || {
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGUSR2);
        blocked.add(Signal::SIGALRM);
        blocked.thread_block().expect("signals can be blocked");
        let actions = nix::spawn::PosixSpawnFileActions::init().expect("memory");
        let attributes = nix::spawn::PosixSpawnAttr::init().expect("memory");
        let pid = nix::spawn::posix_spawnp(&words[0], &actions, &attributes, &words, &environment);
        nix::sys::wait::waitpid(pid.expect("weigh starts"), None).expect("our child")
    });
    let status = status.join().expect("no panic");
    assert!(matches!(status, nix::sys::wait::WaitStatus::Exited(_, 0)), "{status:?}");
    assert_eq!(scratch.text("out").trim(), "SigBlk:\t0000000000002800");
}

/// All that weigh can take, and what it is called: not KILL and STOP, not those of job control, not the ends of
/// children, and not two that the C library keeps for itself.
fn all_signals() -> Vec<(i32, String)> {
    const LEFT: [i32; 9] = [9, 17, 18, 19, 20, 21, 22, 32, 33];
    let name = |number| match nix::sys::signal::Signal::try_from(number) {
        Ok(known) => known.as_str().trim_start_matches("SIG").replace("IO", "POLL"),
        Err(_) => format!("RT{number}"),
    };
    (1..=64).filter(|n| !LEFT.contains(n)).map(|n| (n, name(n))).collect()
}

/// Sends everything to weigh that `signals`, its command, waits for, and ends that with an ALRM of the test's own.
#[track_caller]
fn each_arrives_once(weigh: &mut Command, scratch: &Scratch) {
    let all = all_signals();
    let count = (all.len() + 4).to_string();
    weigh.args(["--", &workload("signals"), &count]);
    set_surroundings(weigh, scratch);
    let file = |name| std::fs::File::create(scratch.path(name)).expect("a file");
    weigh.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
    let mut running = weigh.spawn().expect("weigh");
    let lines = || scratch.text("stdout").lines().map(String::from).collect::<Vec<_>>();
    let ready = || lines().first().and_then(|line| line.strip_prefix("ready ")?.parse().ok());
    wait_until("the program is ready", 30.0, || ready().is_some());
    let command: u32 = ready().expect("a PID");
    let numbers: Vec<String> = all.iter().map(|(number, _)| number.to_string()).collect();
    let send = format!("for n in {}; do kill -$n {}; done", numbers.join(" "), running.id());
    assert!(Command::new("sh").args(["-c", &send]).status().expect("it runs").success());
    for value in ["41", "42", "43"] {
        let pid = running.id().to_string();
        let sent = Command::new(workload("signals")).args(["send", &pid, "40", value]).status();
        assert!(sent.expect("it runs").success());
    }
    wait_until("all have come", 20.0, || lines().len() >= all.len() + 4);
    // Time enough for another one, which must not come.
    std::thread::sleep(patience(0.1));
    assert!(processes::signal(command, 14));
    let status = running.wait().expect("our child");
    assert!(status.success(), "{weigh:?}: {status} {}", scratch.text("stderr"));
    let (mut came, mut expected) = (lines(), vec![format!("ready {command}")]);
    assert_eq!(came.last().map(String::as_str), Some("signal ALRM"), "{came:?}");
    // Those of one number are in the order in which they were sent.
    let queued: Vec<_> = came.iter().filter(|line| line.contains("value")).cloned().collect();
    let values = [41, 42, 43].map(|value| format!("signal RT40 value {value}"));
    assert_eq!(queued, values);
    expected.extend(all.iter().map(|(_, name)| format!("signal {name}")));
    expected.extend(values);
    expected.push("signal ALRM".to_string());
    came.sort();
    expected.sort();
    assert_eq!(came, expected, "{weigh:?}");
}

#[test]
fn signals_sent_to_weigh_reach_the_command_once_with_their_values() {
    needs_root!();
    for way in worth_the_time(&crate::support::WAYS, 3) {
        let scratch = Scratch::new();
        each_arrives_once(&mut crate::support::run::by(way, &scratch), &scratch);
    }
}

/// What a terminal sends goes to the whole group, and a process of the job may send to its own: the command has that.
#[test]
fn what_the_job_sends_to_its_group_comes_once() {
    needs_root!();
    let script = "trap 'echo got' USR1; kill -USR1 0; sleep 0.2; sleep 0.2; exit 5";
    let run = ["setsid", "-w"].map(String::from);
    let scratch = Scratch::new();
    let weigh = weigh_binary().display().to_string();
    let recording = scratch.path("recording").display().to_string();
    let words = [weigh, "run".into(), "-q".into(), "-o".into(), recording, "--".into()];
    let words = [&run[..], &words[..], &["sh", "-c", script].map(String::from)].concat();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (said, status) = crate::support::run::bare_status(&scratch, &words);
    assert_eq!((String::from_utf8_lossy(&said).as_ref(), status), ("got\n", Some(5)));
}

/// As Grid Engine does at a soft limit, and perl's one-line timeout: the command hears of it, and weigh goes on.
#[test]
fn timers_that_weigh_was_started_with_are_the_commands() {
    needs_root!();
    // On a busy machine the command may need seconds to get so far.
    let script = "trap 'kill $!; echo timeout; exit 9' ALRM; sleep 30 & wait $!; exit 3";
    let ends_in_time = |way: &[&str]| {
        let scratch = Scratch::new();
        let mut launched = Command::new(workload("launch"));
        launched.args(["alarm=6", "--"]).arg(weigh_binary());
        let weigh = crate::support::run::by(way, &scratch);
        launched.args(weigh.get_args()).args(["--", "bash", "-c", script]);
        set_surroundings(&mut launched, &scratch);
        let begun = std::time::Instant::now();
        let output = launched.stdin(Stdio::null()).stderr(Stdio::piped()).output().expect("runs");
        assert_eq!(output.status.code(), Some(9), "{way:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "timeout\n", "{way:?}");
        assert!(begun.elapsed() >= Duration::from_millis(5900), "{way:?}: too soon");
    };
    // They wait most of their time.
    for ways in worth_the_time(&crate::support::WAYS, 2).chunks(5) {
        std::thread::scope(|scope| {
            for way in ways {
                scope.spawn(|| ends_in_time(way));
            }
        });
    }
}

#[test]
fn a_term_that_ends_the_command_ends_weigh_the_same_way() {
    needs_root!();
    for signal in worth_the_time(&[SIGTERM, SIGHUP, SIGINT], 1).iter().copied() {
        let mut running = Weigh::run(["sleep", "60"]).start();
        running.process("sleep 60");
        assert!(processes::signal(running.pid(), signal));
        let measured = running.end();
        measured.check(measured.status.signal() == Some(signal), || "another end".to_string());
        measured.check(measured.recording().is_complete(), || "it is cut".to_string());
        measured.is("processes_total", 1);
    }
}

#[test]
fn a_killed_command_is_the_commands_death() {
    needs_root!();
    let mut running = Weigh::run(["sleep", "60"]).start();
    let sleep = running.process("sleep 60");
    processes::signal(sleep, SIGKILL);
    let measured = running.end();
    measured.check(measured.status.signal() == Some(SIGKILL), || "another end".to_string());
    measured.check(measured.recording().is_complete(), || "it is cut".to_string());
}

#[test]
fn the_table_keeps_out_of_the_way() {
    needs_root!();
    // Standard output is the command's alone, whatever weigh has to say.
    let measured = Weigh::run(["echo", "hello"]).options("--json fd:2").measure();
    assert_eq!(measured.stdout, b"hello\n");
    let measured = Weigh::run(["echo", "hello"]).options("-q").measure();
    assert_eq!((measured.stdout.as_slice(), measured.stderr.as_str()), (&b"hello\n"[..], ""));
}

#[test]
fn a_command_that_ends_before_it_reads() {
    needs_root!();
    // Nobody takes what is sent: the command has ended, weigh must not wait for its input.
    let mut command = Command::new(weigh_binary());
    let scratch = Scratch::new();
    command.args(["run", "-q", "-o"]).arg(scratch.path("recording")).args(["--", "true"]);
    set_surroundings(&mut command, &scratch);
    let mut weigh = command.stdin(Stdio::piped()).spawn().expect("weigh");
    let end = std::time::Instant::now() + patience(20.0);
    let status = loop {
        if let Some(status) = weigh.try_wait().expect("our child") {
            break status;
        }
        assert!(std::time::Instant::now() < end, "weigh waits for input");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{status}");
}

/// Who knows weigh alone, as a batch system does, continues what it has started.
#[test]
fn one_that_stops_itself_goes_on_when_weigh_is_continued() {
    needs_root!();
    for mechanism in ["bpf", "ptrace", "preload", "poll"] {
        let run = Weigh::run(["sh", "-c", "echo >ready; kill -STOP $$; echo >on; exit 9"]);
        let options = format!("-q --mechanism {mechanism}");
        let mut running = run.options(&options).in_own_group().start();
        let work = running.scratch.path("work");
        let is_stopped = |child: &u32| matches!(processes::state(*child), Some('T' | 't'));
        let weigh = running.pid();
        running.wait_until("the command stops", 20.0, || {
            work.join("ready").exists() && processes::children(weigh).iter().any(is_stopped)
        });
        running.wait_until("the command goes on", 10.0, || {
            processes::signal(weigh, SIGCONT);
            work.join("on").exists()
        });
        let measured = running.end();
        measured.check(measured.status.code() == Some(9), || format!("by {mechanism}"));
    }
}
