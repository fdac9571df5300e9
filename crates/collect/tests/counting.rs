//! Counters of the CPU, of calls, held to what the program and the kernel know: software events stand in
//! for them, of which every machine has some. A clock and faults in one group count nothing, so they are
//! followed one after the other.
#![allow(clippy::unwrap_used)]

#[path = "common/command.rs"]
mod command;
#[path = "common/traced.rs"]
mod traced;

use std::process::Command;

use command::{Followed, all, field, follow, wanted};
use traced::workload;
use weigh_collect::calls::{CallsRequest, Counters, KernelCalls};
use weigh_schema::call::Cell;
use weigh_schema::subsystem::{CPU_COUNTERS, CpuCounter, PART, SUBSYSTEMS};

/// `PERF_TYPE_SOFTWARE`, and two of its events.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const PAGE_FAULTS: u64 = 2;
const MINOR_FAULTS: u64 = 5;

fn cycles() -> &'static CpuCounter {
    CpuCounter::named("cycles").unwrap()
}

fn instructions() -> &'static CpuCounter {
    CpuCounter::named("instructions").unwrap()
}

fn clock() -> Counters {
    Counters::default().instead(cycles(), SOFTWARE, CPU_CLOCK)
}

fn faults() -> Counters {
    let all = Counters::default().instead(cycles(), SOFTWARE, PAGE_FAULTS);
    all.instead(instructions(), SOFTWARE, MINOR_FAULTS)
}

fn costs(wanted: &CallsRequest) -> Followed {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("file").display().to_string();
    let followed = follow(wanted, &[&workload("costs"), &file], |_| {});
    assert!(followed.status.success());
    followed
}

/// On a CPU, by the parts of the kernel.
fn on_cpu(cell: &Cell) -> u64 {
    assert_eq!(PART[0].name, "time");
    SUBSYSTEMS.iter().map(|part| cell.account.part(part)[0]).sum()
}

fn counted(cell: &Cell, counter: &CpuCounter) -> u64 {
    cell.account
        .counter(counter)
        .unwrap_or_else(|| panic!("no {} of {}", counter.name, cell.number))
}

#[test]
fn events_of_a_call_are_counted_and_those_between_calls_are_not() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let followed = costs(&CallsRequest { counters: faults(), ..wanted(&all()) });
    // Not those 700 and more of the program between calls.
    assert_eq!(counted(followed.cell("preadv2"), cycles()), followed.truth("faults_kernel"));
    for cell in &followed.cells {
        let faults =
            field(&cell.account, "fault", "kernel") + field(&cell.account, "fault", "user");
        assert_eq!(counted(cell, cycles()), faults, "call {}", cell.number);
        assert!(counted(cell, instructions()) <= faults, "call {}", cell.number);
        assert_eq!(cell.account.counted_ratio(), Some(1.0), "call {}", cell.number);
    }
    // None of them reads from a device.
    assert_eq!(counted(followed.cell("preadv2"), instructions()), followed.truth("faults_kernel"));
}

/// The parts' numbers of that name, added up.
fn over_parts(cell: &Cell, key: &str) -> u64 {
    let parts = cell.by_part.as_ref().unwrap().numbers(&cell.account);
    parts.values().filter_map(|numbers| numbers.get(key)).map(|n| n.as_f64() as u64).sum()
}

#[test]
fn what_parts_have_adds_up_to_what_the_call_has() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let wanted = CallsRequest { counters: faults(), by_part: true, ..wanted(&all()) };
    let followed = costs(&wanted);
    let mut sums = [0; 2];
    for cell in &followed.cells {
        for (key, counter) in [("cycles_total", cycles()), ("instructions_total", instructions())] {
            assert_eq!(over_parts(cell, key), counted(cell, counter), "{key} of {}", cell.number);
        }
        for (key, slot) in [
            ("allocations_total", "allocations"),
            ("allocated_bytes_total", "allocated_bytes"),
            ("pages_total", "pages"),
        ] {
            let all = field(&cell.account, "memory", slot);
            assert_eq!(over_parts(cell, key), all, "{key} of {}", cell.number);
        }
        sums[0] += over_parts(cell, "allocations_total");
        sums[1] += over_parts(cell, "cycles_total");
    }
    assert!(sums.iter().all(|sum| *sum > 0), "{sums:?}");
    assert_eq!(
        over_parts(followed.cell("preadv2"), "cycles_total"),
        followed.truth("faults_kernel")
    );
    // Nobody asked.
    let followed = costs(&CallsRequest { by_part: false, ..wanted });
    assert!(followed.cells.iter().all(|cell| cell.by_part.is_none()));
}

#[test]
fn what_a_call_s_thread_does_on_a_cpu_is_counted_and_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Where others have the CPUs, a switch to them may be the thread's in one account and not in the other.
    let tries = std::iter::repeat_with(why_not_the_thread_s_own_clock).take(5);
    let failed: Vec<String> = tries.map_while(|why_not| why_not).collect();
    assert!(failed.len() < 5, "{failed:#?}");
}

/// What disagrees with the thread's own clock, if something does.
fn why_not_the_thread_s_own_clock() -> Option<String> {
    let followed = costs(&CallsRequest { counters: clock(), ..wanted(&all()) });
    assert!(followed.cells.iter().all(|cell| cell.account.counter(instructions()).is_none()));
    let near = |what: &str, found: u64, truth: u64, slack: u64| {
        (found.abs_diff(truth) > slack).then(|| format!("{what}: {found}, and not {truth}"))
    };
    // The whole time on a CPU, by the thread's own clock.
    let zeros = followed.truth("zeros_cpu_ns");
    let read = near("preadv", counted(followed.cell("preadv"), cycles()), zeros, zeros / 50);
    // What the thread computes between calls is not in them.
    let seeks = counted(followed.cell("lseek"), cycles());
    let computed = near("lseek", seeks, 0, followed.truth("computed_ns") / 50);
    // Nor what goes on while it waits: that is what its parts say, but for the reading.
    let sleeps = followed.cell("clock_nanosleep");
    let slept = counted(sleeps, cycles());
    let off = near("clock_nanosleep", slept, 0, followed.truth("sleep_off_ns") / 20);
    let parts = near("its parts", slept, on_cpu(sleeps), on_cpu(sleeps) / 4);
    read.or(computed).or(off).or(parts)
}

#[test]
fn single_calls_have_their_counts_which_add_up_to_the_table_s() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let followed = costs(&CallsRequest { counters: faults(), ..wanted(&["sched", "irq"]) });
    for cell in &followed.cells {
        let calls: Vec<_> = followed.told.iter().filter(|c| c.number == cell.number).collect();
        assert_eq!(calls.len() as u64, cell.account.calls());
        for counter in CPU_COUNTERS {
            let sum: u64 = calls.iter().filter_map(|call| call.account.counter(counter)).sum();
            assert_eq!(sum, counted(cell, counter), "{} of call {}", counter.name, cell.number);
        }
    }
}

#[test]
fn nothing_is_counted_where_nobody_asks_and_what_can_not_be_had_says_why() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let missing = clock().instead(instructions(), SOFTWARE, 9999);
    let calls =
        KernelCalls::open(&CallsRequest { counters: missing.clone(), ..wanted(&[]) }).unwrap();
    let states: Vec<_> = calls.counters().iter().map(|s| s.unavailable.is_some()).collect();
    assert_eq!(states, [false, true]);
    drop(calls);
    let followed = costs(&CallsRequest { counters: missing, ..wanted(&[]) });
    for cell in &followed.cells {
        assert_eq!(cell.account.counter(instructions()), None);
        assert!(counted(cell, cycles()) > 0);
    }
    let followed = costs(&wanted(&[]));
    assert!(followed.cells.iter().all(|cell| cell.account.counters().is_empty()));
}

/// The program's own CPU time for so many calls.
const CALLS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long long cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
int main(void) {
    int file = open(".", O_TMPFILE | O_RDWR, 0600);
    long long began = cpu(), took[2];
    for (int i = 0; i < 200000; i++) syscall(SYS_getppid);
    took[0] = cpu() - began;
    pwrite(file, "x", 1, 0);
    began = cpu();
    for (int i = 0; i < 200000; i++) pwrite(file, "x", 1, 0);
    took[1] = cpu() - began;
    FILE *to = fopen(getenv("TRUTH_FILE"), "w");
    return fprintf(to, "getppid=%lld\npwrite=%lld\n", took[0], took[1]) < 0 || fclose(to);
}
"#;

/// Prints figures, by turns; holds no bounds, for those depend on the machine: `cargo test -p weigh-collect
/// --test counting -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn what_counting_costs_each_call() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (source, program) = (folder.path().join("calls.c"), folder.path().join("calls"));
    std::fs::write(&source, CALLS).unwrap();
    let compiled =
        Command::new("cc").args(["-O1", "-D_GNU_SOURCE", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success());
    let run = format!("cd {} && exec {}", folder.path().display(), program.display());
    let parts = ["memory", "fs", "journal", "pagecache"];
    let none = Counters::default;
    let ways = [
        ("none", &["socket"][..], none(), false),
        ("one", &["socket"], clock(), false),
        ("two", &["socket"], faults(), false),
        ("parts", &parts, none(), false),
        ("parts, allocations by part", &parts, none(), true),
        ("parts, one", &parts, clock(), false),
        ("parts, one by part", &parts, clock(), true),
        ("parts, two by part", &parts, faults(), true),
    ];
    let mut took = [(); 8].map(|()| [Vec::new(), Vec::new()]);
    for _ in 0..9 {
        for ((_, parts, counters, by_part), took) in ways.iter().zip(&mut took) {
            let (counters, by_part) = (counters.clone(), *by_part);
            let wanted = CallsRequest { counters, by_part, ..wanted(parts) };
            let mut calls = KernelCalls::open(&wanted).unwrap();
            let followed = command::run(&mut calls, &["sh", "-c", &run], |_| {});
            for (call, took) in ["getppid", "pwrite"].iter().zip(took) {
                took.push(followed.truth(call) / 200_000);
            }
        }
    }
    for ((name, ..), took) in ways.iter().zip(&mut took) {
        took.iter_mut().for_each(|took| took.sort_unstable());
        let medians = took.each_ref().map(|took| took[took.len() / 2]);
        println!("{name}: getppid and pwrite {medians:?} ns a call, {took:?}");
    }
}
