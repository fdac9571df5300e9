//! The processes that follow jobs and events for users: how many, and whose.
//!
//! Each is weigh again, with the agent's rights: it keeps nothing of another user's, and its end takes
//! everything of its job out of the kernel.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weigh_schema::library::Followed;
use weigh_wire::{Answer, Payload as _, Peer, encode, send_parts};

use super::serve::SESSION;
use crate::activity::Activity;
use crate::quota;

/// What follows jobs.
#[derive(Default)]
pub struct Sessions {
    running: BTreeMap<u64, Session>,
    last_key: u64,
}

struct Session {
    process: Child,
    pidfd: OwnedFd,
    user: u32,
    what: Followed,
    activity: Activity,
    /// The session's own end of the stream, for a last word.
    stream: OwnedFd,
}

/// What the program of a session is told that has made room.
const MADE_ROOM: &str = "it was idle, and another user had need of the place";

impl Sessions {
    /// Whether a user may have one more.
    pub fn has_room(&self, user: u32, what: Followed) -> bool {
        let alike = self.running.values().filter(|session| session.what == what);
        quota::sessions(what).has_room(user, alike.map(|session| session.user))
    }

    /// Starts one. Gives its key, a descriptor that tells of its end, and the user's end of the
    /// stream.
    pub fn start(
        &mut self,
        peer: Peer,
        user: u32,
        what: Followed,
        process: BorrowedFd<'_>,
    ) -> io::Result<(u64, BorrowedFd<'_>, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        let stream = OwnedFd::from(ours.try_clone()?);
        let activity = Activity::new()?;
        let child = Command::new("/proc/self/exe")
            .arg(SESSION)
            .args([peer.pid, peer.uid, peer.gid, what as u32].map(|number| number.to_string()))
            .arg(activity.number().to_string())
            .stdin(Stdio::from(OwnedFd::from(ours)))
            .stdout(Stdio::from(process.try_clone_to_owned()?))
            .spawn();
        let kept = activity.keep();
        let mut child = child?;
        let pid = Pid::from_raw(child.id() as i32).ok_or(Errno::SRCH);
        let open = |pid| pidfd_open(pid, PidfdFlags::empty());
        let pidfd = match kept.and_then(|()| Ok(pid.and_then(open)?)) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        self.last_key += 1;
        let key = self.last_key;
        let session = Session { process: child, pidfd, user, what, activity, stream };
        let session = self.running.entry(key).or_insert(session);
        Ok((key, session.pidfd.as_fd(), theirs.into()))
    }

    /// Makes room for a user's by ending another user's: the one that has been idle for longest, if one is.
    pub fn make_room(&mut self, user: u32, what: Followed) -> bool {
        let has_room = |without: u64| {
            let others = self.running.iter().filter(|(key, _)| **key != without);
            let alike = others.filter(|(_, session)| session.what == what);
            quota::sessions(what).has_room(user, alike.map(|(_, session)| session.user))
        };
        let of_others = self.running.iter().filter(|(_, s)| s.what == what && s.user != user);
        let idle = of_others.filter_map(|(key, s)| Some((s.activity.idle_since()?, *key)));
        let mut idle: Vec<(u64, u64)> = idle.filter(|(_, key)| has_room(*key)).collect();
        idle.sort_unstable();
        let Some((_, key)) = idle.first() else { return false };
        if let Some(session) = self.running.remove(key) {
            session.say_why();
        }
        true
    }

    /// The user of each.
    pub fn users(&self) -> impl Iterator<Item = u32> {
        self.running.values().map(|session| session.user)
    }

    /// One has ended, or is to.
    pub fn end(&mut self, key: u64) {
        self.running.remove(&key);
    }
}

/// What a program finds as the answer to its next request: why there is nobody who follows anything. The text is
/// weigh's own.
pub(crate) fn refusal(what: Followed, why: &str) -> Vec<u8> {
    let why = why.to_string();
    if what != Followed::Events {
        return encode(&Answer::Refused(why), 0).unwrap_or_default();
    }
    let mut line = b"{\"refused\":".to_vec();
    let _ = why.write(&mut line);
    line.extend_from_slice(b"}\n");
    line
}

impl Session {
    /// The next request finds it as the answer.
    fn say_why(&self) {
        // Its program may have gone.
        let _ = send_parts(&self.stream, &refusal(self.what, MADE_ROOM), &[], SendFlags::DONTWAIT);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test's own binary stands in for weigh: it ends at once, and its place is taken as long as nobody says so.
    fn start(sessions: &mut Sessions, user: u32) -> (u64, UnixStream) {
        let pid = std::process::id();
        let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
        let peer = Peer { pid, uid: user, gid: user };
        let (key, _, theirs) =
            sessions.start(peer, user, Followed::Files, own.as_fd()).expect("a session");
        (key, theirs.into())
    }

    #[test]
    fn who_is_idle_for_longest_makes_room_for_another_user_and_is_told() {
        let mut sessions = Sessions::default();
        let held = [7, 7, 8, 8, 9].map(|user| {
            assert!(sessions.has_room(user, Followed::Files), "{user}");
            start(&mut sessions, user)
        });
        assert!(!sessions.has_room(10, Followed::Files));
        assert!(!sessions.make_room(10, Followed::Files), "nobody is idle");
        for (place, at_ns) in [(0, 2_000), (2, 1_000), (4, 3_000)] {
            sessions.running[&held[place].0].activity.idle_from(at_ns);
        }
        // Of another kind, and for itself, nobody ends.
        assert!(!sessions.make_room(10, Followed::Job));
        assert!(!sessions.make_room(7, Followed::Files) && sessions.running.len() == 5);
        assert!(sessions.make_room(10, Followed::Files));
        assert!(!sessions.running.contains_key(&held[2].0) && sessions.running.len() == 4);
        let (last, _) = weigh_wire::receive::<Answer>(&held[2].1).unwrap().unwrap();
        assert_eq!(last, Answer::Refused(MADE_ROOM.to_string()));
    }
}
