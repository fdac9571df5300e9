//! How a client comes from the agent's socket to its streams, which another thread may serve.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use weigh_schema::stream::ServedUser;
use weigh_wire::Peer;

use crate::profiles::ProfileDoor;

/// Clients that wait to be taken in, of all users.
const MOST_WAITING: usize = 64;

/// A client that has come.
pub struct Visitor {
    /// The agent's end of its stream.
    pub stream: OwnedFd,
    /// Who has connected.
    pub peer: Peer,
    /// The user who is behind it.
    pub user: u32,
}

/// The side of those who serve the agent's socket.
#[derive(Clone)]
pub struct StreamDoor {
    visitors: SyncSender<Visitor>,
    wake: Arc<OwnedFd>,
    served: Arc<Mutex<Vec<ServedUser>>>,
    profiles: Option<ProfileDoor>,
}

/// The side of those who serve the streams.
pub struct DoorKeeper {
    visitors: Receiver<Visitor>,
    wake: Arc<OwnedFd>,
    served: Arc<Mutex<Vec<ServedUser>>>,
}

/// Both sides.
pub fn door() -> io::Result<(StreamDoor, DoorKeeper)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = sync_channel(MOST_WAITING);
    let served = Arc::new(Mutex::new(Vec::new()));
    let door =
        StreamDoor { visitors: sender, wake: wake.clone(), served: served.clone(), profiles: None };
    Ok((door, DoorKeeper { visitors: receiver, wake, served }))
}

impl StreamDoor {
    /// Lets a client in; gives its end of the stream. None where too many wait.
    pub fn pass(&self, peer: Peer, user: u32) -> Option<OwnedFd> {
        let (ours, theirs) = UnixStream::pair().ok()?;
        self.visitors.try_send(Visitor { stream: ours.into(), peer, user }).ok()?;
        self.wake();
        Some(theirs.into())
    }

    /// Who is served at the socket now.
    pub fn post(&self, served: Vec<ServedUser>) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = served;
    }

    /// Profiles that come go there from now on.
    pub(super) fn set_profiles(&mut self, profiles: ProfileDoor) {
        self.profiles = Some(profiles);
    }

    /// Where profiles go, if anybody reads them.
    pub fn profiles(&self) -> Option<&ProfileDoor> {
        self.profiles.as_ref()
    }

    /// Has the streams' host look up, and who reads profiles.
    pub fn wake_all(&self) {
        self.profiles.iter().for_each(ProfileDoor::wake);
        self.wake();
    }

    /// Has the streams' host look up.
    pub fn wake(&self) {
        // Full only if nobody has looked for 2^64 times.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl DoorKeeper {
    /// What wakes the streams' host.
    pub fn waker(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    /// Readable when somebody has come, or was woken.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Those who have come.
    pub fn visitors(&self) -> Vec<Visitor> {
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        self.visitors.try_iter().collect()
    }

    /// Who is served at the socket.
    pub fn served(&self) -> Vec<ServedUser> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
