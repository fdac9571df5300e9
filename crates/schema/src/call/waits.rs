//! Calls that are there to wait, or do until somebody else is ready, and what for.

use std::collections::BTreeMap;

use super::Numbers;
use crate::subsystem::PART;

/// Calls whose very purpose is to wait, and what that is, in a sentence: "8 ms …".
const WAITS: &[(&[&str], &str)] = &[
    (&["nanosleep", "clock_nanosleep"], "sleeping, as it was asked to"),
    (
        &["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"],
        "idle: waiting for descriptors",
    ),
    (
        &["pause", "rt_sigsuspend", "rt_sigtimedwait", "sigsuspend"],
        "waiting for a signal, as it was asked to",
    ),
    (&["wait4", "waitid", "waitpid"], "waiting for a child, as it was asked to"),
    (&["futex", "futex_wait", "futex_waitv"], "waiting on a futex, as it was asked to"),
    (
        &["io_getevents", "io_pgetevents", "io_uring_enter"],
        "waiting for completions, as it was asked to",
    ),
    (&["accept", "accept4"], "idle: waiting for a connection"),
    (&["connect"], "waiting for the other side's answer"),
    (&["recv", "recvfrom", "recvmsg", "recvmmsg"], RECEIVING),
    (&["send", "sendto", "sendmsg", "sendmmsg"], SENDING),
];

const RECEIVING: &str = "idle: waiting for the peer";
/// Whether its reader is slow, the network, or a device, is not known.
const SENDING: &str = "waiting for room in the socket";

/// What the words of a wait for somebody else's doing begin with.
const IDLE: &str = "idle: ";

/// Of a call that was idle so much of its time was a wait: to go to sleep and to wake takes some microseconds.
const IDLE_SHARE: f64 = 0.9;

const READS: &[&str] = &["read", "readv"];
const WRITES: &[&str] = &["write", "writev"];

/// What waiting that no part of the kernel asked for is, in a call of this name that is about `of`, as far as that is
/// known: of a call that is there to wait, and of one on something that has another end.
pub fn asked_to_wait(call: &str, of: Option<&str>) -> Option<&'static str> {
    // Of calls of 32-bit programs, and of clocks with 64 bits, the name goes on.
    let name = call.trim_end_matches(" (32-bit)").trim_end_matches("_time64");
    let by_name = WAITS.iter().find(|(calls, _)| calls.contains(&name)).map(|(_, what)| *what);
    by_name.or_else(|| other_end(name, of?))
}

/// The same where nothing is to be done until the other end does something: of polls, of accepting, of receiving and of
/// reading from what has another end.
pub fn idle_wait(call: &str, of: Option<&str>) -> Option<&'static str> {
    asked_to_wait(call, of).filter(|words| words.starts_with(IDLE))
}

/// Whether a call, or calls, of so much time spent about all of it in such a wait.
pub fn is_idle(call: &str, of: Option<&str>, parts: &BTreeMap<String, Numbers>, time: f64) -> bool {
    let waited = || {
        let sched = parts.get("sched").and_then(|numbers| numbers.get(&PART[1].key()));
        sched.map_or(0.0, |number| number.as_f64())
    };
    idle_wait(call, of).is_some() && waited() >= IDLE_SHARE * time && time > 0.0
}

/// By the name of what it is about: a file's is a path, and a FIFO's, too.
fn other_end(call: &str, of: &str) -> Option<&'static str> {
    let is_pipe = of.starts_with("pipe:[");
    let is_socket = ["tcp ", "udp ", "unix socket", "socket"].iter().any(|s| of.starts_with(s));
    match (READS.contains(&call), WRITES.contains(&call)) {
        (true, _) if is_pipe => Some("idle: waiting for its writer"),
        (true, _) if is_socket => Some(RECEIVING),
        (_, true) if is_pipe => Some("waiting for its reader"),
        (_, true) if is_socket => Some(SENDING),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_the_other_end_of_what_it_is_about() {
        let said = |call, of| asked_to_wait(call, of).unwrap_or("?");
        let pipe = Some("pipe:[4711]");
        assert_eq!(said("read", pipe), "idle: waiting for its writer");
        assert_eq!(said("writev (32-bit)", pipe), "waiting for its reader");
        for socket in ["tcp 127.0.0.1:1 -> 127.0.0.1:2 [5]", "unix socket [5]", "socket [5]"] {
            assert_eq!(said("read", Some(socket)), said("recvmsg", None));
            assert_eq!(said("write", Some(socket)), said("sendto", None));
        }
        assert_eq!(said("accept4", None), "idle: waiting for a connection");
        assert_eq!(said("recvmmsg_time64 (32-bit)", None), "idle: waiting for the peer");
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        let files = ["/tmp/socket", "/dev/pts/0", "…/tcp ", "anonymous inode"];
        for of in files.map(Some).into_iter().chain([None]) {
            assert_eq!(asked_to_wait("read", of), None, "{of:?}");
            assert_eq!(asked_to_wait("write", of), None, "{of:?}");
        }
        assert_eq!(asked_to_wait("fsync", Some("pipe:[1]")), None);
    }
}
