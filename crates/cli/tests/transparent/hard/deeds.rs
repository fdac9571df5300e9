//! What single jobs do to themselves: programs of `tests/workloads`, bare and measured.

use std::process::{Command, Stdio};

use super::judge::judge;
use super::{Case, How, Outcome, followed};
use crate::support::run::{Scratch, Weigh, set_surroundings};
use crate::support::{is_root, workload};

/// The rights that a job needs.
const ROOT: bool = true;
const ANYBODY: bool = false;

/// Name, what happens, the workload's arguments, who can do it.
const DEEDS: &[(&str, &str, &str, bool)] = &[
    (
        "closes all descriptors",
        "0 to 2 and whatever else is open; forks, closes again",
        "hide descriptors",
        ANYBODY,
    ),
    (
        "clears the environment",
        "executes itself without `LD_PRELOAD` or anything else",
        "hide environment",
        ANYBODY,
    ),
    (
        "becomes another user",
        "forks; the child becomes nobody, forks, and executes itself",
        "hide user",
        ROOT,
    ),
    ("an empty root directory", "`chroot` into it; forks", "hide chroot", ROOT),
    (
        "unmounts `/proc` and `/sys`",
        "in its own mount namespace; executes itself",
        "hide unmount",
        ROOT,
    ),
    (
        "another root with all mounts",
        "and with other `/tmp`, `/run`, `/dev/shm`; executes itself there",
        "hide root",
        ROOT,
    ),
    (
        "PID namespace",
        "forks into one, with its own `/proc`, and again; executes itself",
        "hide pidns",
        ROOT,
    ),
    (
        "PID namespace in another",
        "with the `/proc` of the one around it; twenty short children before",
        "hide pidns2",
        ROOT,
    ),
    (
        "user namespace",
        "forks into a user, PID and mount namespace, and again; executes itself",
        "hide userns",
        ANYBODY,
    ),
    (
        "clocks that jump forward",
        "time namespace: monotonic and boot clock 1,000 days ahead; one is killed there, one executes itself",
        "hide forward",
        ROOT,
    ),
    ("clocks that jump back", "the same, back to when the machine was started", "hide back", ROOT),
    (
        "own seccomp filter",
        "kills at every call that the program itself does not make; forks under it",
        "hide filter",
        ANYBODY,
    ),
    ("strict seccomp", "nothing but read, write and exit", "hide strict", ANYBODY),
    (
        "becomes a subreaper",
        "adopts an orphaned grandchild and waits for it",
        "turn subreaper",
        ANYBODY,
    ),
    (
        "a child stops itself",
        "its parent is told, lets it go on, is told again; twice",
        "turn stop-child",
        ANYBODY,
    ),
    ("stops itself", "its child lets it go on", "turn stop-self", ANYBODY),
    (
        "exec from a thread",
        "a second thread of a child works and executes the program",
        "turn thread-exec",
        ANYBODY,
    ),
    (
        "vfork from a thread",
        "three children of a second thread execute the program",
        "turn thread-vfork",
        ANYBODY,
    ),
    ("PID reuse", "seven children, one after the other, have the same PID", "turn pid-reuse", ROOT),
    (
        "a static program",
        "a second thread of a child works and executes the program",
        "turn-static thread-exec",
        ANYBODY,
    ),
];

/// The cases.
pub fn cases() -> Vec<Case> {
    DEEDS
        .iter()
        .map(|(name, does, line, needs_root)| Case {
            name,
            does: does.to_string(),
            needs_root: *needs_root,
            run: Box::new(move |case, how| deed(case, how, line)),
        })
        .collect()
}

/// How a run ended and what it said.
#[derive(Debug, PartialEq)]
pub struct Seen {
    /// Its status, as text.
    pub status: String,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A workload without weigh, by that user.
pub fn alone(line: &str, user: Option<u32>) -> Seen {
    use std::os::unix::process::CommandExt as _;
    let scratch = Scratch::new();
    let mut words = line.split_whitespace();
    let mut command = Command::new(workload(words.next().expect("a workload")));
    command.args(words).stdin(Stdio::null());
    set_surroundings(&mut command, &scratch);
    if let Some(uid) = user.filter(|_| is_root()) {
        command.uid(uid).gid(uid);
    }
    let output = command.output().expect("it starts");
    Seen {
        status: output.status.to_string(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A workload without weigh and with it: the same end, the same words, the truth.
fn deed(case: &Case, how: &How, line: &str) -> Result<Outcome, String> {
    let user = case.user(how);
    let alone = alone(line, user);
    if alone.status != "exit status: 0" {
        return Err(format!("it does not work here without weigh: {alone:?}"));
    }
    let measured = followed(Weigh::workload(line), how, user).end();
    let seen = Seen {
        status: measured.status.to_string(),
        stdout: String::from_utf8_lossy(&measured.stdout).into_owned(),
        stderr: measured.stderr.clone(),
    };
    if seen != alone {
        return Err(format!("harmed: {seen:?}, alone: {alone:?}\n{}", measured.everything()));
    }
    judge(&measured).map_err(|error| format!("{error}\n{}", measured.everything()))
}
