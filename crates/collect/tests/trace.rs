//! Programs of `weigh trace` in the kernel: they come, they are called, and they leave nothing behind.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::query::{LinkInfoIter, ProgInfoIter};
use weigh_collect::trace::{KernelTrace, Point, Settings, TraceError};

const SETTINGS: Settings = Settings { state_bytes: 4096, follows: true };

/// A tracepoint that fires all the time.
fn busy() -> Point {
    let btf = Btf::from_vmlinux().expect("the kernel's types");
    let found = btf.type_by_name::<Typedef<'_>>("btf_trace_sched_switch");
    let btf_id = u32::from(found.expect("every kernel has it").type_id());
    Point::Tracepoint { btf_id, module: None }
}

/// `*(u64 *)(state + 8) += 1`, as instructions.
fn counter(state: i32) -> Vec<u64> {
    let state = u64::from(state.cast_unsigned());
    vec![
        0x2118 | state << 32, // r1 = the array's value, at…
        8 << 32,              // …byte 8
        0x02b7 | 1 << 32,     // r2 = 1
        0x21db,               // lock *(u64 *)r1 += r2
        0x00b7,               // r0 = 0
        0x0095,               // exit
    ]
}

fn programs() -> Vec<u32> {
    let ours = ProgInfoIter::default().filter(|info| info.name == "weigh_trace");
    ours.map(|info| info.id).collect()
}

#[test]
fn a_program_is_called_while_it_is_attached_and_only_then() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut trace = KernelTrace::open(&SETTINGS).unwrap();
    let state = trace.descriptors().state;
    let number = trace.load("a counter", &[(busy(), counter(state))]).unwrap();
    let called = |trace: &KernelTrace| {
        let before = trace.word(8);
        std::thread::sleep(Duration::from_millis(50));
        trace.word(8) - before
    };
    assert_eq!(called(&trace), 0, "loaded is not attached");
    trace.attach(number).unwrap();
    let attached = Instant::now();
    while called(&trace) == 0 {
        assert!(attached.elapsed() < Duration::from_secs(5), "it is never called");
    }
    trace.remove(number);
    // A thread at work in it when it is detached may end it.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(called(&trace), 0, "it is called after it was detached");
}

#[test]
fn what_the_kernel_refuses_is_told_with_its_reason() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut trace = KernelTrace::open(&SETTINGS).unwrap();
    // `r0 = *(u64 *)(r10 + 0)`: beyond its stack.
    let error = trace.load("a bad one", &[(busy(), vec![0xa079, 0x0095])]).unwrap_err();
    assert!(matches!(error, TraceError::Load { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("a bad one") && said.contains("stack"), "{said}");
}

/// Run by the test below in a process of its own.
const CHILD: &str = "WEIGH_TRACE_CHILD";

#[test]
fn a_reader_that_is_killed_leaves_nothing_in_the_kernel() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        let mut trace = KernelTrace::open(&SETTINGS).unwrap();
        let state = trace.descriptors().state;
        let before = programs();
        let number = trace.load("a counter", &[(busy(), counter(state))]).unwrap();
        trace.attach(number).unwrap();
        let own = programs().into_iter().filter(|id| !before.contains(id));
        println!("\nprograms: {:?}", own.collect::<Vec<_>>());
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let name = "a_reader_that_is_killed_leaves_nothing_in_the_kernel";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.filter(|line| line.starts_with("programs: ")).take(1).collect::<String>();
    let digits = said.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    let own: Vec<u32> = digits.map(|word| word.parse().unwrap()).collect();
    let there = || programs().into_iter().filter(|id| own.contains(id)).count();
    assert!(!own.is_empty() && there() == own.len(), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    while there() > 0 {
        assert!(killed.elapsed() < Duration::from_secs(1), "its programs are still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    let links = LinkInfoIter::default().filter(|link| own.contains(&link.prog_id)).count();
    assert_eq!(links, 0);
}
