//! Counters of the CPU, for programs with libweigh: software events stand in for them, of which every machine
//! has some. The program of `libweigh/tests` holds them to its own clock and the kernel's count of its faults.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weigh_agent::{Server, Settings};
use weigh_collect::calls::{CallsRequest, Counters, Functions, KernelCalls, Telling};
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::subsystem::{CpuCounter, SUBSYSTEMS};

/// `PERF_TYPE_SOFTWARE`, and two of its events.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const TASK_CLOCK: u64 = 1;
const PAGE_FAULTS: u64 = 2;
const MINOR_FAULTS: u64 = 5;

fn must(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// The program of `libweigh/tests` that counts what others ask for.
fn program() -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libweigh");
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/libweigh-programs.sh");
    must(Command::new(build).arg(&built));
    built.join("installed/counting")
}

fn serve(counters: Counters, way: &str) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let by_part = way == "parts";
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let wanted = CallsRequest {
        subsystems: SUBSYSTEMS.iter().filter(|p| by_part || p.name == "sched").collect(),
        grouping: Grouping::Call,
        sharing: Sharing::Bytes,
        every_call: way == "next",
        counters,
        by_part,
    };
    let mut calls = KernelCalls::load(&wanted, Telling::PLAIN, &Functions::default()).unwrap();
    let socket = folder.path().join("socket");
    let mut server = Server::new(&socket, Settings::default()).unwrap();
    let mut command = Command::new(program());
    let mut child =
        command.arg(way).current_dir(folder.path()).env("WEIGH_SOCKET", &socket).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let status = loop {
        assert!(Instant::now() < until, "it hangs");
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let descriptor = server.descriptor();
        let mut ready = [PollFd::new(&descriptor, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 })).unwrap();
        server.handle(&mut calls).unwrap();
    };
    assert!(status.success(), "{status}");
}

#[test]
fn an_interval_has_what_its_thread_did_on_a_cpu() {
    let counter = |name| CpuCounter::named(name).unwrap();
    let with_cycles = |config| Counters::default().instead(counter("cycles"), SOFTWARE, config);
    serve(with_cycles(TASK_CLOCK), "clock");
    // A clock and faults in one group would count nothing.
    let faults = with_cycles(PAGE_FAULTS);
    serve(faults.instead(counter("instructions"), SOFTWARE, MINOR_FAULTS), "faults");
}

#[test]
fn the_next_call_has_what_its_thread_did_in_it_where_calls_are_followed() {
    let counter = |name| CpuCounter::named(name).unwrap();
    let faults = Counters::default().instead(counter("cycles"), SOFTWARE, PAGE_FAULTS);
    serve(faults.instead(counter("instructions"), SOFTWARE, MINOR_FAULTS), "next");
}

#[test]
fn each_part_of_an_interval_has_what_its_thread_did_there() {
    let counter = |name| CpuCounter::named(name).unwrap();
    serve(Counters::default().instead(counter("cycles"), SOFTWARE, CPU_CLOCK), "parts");
}

#[test]
fn counters_that_there_are_not_are_told_as_not_measured() {
    serve(Counters::default(), "missing");
}
