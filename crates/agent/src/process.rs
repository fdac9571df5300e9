//! What `/proc` says of the processes that ask, and of their threads.
//!
//! A process in a PID namespace of its own knows its threads by other numbers than the server: they
//! are found among its threads by the last number of `NSpid`.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use weigh_schema::library::Reason;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process that connected, by the number it has here.
    pub pid: u32,
    /// Its user when it connected.
    pub uid: u32,
}

/// More threads of a process in another namespace are not looked through.
const MOST_THREADS: usize = 8192;

const CAP_SYS_PTRACE: u32 = 19;
const CAP_PERFMON: u32 = 38;

/// The number that a peer's thread has here. Refused if it is not the peer's.
pub fn thread(peer: Peer, tid: u32) -> Result<u32, Reason> {
    let found = if is_of_this_namespace(peer.pid) {
        Status::read(peer.pid, tid).map(|status| (tid, status))
    } else {
        among_threads(peer.pid, tid)
    };
    let (tid, status) = found.ok_or(Reason::NoThread)?;
    if status.number("Tgid") != Some(u64::from(peer.pid)) {
        return Err(Reason::NoThread);
    }
    // A program that has become another user's by its exec is not to be followed for who it was.
    if peer.uid != 0 && status.effective_user() != Some(peer.uid) {
        return Err(Reason::NotPermitted);
    }
    Ok(tid)
}

/// Why a process is not followed for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The descriptor is of something else, or of a process that can not be seen from here.
    #[error("it is no process that the agent can see in /proc")]
    NoProcess,
    /// It is not his, or not his alone.
    #[error("the process is not the user's own")]
    NotOwn,
    /// It is no child of his weigh's.
    #[error("the process is no child of this weigh")]
    NoChild,
    /// It is more than a copy of his weigh's that waits.
    #[error("the process has executed a program already")]
    HasExecuted,
    /// Whoever has them starts programs that have rights: he would be told nothing of them.
    #[error("this weigh has capabilities of its own")]
    HasRights,
    /// What ptrace(2) would not let him look at.
    #[error("the process has rights of its own, or does not let itself be looked at")]
    Hidden,
    /// Rights in a user namespace are none outside.
    #[error("the process is in a user namespace of its own")]
    OtherUsers,
}

/// Whether the agent can follow what a peer starts.
pub fn may_ask(peer: Peer) -> Result<(), Refusal> {
    owned(peer.pid, peer.uid).map(drop)
}

/// Whether a process is a user's by all its IDs, among users as the agent knows them.
pub fn may_follow(pid: u32, user: u32) -> Result<(), Refusal> {
    owned(pid, user).map(drop)
}

fn owned(pid: u32, user: u32) -> Result<Status, Refusal> {
    let status = Status::read(pid, pid).ok_or(Refusal::NoProcess)?;
    let users: Vec<_> = status.field("Uid").map(str::parse).collect();
    if users.is_empty() || users.iter().any(|found| *found != Ok(user)) {
        return Err(Refusal::NotOwn);
    }
    if !has_our_users(pid) {
        return Err(Refusal::OtherUsers);
    }
    Ok(status)
}

/// The process that a descriptor stands for, if it is one that a peer may have followed: a child of his
/// own that has executed nothing yet.
pub fn command_of(peer: Peer, pidfd: BorrowedFd<'_>) -> Result<u32, Refusal> {
    let pid = pid_of(pidfd)?;
    let status = owned(pid, peer.uid)?;
    if status.number("PPid") != Some(peer.pid.into()) || status.number("Tgid") != Some(pid.into()) {
        return Err(Refusal::NoChild);
    }
    match has_executed(pid) {
        Some(false) => Ok(pid),
        Some(true) => Err(Refusal::HasExecuted),
        None => Err(Refusal::NoProcess),
    }
}

/// Whether a peer has no capabilities: programs that have any are not told of.
pub fn has_no_rights(peer: Peer) -> Result<(), Refusal> {
    let status = Status::read(peer.pid, peer.pid).ok_or(Refusal::NoProcess)?;
    match status.capabilities("CapPrm") {
        Some(0) => Ok(()),
        _ => Err(Refusal::HasRights),
    }
}

/// The process that a descriptor stands for, which runs, if it is one that a peer could look at himself: his by
/// all IDs, without capabilities, and one that may be looked at, as ptrace(2) has it.
pub fn running_of(peer: Peer, pidfd: BorrowedFd<'_>) -> Result<u32, Refusal> {
    let pid = pid_of(pidfd)?;
    let status = owned(pid, peer.uid)?;
    let own = Status::read(peer.pid, peer.pid).ok_or(Refusal::NoProcess)?;
    if status.number("Tgid") != Some(pid.into()) {
        return Err(Refusal::NoProcess);
    }
    let group = own.field("Gid").nth(1);
    let same_groups =
        status.field("Gid").count() == 4 && status.field("Gid").all(|g| Some(g) == group);
    if !same_groups || status.capabilities("CapPrm") != Some(0) || !is_open(pid, peer.uid) {
        return Err(Refusal::Hidden);
    }
    Ok(pid)
}

/// Whether a process is dumpable: then what `/proc` has of it belongs to its user.
fn is_open(pid: u32, user: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(format!("/proc/{pid}/io")).is_ok_and(|about| about.uid() == user)
}

/// The process that a descriptor stands for, as long as it has not been waited for.
fn pid_of(pidfd: BorrowedFd<'_>) -> Result<u32, Refusal> {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()));
    let about = Status(about.unwrap_or_default());
    let pid = about.number("Pid").and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    pid.ok_or(Refusal::NoProcess)
}

/// `PF_FORKNOEXEC` of `<linux/sched.h>`: the kernel tells it in `/proc/PID/stat`.
const FORKED_ONLY: u64 = 0x40;

fn has_executed(pid: u32) -> Option<bool> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat).into_owned();
    // The name, in parentheses, may hold anything.
    let flags: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(6)?.parse().ok()?;
    Some(flags & FORKED_ONLY == 0)
}

/// Whether numbers mean to a process what they mean here.
pub fn is_of_this_namespace(pid: u32) -> bool {
    Status::read(pid, pid).is_some_and(|status| status.field("NSpid").count() == 1)
}

/// Whether a process may look at others that are not its user's.
pub fn may_look_at_all(pid: u32) -> bool {
    let Some(status) = Status::read(pid, pid) else { return false };
    let rights = status.capabilities("CapEff");
    let has = |capability: u32| rights.is_some_and(|rights| rights >> capability & 1 == 1);
    (has(CAP_SYS_PTRACE) || has(CAP_PERFMON)) && has_our_users(pid)
}

/// Whether its capabilities count here: in a user namespace of one's own one has them all.
fn has_our_users(pid: u32) -> bool {
    let map = |who: &str| std::fs::read(format!("/proc/{who}/uid_map")).ok();
    let (theirs, ours) = (map(&pid.to_string()), map("self"));
    ours.is_some() && theirs == ours
}

fn among_threads(pid: u32, tid: u32) -> Option<(u32, Status)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    threads.take(MOST_THREADS).flatten().find_map(|thread| {
        let here: u32 = thread.file_name().to_str()?.parse().ok()?;
        let status = Status::read(pid, here)?;
        let there = status.field("NSpid").last()?.parse::<u32>().ok()?;
        (there == tid).then_some((here, status))
    })
}

struct Status(String);

impl Status {
    fn read(pid: u32, tid: u32) -> Option<Status> {
        let bytes = std::fs::read(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        Some(Status(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn field(&self, name: &str) -> impl Iterator<Item = &str> {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().split_whitespace()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.field(name).next()?.parse().ok()
    }

    fn capabilities(&self, which: &str) -> Option<u64> {
        self.field(which).next().and_then(|hex| u64::from_str_radix(hex, 16).ok())
    }

    fn effective_user(&self) -> Option<u32> {
        self.field("Uid").nth(1)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Peer {
        let pid = std::process::id();
        Peer { pid, uid: rustix::process::geteuid().as_raw() }
    }

    #[test]
    fn a_thread_is_its_own_process_s_only() {
        let peer = me();
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(thread(peer, own), Ok(own));
        let other = Peer { pid: 1, ..peer };
        assert_eq!(thread(other, own), Err(Reason::NoThread));
        assert_eq!(thread(peer, 1), Err(Reason::NoThread));
    }

    #[test]
    fn who_has_become_another_user_s_is_not_followed() {
        let peer = Peer { uid: me().uid + 1, ..me() };
        assert_eq!(thread(peer, peer.pid), Err(Reason::NotPermitted));
    }
}
