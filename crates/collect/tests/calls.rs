//! Calls by the kernel side, against what the program itself knows.
#![allow(clippy::unwrap_used)]

#[path = "common/traced.rs"]
mod traced;

use std::process::ExitStatus;

use traced::workload;
use weigh_collect::calls::{KernelCalls, Wanted, name};
use weigh_collect::spawn::{SignalMask, spawn};
use weigh_schema::call::{Call, Cell, Grouping};
use weigh_schema::subsystem::{Account, SUBSYSTEMS, Subsystem};

struct Followed {
    cells: Vec<Cell>,
    told: Vec<Call>,
    truth: String,
    status: ExitStatus,
    lost: u64,
}

impl Followed {
    #[track_caller]
    fn cell(&self, call: &str) -> &Cell {
        let mut found = self.cells.iter().filter(|cell| name(cell.number) == call);
        found.next().unwrap_or_else(|| panic!("no {call}"))
    }

    #[track_caller]
    fn truth(&self, key: &str) -> u64 {
        let line = self.truth.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {key} in {}", self.truth)).parse().unwrap()
    }
}

fn follow(subsystems: &[&str], grouping: Grouping) -> Followed {
    let subsystems = subsystems.iter().map(|n| Subsystem::named(n).unwrap()).collect();
    let wanted = Wanted { subsystems, grouping, every_call: true };
    let mut calls = KernelCalls::open(&wanted).unwrap();
    calls.tell_from(0);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (file, said) = (folder.path().join("file"), folder.path().join("said"));
    let mask = SignalMask::block(&[]).unwrap();
    let truth = format!("TRUTH_FILE={}", said.display());
    let command = ["/usr/bin/env".into(), truth.into(), workload("calls").into(), file.into()];
    let waiting = spawn(&command, &mask).unwrap();
    calls.arm(waiting.pidfd()).unwrap();
    let (pid, _) = waiting.go().unwrap();
    let status = wait_for(pid);
    let (cells, told, lost) = (calls.cells(), calls.told(), calls.tally().lost);
    let truth = std::fs::read_to_string(said).unwrap();
    Followed { cells, told, truth, status, lost }
}

fn wait_for(pid: rustix::process::Pid) -> ExitStatus {
    use std::os::unix::process::ExitStatusExt as _;
    let options = rustix::process::WaitOptions::empty();
    let (_, status) = rustix::process::waitpid(Some(pid), options).unwrap().unwrap();
    ExitStatus::from_raw(status.as_raw())
}

fn all() -> Vec<&'static str> {
    SUBSYSTEMS.iter().map(|s| s.name).collect()
}

#[test]
fn calls_bytes_and_errors_are_exact() {
    let followed = follow(&all(), Grouping::Call);
    assert!(followed.status.success());
    for call in ["pwrite64", "fsync", "clock_nanosleep", "getppid"] {
        assert_eq!(followed.cell(call).account.calls(), followed.truth(call), "{call}");
    }
    assert_eq!(followed.lost, 0);
    let told = |call: &'static str| followed.told.iter().filter(move |t| name(t.number) == call);
    assert_eq!(told("read").filter(|t| t.result == 4099).count(), 23);
    assert_eq!(told("read").filter(|t| t.result == -9).count(), 3);
    assert!(followed.cell("read").errors >= 3);
    let written: i64 = told("write").filter(|t| t.result == 1009).map(|t| t.result).sum();
    assert_eq!(written as u64, followed.truth("write_bytes"));
    let calls: u64 = followed.cells.iter().map(|c| c.account.calls()).sum();
    assert_eq!(calls, followed.told.len() as u64);
}

/// Nanoseconds in all parts, and waiting for a CPU: what a call's time is split into.
fn sum_of_parts(account: &Account) -> u64 {
    let parts = SUBSYSTEMS.iter().map(|s| account.part(s)[0] + account.part(s)[1]);
    parts.sum::<u64>() + run_queue(account)
}

fn run_queue(account: &Account) -> u64 {
    account.fields(Subsystem::named("sched").unwrap())[0]
}

fn waiting(account: &Account, subsystem: &str) -> u64 {
    account.part(Subsystem::named(subsystem).unwrap())[1]
}

#[test]
fn the_parts_of_each_call_add_up_to_its_time() {
    let followed = follow(&all(), Grouping::Call);
    assert!(followed.told.len() > 1100);
    for call in &followed.told {
        let sum = sum_of_parts(&call.account);
        let time = call.ended_ns - call.began_ns;
        assert_eq!(call.account.time_ns(), time);
        assert_eq!(sum, time, "{} {call:?}", name(call.number));
    }
    for call in ["fsync", "clock_nanosleep"] {
        let (seen, truth) =
            (followed.cell(call).account.time_ns(), followed.truth(&format!("{call}_ns")));
        assert!(seen <= truth, "{call}: {seen} of {truth}");
        assert!(seen as f64 >= truth as f64 * 0.98, "{call}: {seen} of {truth}");
    }
    let slept = &followed.cell("clock_nanosleep").account;
    assert!(waiting(slept, "sched") >= 7 * 19_000_000, "{slept:?}");
}
