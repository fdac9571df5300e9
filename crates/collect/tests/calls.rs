//! Calls by the kernel side, against what the program itself knows.
#![allow(clippy::unwrap_used)]

#[path = "common/command.rs"]
mod command;
#[path = "common/traced.rs"]
mod traced;

use command::{Followed, all, field, wanted};
use traced::workload;
use weigh_collect::calls::name;
use weigh_schema::subsystem::{Account, SUBSYSTEMS, Subsystem};

fn follow(subsystems: &[&str]) -> Followed {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("file");
    let command = [&*workload("calls"), file.to_str().unwrap()];
    command::follow(&wanted(subsystems), &command, |_| ())
}

#[test]
fn calls_bytes_and_errors_are_exact() {
    let followed = follow(&all());
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
    parts.sum::<u64>() + field(account, "sched", "run_queue_ns")
}

fn waiting(account: &Account, subsystem: &str) -> u64 {
    account.part(Subsystem::named(subsystem).unwrap())[1]
}

#[test]
fn the_parts_of_each_call_add_up_to_its_time() {
    let followed = follow(&all());
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
        // A thread that has waited is often off the CPU again between the call's end and its clock.
        let most = truth / 50 + 1_000_000;
        assert!(truth - seen <= most, "{call}: {seen} of {truth}");
    }
    let slept = &followed.cell("clock_nanosleep").account;
    assert!(waiting(slept, "sched") >= 7 * 19_000_000, "{slept:?}");
}
