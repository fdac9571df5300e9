//! What a run of `true` costs beside its command, counted in system calls: the same whatever the machine does meanwhile.

use std::process::{Command, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::support::{processes, weigh_binary};

/// Calls that read and that write, of weigh and of what it has waited for, by the kernel's own count.
struct Calls {
    reads: usize,
    writes: usize,
}

fn run(mechanism: &str) -> Calls {
    let folder = tempfile::tempdir().expect("a folder");
    let mut weigh = Command::new(weigh_binary())
        .args(["run", "-q", "--mechanism", mechanism, "-o", "recording", "--", "true"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .spawn()
        .expect("weigh starts");
    let id = WaitId::Pid(Pid::from_child(&weigh));
    waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("it ends");
    let sums = std::fs::read_to_string(format!("/proc/{}/io", weigh.id())).expect("a zombie's");
    assert!(weigh.wait().expect("its status").success());
    let number = |name: &str| {
        let text = sums.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
        text.trim().parse().expect("a number")
    };
    Calls { reads: number("syscr:"), writes: number("syscw:") }
}

/// The least of a few: a busy machine lets one run look more often than the job needs.
fn least(mechanism: &str) -> Calls {
    let runs: Vec<Calls> = (0..5).map(|_| run(mechanism)).collect();
    let least = |of: fn(&Calls) -> usize| runs.iter().map(of).min().unwrap_or_default();
    Calls { reads: least(|calls| calls.reads), writes: least(|calls| calls.writes) }
}

/// They were 456 reads of `ptrace` when each column of each table was read by itself.
#[test]
fn a_short_run_reads_and_writes_little() {
    needs_root!();
    for mechanism in ["ptrace", "preload", "poll"] {
        let calls = least(mechanism);
        // A look at all processes reads once of each. Two looks are needed, while the command runs and when it has
        // ended; there were up to five, with two calls each.
        let looks = if mechanism == "ptrace" { 0 } else { 2 };
        let most = 250 + looks * (processes::all().len() + 50);
        assert!(calls.reads <= most, "{mechanism}: {} reads, at most {most}", calls.reads);
        assert!(calls.writes <= 90, "{mechanism}: {} writes", calls.writes);
    }
}
