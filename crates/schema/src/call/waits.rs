//! Calls that are there to wait, or do until somebody else is ready, and what for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::numbers::Numbers;
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

/// What has somebody at its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherEnd {
    /// A pipe, or a FIFO.
    Pipe,
    /// A socket.
    Socket,
}

impl OtherEnd {
    /// By the name of what a call is about: a file's is a path, and a FIFO's, too.
    pub fn named(of: Option<&str>) -> Option<OtherEnd> {
        let of = of?;
        let is_socket = ["tcp ", "udp ", "unix socket", "socket"].iter().any(|s| of.starts_with(s));
        match of.starts_with("pipe:[") {
            true => Some(OtherEnd::Pipe),
            false => is_socket.then_some(OtherEnd::Socket),
        }
    }

    /// By the type in a file's mode.
    pub fn of_type(mode: u64) -> Option<OtherEnd> {
        match mode {
            0o010_000 => Some(OtherEnd::Pipe),
            0o140_000 => Some(OtherEnd::Socket),
            _ => None,
        }
    }
}

/// What waiting that no part of the kernel asked for is, in a call of this name on what has such another end, as far
/// as that is known: of a call that is there to wait, and of one that waits until the other end does something.
pub fn asked_to_wait(call: &str, end: Option<OtherEnd>) -> Option<&'static str> {
    // Of calls of 32-bit programs, and of clocks with 64 bits, the name goes on.
    let name = call.trim_end_matches(" (32-bit)").trim_end_matches("_time64");
    let by_name = WAITS.iter().find(|(calls, _)| calls.contains(&name)).map(|(_, what)| *what);
    by_name.or_else(|| at_other_end(name, end?))
}

/// The same where nothing is to be done until the other end does something: of polls, of accepting, of receiving and of
/// reading from what has another end.
pub fn idle_wait(call: &str, end: Option<OtherEnd>) -> Option<&'static str> {
    asked_to_wait(call, end).filter(|words| words.starts_with(IDLE))
}

/// Whether a call, or calls, of so much time spent about all of it in such a wait.
pub fn is_idle(
    call: &str,
    end: Option<OtherEnd>,
    parts: &BTreeMap<String, Numbers>,
    time: f64,
) -> bool {
    let waited = || {
        let sched = parts.get("sched").and_then(|numbers| numbers.get(&PART[1].key()));
        sched.map_or(0.0, |number| number.as_f64())
    };
    idle_wait(call, end).is_some() && is_mostly(waited(), time)
}

/// Whether so much waiting is about all of that time.
pub(super) fn is_mostly(waited: f64, time: f64) -> bool {
    waited >= IDLE_SHARE * time && time > 0.0
}

fn at_other_end(call: &str, end: OtherEnd) -> Option<&'static str> {
    match (READS.contains(&call), WRITES.contains(&call), end) {
        (true, _, OtherEnd::Pipe) => Some("idle: waiting for its writer"),
        (true, _, OtherEnd::Socket) => Some(RECEIVING),
        (_, true, OtherEnd::Pipe) => Some("waiting for its reader"),
        (_, true, OtherEnd::Socket) => Some(SENDING),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_the_other_end_of_what_it_is_about() {
        let said = |call, of| asked_to_wait(call, OtherEnd::named(of)).unwrap_or("?");
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
            assert_eq!(OtherEnd::named(of), None, "{of:?}");
        }
        assert_eq!(asked_to_wait("fsync", Some(OtherEnd::Pipe)), None);
    }
}
