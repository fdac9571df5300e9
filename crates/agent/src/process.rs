//! What `/proc` says of the processes that are to be followed for a user.
//!
//! Reads `/proc/PID`; emits PIDs. Refuses what [`crate::access`] does.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use weigh_collect::job::Owner;
use weigh_wire::Peer;

use crate::access::{Caller, Target, may_look};

/// This process serves one user of the agent's that has started it: it does not outlive the agent, and where memory runs
/// out it is the one that the kernel ends, and not the agent of all users.
pub fn give_way_to_agent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // More is always allowed.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

/// It comes before everything that the agent itself can be: more than all of the memory that there is.
const OOM_SCORE: &str = "1000";

/// A peer as the owner of a job: whatever else it may, its jobs are reported to the user.
pub fn owner_of(peer: Peer) -> Owner {
    Owner { uid: peer.uid, gid: peer.gid }
}

/// Why a process is not followed for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The descriptor is of something else, or of a process that cannot be seen from here.
    #[error("it is no process that the agent can see in /proc")]
    NoProcess,
    /// It is not the user's, or not the user's alone.
    #[error("the process is not the user's own")]
    NotOwn,
    /// It is no child of the user's weigh.
    #[error("the process is no child of this weigh")]
    NoChild,
    /// It is more than a waiting copy of the user's weigh.
    #[error("the process has executed a program already")]
    HasExecuted,
    /// A process that has them starts programs with privileges, of which it would be told nothing.
    #[error("this weigh has capabilities of its own")]
    HasRights,
    /// A process that ptrace(2) would not let the user look at.
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

/// Whether a process that runs is one that a peer could look at itself.
pub fn may_follow(peer: Peer, pid: u32) -> Result<(), Refusal> {
    let status = owned(pid, peer.uid)?;
    // What a user has by capabilities is told without the agent.
    let caller = Caller { uid: peer.uid, gid: peer.gid, effective: 0 };
    match target_of(pid, peer.uid, &status) {
        Some(target) if may_look(&caller, &target) => Ok(()),
        _ => Err(Refusal::Hidden),
    }
}

fn target_of(pid: u32, uid: u32, status: &Status) -> Option<Target> {
    let three = |name: &str| {
        let numbers = status.field(name).take(3).map(|number| number.parse().ok());
        numbers.collect::<Option<Vec<u32>>>()?.try_into().ok()
    };
    Some(Target {
        users: three("Uid")?,
        groups: three("Gid")?,
        permitted: status.capabilities("CapPrm")?,
        is_dumpable: is_dumpable(pid, uid),
        same_users: has_our_users(pid),
        may_trace: false,
        is_caller: false,
    })
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

/// The process that a descriptor stands for, if it is one that a peer may have followed: a child of its
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

/// The process that a descriptor stands for, which runs, if it is one that a peer could look at itself.
pub fn running_of(peer: Peer, pidfd: BorrowedFd<'_>) -> Result<u32, Refusal> {
    let pid = pid_of(pidfd)?;
    may_follow(peer, pid)?;
    let status = Status::read(pid, pid).ok_or(Refusal::NoProcess)?;
    if status.number("Tgid") != Some(pid.into()) {
        return Err(Refusal::NoProcess);
    }
    Ok(pid)
}

/// What `/proc` has of a process that may be looked at belongs to its user; of root's it cannot be told.
fn is_dumpable(pid: u32, user: u32) -> bool {
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

/// Whether its capabilities count here: in a user namespace of one's own one has them all.
fn has_our_users(pid: u32) -> bool {
    let map = |who: &str| std::fs::read(format!("/proc/{who}/uid_map")).ok();
    let (theirs, ours) = (map(&pid.to_string()), map("self"));
    ours.is_some() && theirs == ours
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Peer {
        let pid = std::process::id();
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Peer { pid, uid: uid.as_raw(), gid: gid.as_raw() }
    }

    #[test]
    fn a_process_is_its_user_s_only() {
        let peer = me();
        assert_eq!(may_follow(peer, peer.pid).is_ok(), is_plain(), "{peer:?}");
        let other = Peer { uid: peer.uid + 1, ..peer };
        assert_eq!(may_follow(other, peer.pid), Err(Refusal::NotOwn));
        let group = Peer { gid: peer.gid + 1, ..peer };
        assert_eq!(may_follow(group, peer.pid), Err(Refusal::Hidden));
    }

    /// Whether the tests run without capabilities.
    fn is_plain() -> bool {
        let pid = std::process::id();
        Status::read(pid, pid).unwrap().capabilities("CapPrm") == Some(0)
    }
}
