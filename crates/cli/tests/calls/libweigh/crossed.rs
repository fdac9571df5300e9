//! Who may have whom accounted, and read whose accounts: eight kinds of program, by every request that names a process
//! or a thread, against a table and against what the kernel's own rule says.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::XattrFlags;
use weigh_agent::{Peer, Refusal, may_follow};
use weigh_schema::library::Reason;

use crate::support::library::{Agent, Asked, NOBODY, folder, must, program};

/// A program that somebody has executed after it connected.
struct Kind {
    name: &'static str,
    /// What it does, once it runs.
    way: &'static str,
    /// Owner, group and mode of its file, and whether it has a capability.
    file: (u32, u32, u32, bool),
    /// Whether its user may look at it.
    may: bool,
}

const PLAIN: (u32, u32, u32, bool) = (0, 0, 0o755, false);

const KINDS: [Kind; 8] = [
    Kind { name: "plain", way: "stay", file: PLAIN, may: true },
    Kind { name: "other user", way: "become", file: (0, 0, 0o4755, false), may: false },
    Kind { name: "set-user-ID", way: "open", file: (0, 0, 0o4755, false), may: false },
    Kind { name: "set-group-ID", way: "open", file: (0, 61_112, 0o2755, false), may: false },
    Kind { name: "file capabilities", way: "open", file: (0, 0, 0o755, true), may: false },
    Kind { name: "not dumpable", way: "close", file: PLAIN, may: false },
    Kind { name: "other user namespace", way: "apart", file: PLAIN, may: true },
    Kind { name: "ended, and its PID taken again", way: "end", file: PLAIN, may: true },
];

/// `cap_net_raw+ep`, as the kernel keeps it: see `<linux/capability.h>`.
const CAPABILITY: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];

fn made(place: &Path, kind: &Kind) -> PathBuf {
    let (owner, group, mode, is_capable) = kind.file;
    let copy = place.join(kind.name.replace([' ', ','], "-"));
    std::fs::copy(program("crossed"), &copy).expect("a copy");
    chown(&copy, Some(owner), Some(group)).expect("given");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(mode)).expect("a mode");
    if is_capable {
        let value: Vec<u8> = CAPABILITY.iter().flat_map(|word| word.to_le_bytes()).collect();
        let set = rustix::fs::setxattr(&copy, "security.capability", &value, XattrFlags::empty());
        set.expect("a capability");
    }
    copy
}

fn reasons(line: &str) -> Vec<u64> {
    line.split(' ').map(|number| number.parse().expect("a number")).collect()
}

fn is_measured(reason: u64) -> bool {
    // Where the machine has no counters.
    [Reason::Measured as u64, Reason::NoCounter as u64].contains(&reason)
}

/// What root is answered that asks for its accounts.
fn asked_by_root(agent: &Agent, pid: u32) -> u64 {
    let output = must(agent.command("crossed").args(["peer", &pid.to_string()]));
    reasons(String::from_utf8_lossy(&output.stdout).trim())[0]
}

/// The status of a user's weigh that wants a process followed for a moment.
fn asked_by_weigh(agent: &Agent, verb: &[&str], pid: u32) -> Option<i32> {
    let folder = agent.folder.path();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(folder.join("weigh"));
    command.args(verb).args(["--pid", &pid.to_string(), "--for", "100ms"]).current_dir(folder);
    command.env("WEIGH_SOCKET", folder.join("socket")).env("HOME", folder);
    let output = command.stdin(std::process::Stdio::null()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{verb:?} {pid}: {} {said}", output.status);
    output.status.code()
}

fn try_out(agent: &Agent, kind: &Kind, root: u32) {
    let name = kind.name;
    let file = made(agent.folder.path(), kind);
    let mut command = agent.as_nobody("crossed");
    let mut left =
        Asked::start(command.arg("leave").arg(&file).args([kind.way, &root.to_string()]));
    let pid: u32 = left.answer().parse().expect("a PID");
    let is_taken = kind.way == "end";
    let taker = is_taken.then(|| {
        left.process.wait().expect("it ends");
        let mut taker = Asked::start(agent.command("crossed").args(["take", &pid.to_string()]));
        assert_eq!(taker.answer(), "taken");
        taker
    });
    let answers = reasons(&left.say("go"));
    let [join, count, of_root, peer, kernel] = answers[..] else { panic!("{name}: {answers:?}") };
    let refused = if is_taken { Reason::Gone } else { Reason::NotPermitted } as u64;
    assert_eq!(kernel == 1, kind.may, "{name}: the table is not the kernel's");
    if kind.may && !is_taken {
        assert!(is_measured(join) && is_measured(count), "{name}: {answers:?}");
        assert_eq!(peer, Reason::Measured as u64, "{name}");
    } else {
        assert_eq!((join, count), (refused, refused), "{name}: {answers:?}");
        let refused = if is_taken { Reason::NoProcess } else { Reason::NotPermitted };
        assert_eq!(peer, refused as u64, "{name}");
    }
    // Whatever the process has become, its connection is a user's who has no rights.
    assert_eq!(of_root, refused, "{name}: root's accounts");
    let by_root = if is_taken { Reason::NoProcess } else { Reason::Measured };
    assert_eq!(asked_by_root(agent, pid), by_root as u64, "{name}: root");
    // The same for who asks to have it followed: by the user's own IDs, and never in another user namespace.
    let nobody: u32 = NOBODY.parse().expect("a number");
    let followed = may_follow(Peer { pid: 1, uid: nobody, gid: nobody }, pid);
    match kind.way {
        "apart" => assert_eq!(followed, Err(Refusal::OtherUsers), "{name}"),
        _ => assert_eq!(followed.is_ok(), kind.may, "{name}: {followed:?}"),
    }
    // And so the agent itself answers.
    for verb in [&["io", "--mechanism", "bpf"][..], &["trace", "-e", "sched:sched_process_exit"]] {
        let status = asked_by_weigh(agent, verb, pid);
        let expected = if followed.is_ok() { 0 } else { 125 };
        assert_eq!(status, Some(expected), "{name}: {verb:?}");
    }
    left.say_last("end");
    if let Some(mut taker) = taker {
        taker.say_last("end");
    }
}

#[test]
fn users_are_not_crossed_by_what_a_program_becomes() {
    needs_root!();
    let agent = Agent::with_two_capabilities(folder(), &[]);
    let mut root = Asked::start(agent.command("peer").arg("serve"));
    assert_eq!(root.answer(), "ready");
    for kind in &KINDS {
        try_out(&agent, kind, root.process.id());
    }
}

/// Its threads are its own, however it has closed itself, as long as it is what it was when it connected.
#[test]
fn a_program_that_has_closed_itself_is_measured_for_itself() {
    needs_root!();
    let agent = Agent::with_two_capabilities(folder(), &[]);
    let output = must(agent.as_nobody("crossed").args(["closed", "-"]));
    let answer = reasons(String::from_utf8_lossy(&output.stdout).trim())[0];
    assert_eq!(answer, Reason::Measured as u64);
}

/// Of root, which makes containers for others, and of users, who make them for themselves.
#[test]
fn a_connection_in_a_user_namespace_reads_nobody_s_accounts() {
    needs_root!();
    let agent = Agent::with_two_capabilities(folder(), &[]);
    let mut root = Asked::start(agent.command("peer").arg("serve"));
    assert_eq!(root.answer(), "ready");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "unshare", "--user"]);
    command.arg("--map-root-user").arg(program("crossed"));
    command.args(["peer", &root.process.id().to_string()]);
    let output = must(command.env("WEIGH_SOCKET", agent.folder.path().join("socket")));
    let answer = reasons(String::from_utf8_lossy(&output.stdout).trim())[0];
    assert_eq!(answer, Reason::NotPermitted as u64);
}
