//! Runs a command whose calls the kernel side follows, to its end.
#![allow(dead_code)]

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use weigh_collect::calls::{CallsRequest, Counters, KernelCalls, name};
use weigh_collect::spawn::{SignalMask, spawn};
use weigh_schema::call::{Call, Cell, Grouping, Sharing};
use weigh_schema::subsystem::{Account, LATER, SUBSYSTEMS, Subsystem};

/// What came of it.
pub struct Followed {
    pub cells: Vec<Cell>,
    pub told: Vec<Call>,
    pub truth: String,
    pub status: ExitStatus,
    pub lost: u64,
}

impl Followed {
    #[track_caller]
    pub fn cell(&self, call: &str) -> &Cell {
        let mut found = self.cells.iter().filter(|cell| name(cell.number) == call);
        found.next().unwrap_or_else(|| panic!("no {call}"))
    }

    #[track_caller]
    pub fn truth(&self, key: &str) -> u64 {
        let line = self.truth.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {key} in {}", self.truth)).parse().unwrap()
    }

    /// A number of what came later, of the calls of one process, or thread.
    pub fn later_of(&self, thread: u64, call: &str, slot: &str) -> u64 {
        let of = |cell: &&Cell| cell.of[1] == thread && name(cell.number) == call;
        self.cells.iter().filter(of).map(|cell| later(&cell.account, slot)).sum()
    }

    /// The same of all calls.
    pub fn later(&self, slot: &str) -> u64 {
        self.cells.iter().map(|cell| later(&cell.account, slot)).sum()
    }
}

/// A number of what came later, by its name in the shared structure.
pub fn later(account: &Account, slot: &str) -> u64 {
    account.later()[LATER.iter().position(|field| field.slot() == slot).unwrap()]
}

/// A number of a subsystem, by its name in the shared structure.
pub fn field(account: &Account, subsystem: &str, slot: &str) -> u64 {
    let subsystem = Subsystem::named(subsystem).unwrap();
    account.fields(subsystem)[subsystem.fields.iter().position(|f| f.slot() == slot).unwrap()]
}

pub fn all() -> Vec<&'static str> {
    SUBSYSTEMS.iter().map(|s| s.name).collect()
}

/// What is asked for: these parts of the kernel, and a row for each call.
pub fn wanted(subsystems: &[&str]) -> CallsRequest {
    let subsystems = subsystems.iter().map(|n| Subsystem::named(n).unwrap()).collect();
    CallsRequest {
        subsystems,
        grouping: Grouping::Call,
        sharing: Sharing::Bytes,
        every_call: true,
        counters: Counters::default(),
        by_part: false,
    }
}

/// Follows a command, and `afterwards` until what it left behind has come to an end.
pub fn follow(
    wanted: &CallsRequest,
    command: &[&str],
    afterwards: impl FnOnce(&KernelCalls),
) -> Followed {
    let mut calls = KernelCalls::open(wanted).unwrap();
    calls.tell_from(0);
    run(&mut calls, command, afterwards)
}

/// The same by what is open already.
pub fn run(
    calls: &mut KernelCalls,
    command: &[&str],
    afterwards: impl FnOnce(&KernelCalls),
) -> Followed {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let said = folder.path().join("said");
    let mask = SignalMask::block(&[]).unwrap();
    let truth = format!("TRUTH_FILE={}", said.display());
    let command: Vec<_> = ["/usr/bin/env", &truth].iter().chain(command).map(Into::into).collect();
    let waiting = spawn(&command, &mask).unwrap();
    calls.arm(waiting.pidfd()).unwrap();
    let (pid, _) = waiting.go().unwrap();
    let mut told = Vec::new();
    let status = wait_for(pid, || {
        told.extend(calls.told());
        calls.adapt().unwrap();
    });
    afterwards(calls);
    told.extend(calls.told());
    let (cells, lost) = (calls.cells().expect("the table"), calls.tally().lost);
    let truth = read(&said);
    Followed { cells, told, truth, status, lost }
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Takes in meanwhile what is told: the faster the machine, the more calls a program makes in a time.
fn wait_for(pid: rustix::process::Pid, mut take_in: impl FnMut()) -> ExitStatus {
    let options = rustix::process::WaitOptions::NOHANG;
    loop {
        if let Some((_, status)) = rustix::process::waitpid(Some(pid), options).unwrap() {
            return ExitStatus::from_raw(status.as_raw());
        }
        take_in();
        // Now and then: what a thread does on a CPU is measured, and this is on one, too.
        std::thread::sleep(Duration::from_millis(200));
    }
}

const TRIES: usize = 4;

/// Follows until everything has come to an end that was left behind. Some kernels run no program while a
/// certain process, such as the first of a machine, has the CPU: what ends in an interrupt meanwhile pends
/// for ever. Then it is tried again; what has settled must be exact.
pub fn until_settled(mut follow: impl FnMut(&mut bool) -> Followed) -> Followed {
    for _ in 0..TRIES {
        let mut settled = false;
        let followed = follow(&mut settled);
        if settled {
            return followed;
        }
    }
    panic!("after each of {TRIES} tries things still pend");
}

/// Has the kernel write everything, and waits until nothing pends; whether that is so.
pub fn settle(calls: &KernelCalls) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        rustix::fs::sync();
        let cells = calls.cells().expect("the table");
        let pending = |cell: &Cell| (name(cell.number), later(&cell.account, "pending"));
        let left: Vec<_> = cells.iter().map(pending).filter(|(_, pending)| *pending > 0).collect();
        if left.is_empty() {
            return true;
        }
        if Instant::now() >= deadline {
            eprintln!("things still pend: {left:?}, {:?}", calls.tally());
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
