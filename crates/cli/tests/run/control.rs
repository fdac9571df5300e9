//! `weigh control`: what is sent to a program under `weigh run` is what it gets, and who may not send is refused.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use serde_json::Value;
use weigh_schema::control::ADDRESS_PREFIX;
use weigh_schema::region::RegionRow;

use crate::support::library::{folder, must, packaged_python_module, program};
use crate::support::measured::Measured;
use crate::support::run::{Running, Scratch, Weigh, weigh, weigh_as};

/// `regions_run` in that mode, when it has told of itself.
#[track_caller]
fn start(mode: &str) -> (Running, String) {
    let program = program("regions_run").display().to_string();
    let mut running = Weigh::run([program, mode.to_string()]).start();
    let pid = running.process(&format!("regions_run {mode}")).to_string();
    let scratch = Scratch::new();
    let is_known = || weigh(&scratch, &["control", &pid]).status.success();
    running.wait_until("the program tells of its regions", 20.0, is_known);
    (running, pid)
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[track_caller]
fn send_to(running: &Running, arguments: &[&str]) -> String {
    let output = weigh(&running.scratch, &[&["control", "--wait", "20s"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    said(&output)
}

/// The program takes it and ends, perhaps before that is seen: what it says shows that it has.
fn end(running: &Running, pid: &str) {
    weigh(&running.scratch, &["control", pid, "set", "end=now"]);
}

fn calls(measured: &Measured, name: &str) -> u64 {
    let mut calls = 0;
    let add = |row: RegionRow| calls += if row.name == name { row.calls } else { 0 };
    measured.recording().each_region(add).expect("the table can be read");
    calls
}

#[test]
fn a_program_gets_what_it_is_sent_and_its_library_does_what_concerns_it() {
    let (running, pid) = start("control");
    let told = send_to(&running, &[&pid, "publish"]);
    assert!(told.starts_with(&format!("process {pid}: taken after ")), "{told}");
    send_to(&running, &[&pid, "off", "loud*"]);
    let switched_off = std::time::Instant::now();
    send_to(&running, &[&pid, "set", "a=7.25", "b=some text", "c="]);
    send_to(&running, &[&running.pid().to_string(), "publish-every", "1h"]);
    std::thread::sleep(std::time::Duration::from_millis(200));
    // By the recording, too.
    let recording = running.scratch.path("recording").display().to_string();
    let told = send_to(&running, &["--json", &recording, "set", "d=0x10"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["schema"], "weigh.control/1");
    assert_eq!(told["processes"][0]["outcome"], "taken", "{told}");
    assert_eq!(
        (&told["processes"][0]["sent_total"], &told["processes"][0]["taken_total"]),
        (&7.into(), &7.into())
    );
    assert_eq!(told["processes"][0]["publishes_total"], 1);
    assert!(switched_off.elapsed().as_millis() >= 200);
    end(&running, &pid);
    let measured = running.end();
    let stdout = String::from_utf8_lossy(&measured.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "begun",
            "2 0 [] []",
            "4 0 [loud*] []",
            "1 7.25 [a] [7.25]",
            "1 0 [b] [some text]",
            "1 0 [c] []",
            "5 3600 [] []",
            "1 0 [d] [0x10]",
            "1 0 [end] [now]",
        ]
    );
    assert_eq!(measured.summary().regions.as_ref().map(|found| found.publishes_total), Some(1));
    let (quiet, loud) = (calls(&measured, "quiet step"), calls(&measured, "loud step"));
    assert!(loud > 0 && quiet > loud + 50, "{quiet} {loud}");
}

/// By C and by Python, to a process, a run, and the job of a recording.
#[test]
fn libweigh_sends_as_the_command_does() {
    let (running, pid) = start("control");
    let by_c = |target: &str, request: [&str; 4], wait: &str| {
        let mut command = Command::new(program("control_send"));
        let output = command.arg(target).args(request).arg(wait).output().expect("it starts");
        said(&output)
    };
    let recording = running.scratch.path("recording").display().to_string();
    let taken = "1 processes, 1 taken, 0 waiting, 0 ended\n";
    for (target, request) in [
        (&pid, ["2", "0", "", ""]),
        (&running.pid().to_string(), ["4", "0", "lo\"ud\\*", ""]),
        (&recording, ["1", "0", "a", "7.25 \t\u{e9}"]),
        (&pid, ["5", "0.125", "", ""]),
    ] {
        assert_eq!(by_c(target, request, "20"), taken, "{target} {request:?}");
    }
    let by_python = |code: &str| {
        let mut command = Command::new("python3");
        let code = format!("import weigh, sys\nprint({code})");
        command.args(["-B", "-c", &code, &pid]).env("PYTHONPATH", packaged_python_module());
        said(&command.output().expect("it starts"))
    };
    let told = by_python("weigh.send_control(int(sys.argv[1]), 'set', 'b', 12, wait=20)");
    assert_eq!(told, "Sent(processes=1, taken=1, waiting=0, ended=0)\n");
    by_python("weigh.send_control(sys.argv[1], 'on', 'quiet*', wait=20)");
    let told = by_python("weigh.send_control(sys.argv[1], 'set', 'k' * 65, wait=20)");
    assert!(told.contains("too long"), "{told}");
    assert!(by_python("weigh.send_control(1, 'sett')").contains("no request 'sett'"));
    let nobody = by_python("weigh.send_control(2147483646, 'publish')");
    assert!(nobody.contains("OSError: 2147483646: no `weigh run`"), "{nobody}");
    assert!(by_c(&pid, ["6", "0", "", ""], "1").starts_with("not sent: a request is 1 to 5"));
    assert!(by_c(&pid, ["5", "-1", "", ""], "1").starts_with("not sent: "));
    assert!(by_c("no-such-job", ["2", "0", "", ""], "1").starts_with("not sent: no `weigh run`"));
    end(&running, &pid);
    let stdout = running.end().stdout;
    let lines: Vec<String> = String::from_utf8_lossy(&stdout).lines().map(String::from).collect();
    assert_eq!(
        lines,
        [
            "begun",
            "2 0 [] []",
            "4 0 [lo\"ud\\*] []",
            "1 0 [a] [7.25 \t\u{e9}]",
            "5 0.125 [] []",
            "1 12 [b] [12]",
            "3 0 [quiet*] []",
            "1 0 [end] [now]",
        ]
    );
}

/// The library, and a program in Fortran beside it.
fn fortran_program(folder: &Path) -> PathBuf {
    let installed = program("regions_run").parent().expect("a folder").to_path_buf();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh/tests/controlled.f90");
    let to = folder.join("controlled");
    let mut compile = Command::new("gfortran");
    compile.arg("-o").arg(&to).arg(installed.join("include/weigh_region.f90")).arg(source);
    compile.arg(installed.join("lib/libweigh.a")).arg("-pthread").current_dir(folder);
    must(&mut compile);
    to
}

#[test]
fn a_program_in_fortran_gets_what_it_is_sent() {
    let place = folder();
    let program = fortran_program(place.path()).display().to_string();
    let mut running = Weigh::run([program.clone()]).start();
    let pid = running.process(&program).to_string();
    let scratch = Scratch::new();
    let is_known = || weigh(&scratch, &["control", &pid]).status.success();
    running.wait_until("the program tells of its regions", 20.0, is_known);
    send_to(&running, &[&pid, "set", "output_every=2.5", "longer_than_its_room_is=123456789"]);
    end(&running, &pid);
    let measured = running.end();
    let stdout = String::from_utf8_lossy(&measured.stdout).into_owned();
    assert_eq!(
        stdout,
        "1 2.50 [output_every] [2.5]\n1 123456789.00 [longer_than_its_] [12345678]\n1 .00 [end] [now]\n"
    );
    assert_eq!(calls(&measured, "overlapping"), 1);
}

/// A program that does not take it in time; another user's run.
#[test]
fn what_libweigh_sends_in_vain_is_told() {
    let (running, pid) = start("deaf");
    let mut command = Command::new(program("control_send"));
    command.args([&pid, "2", "0", "", "", "0.05"]);
    let output = command.output().expect("it starts");
    assert_eq!(said(&output), "1 processes, 0 taken, 1 waiting, 0 ended\n");
    if crate::support::is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups", "--"]).arg(program("control_send"));
        command.args([&pid, "2", "0", "", "", "1"]);
        let output = command.output().expect("it starts");
        let told = said(&output);
        // It says so itself, unless it has hung up before it was asked.
        assert!(told.starts_with("not sent: ") && told.contains("another user's"), "{told}");
    }
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid.parse().expect("a PID")),
        nix::sys::signal::Signal::SIGKILL,
    )
    .expect("it runs");
    running.end();
}

#[test]
fn a_program_that_never_asks_has_a_full_queue_at_last() {
    let (running, pid) = start("deaf");
    let values: Vec<String> = (0..64).map(|i| format!("key={i}")).collect();
    let mut arguments = vec!["control", "--wait", "30ms", &pid, "set"];
    arguments.extend(values.iter().map(String::as_str));
    let output = weigh(&running.scratch, &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("not taken yet, 64 waiting"), "{}", said(&output));
    let output = weigh(&running.scratch, &["control", &pid, "publish"]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(said(&output).contains("the queue is full"), "{}", said(&output));
    let long = format!("{}=1", "k".repeat(65));
    let output = weigh(&running.scratch, &["control", &pid, "set", &long]);
    assert!(said(&output).contains("too long"), "{}", said(&output));
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid.parse().expect("a PID")),
        nix::sys::signal::Signal::SIGKILL,
    )
    .expect("it runs");
    running.end();
}

#[test]
fn what_is_not_there_or_not_the_users_is_said() {
    let (running, pid) = start("control");
    let refused = |user: Option<u32>, arguments: &[&str]| {
        let output = weigh_as(user, &running.scratch, arguments);
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        said(&output)
    };
    let nobody = refused(None, &["control", "2147483646", "publish"]);
    assert!(nobody.contains("there is no process 2147483646"), "{nobody}");
    let without = refused(None, &["control", &std::process::id().to_string(), "publish"]);
    assert!(without.contains("names no regions"), "{without}");
    assert!(refused(None, &["control", "no-such-job"]).contains("no-such-job"));
    if crate::support::is_root() {
        let others = refused(Some(65_534), &["control", &pid, "set", "end=now"]);
        assert!(others.contains("another user's"), "{others}");
    }
    end(&running, &pid);
    let measured = running.end();
    assert_eq!(measured.stdout, b"begun\n1 0 [end] [now]\n");
}

/// The abstract address of that run.
fn address(weigh: u32) -> String {
    let mut list = String::new();
    let mut file = std::fs::File::open("/proc/net/unix").expect("a list");
    file.read_to_string(&mut list).expect("text");
    let prefix = format!("{ADDRESS_PREFIX}{weigh}-");
    let names = list.lines().filter_map(|line| Some(line.rsplit_once(" @")?.1));
    names.into_iter().find(|name| name.starts_with(&prefix)).expect("weigh listens").to_string()
}

#[test]
fn what_is_no_request_is_refused_and_holds_nothing_up() {
    let (running, pid) = start("control");
    let name =
        SocketAddrUnix::new_abstract_name(address(running.pid()).as_bytes()).expect("a name");
    let connected = || {
        let kind = SocketType::SEQPACKET;
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("a socket");
        connect(&socket, &name).expect("weigh listens");
        socket
    };
    let silent: Vec<_> = (0..200).map(|_| connected()).collect();
    let asked = |bytes: &[u8]| {
        let socket = connected();
        let _ = send(&socket, bytes, SendFlags::NOSIGNAL);
        let mut buffer = [0; 4096];
        let length = recv(&socket, &mut buffer[..], RecvFlags::empty()).map_or(0, |(_, l)| l);
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert!(asked(b"\xff\x00no JSON").contains("not understood"));
    assert!(asked(&[b'['; 60_000]).contains("not understood"));
    assert_eq!(asked(&[b' '; 100_000]), "");
    let every = |seconds: &str| {
        format!(
            r#"{{"target":{{"pid":{pid}}},"requests":[{{"publish_every":{{"seconds":{seconds}}}}}]}}"#
        )
    };
    for seconds in ["-1", "1e300"] {
        assert!(asked(every(seconds).as_bytes()).contains("not understood"), "{seconds}");
    }
    let zero = format!(
        r#"{{"target":{{"pid":{pid}}},"requests":[{{"set":{{"key":"a\u0000b","value":""}}}}]}}"#
    );
    assert!(asked(zero.as_bytes()).contains("zero byte"));
    // One that asks and does not take the answers is turned away.
    let flooding = connected();
    let ask = format!(r#"{{"target":{{"pid":{pid}}},"requests":[]}}"#);
    let rude = (0..100_000).find(|_| send(&flooding, ask.as_bytes(), SendFlags::NOSIGNAL).is_err());
    assert!(rude.is_some(), "it is turned away");
    end(&running, &pid);
    let measured = running.end();
    drop(silent);
    assert_eq!(measured.stdout, b"begun\n1 0 [end] [now]\n");
}
