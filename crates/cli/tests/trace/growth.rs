//! Rings of packets grow when one of them is more than half full, and nothing is lost by that.

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::library::must;
use crate::support::mortal::Mortal;
use crate::support::run::{Scratch, weigh};
use crate::support::trace::{counted, succeeds};
use crate::support::{wait_until, weigh_binary, workload};

/// Nobody else's datagrams are so long.
const LENGTH: u64 = 683;
/// More than half of a ring of 2 MiB, and less than all of it.
const FIRST: u64 = 9001;
const THEN: u64 = 13;
const MIB: u64 = 1 << 20;

/// Both tests send the same: one at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn signal(process: &Mortal, signal: Signal) {
    kill(Pid::from_raw(process.id() as i32), signal).expect("it is there");
}

/// From one CPU, and so into one ring.
fn send(datagrams: u64) {
    let (amount, bytes) = (datagrams.to_string(), (LENGTH - 42).to_string());
    must(Command::new("taskset").args(["-c", "0", &workload("datagrams"), &amount, &bytes, "0"]));
}

fn register(scratch: &Scratch, stream: &Mortal) -> Option<Value> {
    let pid = stream.id().to_string();
    let said = weigh(scratch, &["trace", "ctl", "--stream", &pid, "list", "--json"]);
    serde_json::from_slice(&said.stdout).ok()
}

/// Stops a stream while more is sent than half a ring holds; its rings before, and at the end.
#[track_caller]
fn fill(options: &[&str], grown: u64) -> [u64; 2] {
    let scratch = Scratch::new();
    let file = scratch.path("packets.pcapng").display().to_string();
    let mut weigh = Command::new(weigh_binary());
    weigh.args(["trace", "packets", "--system", "--direction", "out", "--snap", "96", "-o", &file]);
    weigh.args(["-f", &format!("skb->len == {LENGTH}")]).args(options);
    let stream = Mortal::of(weigh.stderr(Stdio::piped()).stdout(Stdio::null()).spawn());
    wait_until("it listens", 120.0, || register(&scratch, &stream).is_some());
    let now = || register(&scratch, &stream).expect("a register");
    let size = |of: &Value| of["buffers"][0]["ring_bytes"].as_u64().expect("a size");
    let before = size(&now());
    signal(&stream, Signal::SIGSTOP);
    send(FIRST);
    signal(&stream, Signal::SIGCONT);
    wait_until("it has rings of that size", 60.0, || size(&now()) == grown);
    send(THEN);
    let number = |of: &Value| of.as_u64().unwrap_or_else(|| panic!("{of}"));
    wait_until("all are taken", 60.0, || {
        let now = now();
        number(&now["taken"]) + number(&now["probes"][0]["missed"]) >= FIRST + THEN
    });
    let then = now();
    assert_eq!(number(&then["buffers"][0]["lost"]), 0, "{then}");
    signal(&stream, Signal::SIGINT);
    let said = succeeds(&stream.wait_with_output().expect("it ends"));
    let (taken, lost) = counted(&said);
    // The kernel passes over one in some 100,000.
    assert_eq!(taken + lost, FIRST + THEN, "{said}");
    assert!(lost < THEN, "{said}");
    [before, size(&then)]
}

#[test]
fn rings_grow_when_one_is_half_full_and_nothing_is_lost() {
    needs_root!();
    let _alone = ALONE.lock();
    assert_eq!(fill(&[], 8 * MIB), [2 * MIB, 8 * MIB]);
}

#[test]
fn rings_that_were_asked_for_stay_as_they_are() {
    needs_root!();
    let _alone = ALONE.lock();
    assert_eq!(fill(&["--buffer", "2MiB"], 2 * MIB), [2 * MIB; 2]);
}
