//! libweigh's crate: built as a program's cargo builds it, and held to what its example itself did.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::library::{Agent, folder, must};
use crate::support::mortal::Mortal;
use crate::support::run::{self, Scratch};
use crate::support::trace::{counted, succeeds};
use crate::support::{wait_until, weigh_binary, workload};

const CRATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../libweigh/rust");

fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(CRATE);
    cargo
}

pub fn example(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libweigh-rust");
    let mut build = cargo();
    must(
        build
            .args(["build", "--offline", "--quiet", "--locked", "--examples", "--target-dir"])
            .arg(&target),
    );
    target.join("debug/examples").join(name)
}

#[test]
fn the_crate_reads_the_same_numbers() {
    needs_root!();
    let agent = Agent::start(&[]);
    let place = folder();
    let file = place.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let mut run = Command::new(example("opens"));
    run.arg(&file).env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    let output = must(&mut run);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "opens 23 allocations true sent 1000003 calls 100 unmeasured 0\n\
                    cycles None true\n\
                    block: Some(NotWanted)\n\
                    settled Some(true) None\n\
                    peer Some(100)\n\
                    accounts 2\n\
                    init: no such process is measured\n";
    assert_eq!(said, expected);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there").len(), 23);
}

#[test]
fn the_crate_tells_of_limits() {
    needs_root!();
    let agent = Agent::start(&[]);
    let mut run = Command::new(example("limits"));
    run.env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    let output = must(&mut run);
    let expected = "before: Err(NoToken)\nbelow: None\npassed: 17 3027 3027 true\nagain: None\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn the_crate_finds_the_parts_of_the_agent_s_configuration() {
    needs_root!();
    let place = folder();
    let file = place.path().join("parts.toml");
    std::fs::write(&file, include_str!("../../../../examples/link-layer.toml")).expect("a file");
    let agent = Agent::start(&["--config", &file.display().to_string()]);
    let mut run = Command::new(example("custom_subsystem"));
    run.args(["link_layer", "bytes"]);
    let output = must(run.env("WEIGH_SOCKET", agent.folder.path().join("socket")));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    let is_probed = Path::new("/sys/bus/event_source/devices/kprobe/type").exists();
    let bytes = 31 * (1003 + 14 + 20 + 8);
    let own = match is_probed {
        true => format!("link_layer 31 bytes {bytes}"),
        false => "link_layer: this kernel lets no function be probed".to_string(),
    };
    assert_eq!((lines[0], lines.len()), ("31 sent 31093", 3), "{said}");
    assert!(lines[1].starts_with(&own), "{said}");
    let why = format!("memory: the agent's configuration leaves this part out: {}", file.display());
    assert_eq!(lines[2], why);
}

#[test]
fn a_stream_is_read_along() {
    needs_root!();
    let scratch = Scratch::new();
    // Of the datagrams of this test alone: nobody else sends such.
    let event = "net:net_dev_queue{len=skb->len} if skb->len == 653";
    let mut weigh = Command::new(weigh_binary());
    weigh.args(["trace", "-e", event, "--into", "copy: one ring", "-o"]);
    let weigh = weigh.arg(scratch.path("own.jsonl")).stderr(Stdio::piped()).spawn();
    let weigh = Mortal::of(weigh);
    let pid = weigh.id().to_string();
    let runs = || run::weigh(&scratch, &["trace", "ctl", "--stream", &pid]).status.success();
    wait_until("it listens", 30.0, runs);
    let unknown = Command::new(example("follows")).args([&pid, "len", "cpy"]).output();
    let said = String::from_utf8_lossy(&unknown.expect("it starts").stderr).into_owned();
    assert!(said.contains("NoBuffer"), "{said}");
    let follows =
        Command::new(example("follows")).args([&pid, "len", "copy"]).stdout(Stdio::piped()).spawn();
    let mut follows = Mortal::of(follows);
    let mut said = BufReader::new(follows.stdout.take().expect("output")).lines();
    let mut line = || said.next().expect("a line").expect("text");
    assert_eq!(line(), "ready");
    must(Command::new(workload("datagrams")).args(["1003", "611", "0"]));
    let ends = rustix::process::Pid::from_child(&weigh);
    rustix::process::kill_process(ends, rustix::process::Signal::INT).expect("a signal");
    let (taken, lost) = counted(&succeeds(&weigh.wait_with_output().expect("it ends")));
    assert_eq!(taken + lost, 2006);
    let numbers: Vec<u64> = line().split(' ').map(|n| n.parse().expect("a number")).collect();
    let [seen, overrun, missing, sum, waked] = numbers[..] else { panic!("{numbers:?}") };
    assert_eq!((seen * 2, overrun, sum), (taken, 0, seen * 653));
    assert_eq!(seen + missing, 1003);
    assert!(waked > 1 && follows.wait().expect("it ends").success());
}

#[test]
fn without_an_agent_it_says_why() {
    let nowhere = folder();
    let mut run = Command::new(example("opens"));
    run.arg("unused").env("WEIGH_SOCKET", nowhere.path().join("nobody-listens"));
    let output = run.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no agent of weigh answers"), "{said}");
}

/// It is no member of the workspace, whose lints do not reach it; it is held to the same.
#[test]
fn its_unsafe_code_says_why_it_is_sound() {
    let mut clippy = cargo();
    clippy.args(["clippy", "--offline", "--quiet", "--locked", "--target-dir"]);
    clippy.arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("libweigh-rust"));
    must(clippy.args(["--all-targets", "--", "-D", "warnings"]));
    must(cargo().args(["fmt", "--check"]));
}
