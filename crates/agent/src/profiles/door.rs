//! How a profile comes from the agent's socket to who reads it, and what is read to the streams: each may be another thread.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rustix::event::{EventfdFlags, eventfd};
use weigh_schema::stream::{ProgramProfile, RecordSource};
use weigh_wire::Peer;

/// Profiles that wait to be taken in, of all users: the ranks of a job come at once.
const MOST_WAITING: usize = 256;
/// Records that wait for the streams.
const MOST_NOTES: usize = 256;

/// A profile that has come.
pub struct ProfileVisitor {
    pub file: OwnedFd,
    /// Who has connected.
    pub peer: Peer,
    /// The user who is behind it.
    pub user: u32,
}

/// What was read of a program.
pub struct ProfileNote {
    /// Whose it is.
    pub source: RecordSource,
    /// How it stands.
    pub profile: ProgramProfile,
    /// Whether its user has published too much for a record of it.
    pub is_refused: bool,
}

/// What both sides count.
#[derive(Default)]
struct ProfileCounts {
    refused: AtomicU64,
    is_watched: AtomicBool,
}

/// The side of those who serve the agent's socket.
#[derive(Clone)]
pub struct ProfileDoor {
    visitors: SyncSender<ProfileVisitor>,
    wake: Arc<OwnedFd>,
    counts: Arc<ProfileCounts>,
}

/// The side of who reads profiles, towards that one.
pub struct ProfileKeeper {
    visitors: Receiver<ProfileVisitor>,
    wake: Arc<OwnedFd>,
}

/// The side of who reads profiles, towards the streams.
pub struct ProfileLink {
    notes: SyncSender<ProfileNote>,
    wake: Arc<OwnedFd>,
    counts: Arc<ProfileCounts>,
}

/// The side of the streams.
pub struct ProfileNotes {
    notes: Receiver<ProfileNote>,
    counts: Arc<ProfileCounts>,
}

/// Both sides of the way to streams, which are woken by this.
pub fn profile_notes(wake: Arc<OwnedFd>) -> (ProfileLink, ProfileNotes) {
    let (sender, receiver) = sync_channel(MOST_NOTES);
    let counts = Arc::new(ProfileCounts::default());
    let link = ProfileLink { notes: sender, wake, counts: counts.clone() };
    (link, ProfileNotes { notes: receiver, counts })
}

/// Both sides of the way from the socket.
pub fn profile_door(streams: &ProfileLink) -> io::Result<(ProfileDoor, ProfileKeeper)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = sync_channel(MOST_WAITING);
    let counts = streams.counts.clone();
    let door = ProfileDoor { visitors: sender, wake: wake.clone(), counts };
    Ok((door, ProfileKeeper { visitors: receiver, wake }))
}

impl ProfileDoor {
    /// Lets a profile in, where not too many wait.
    pub fn pass(&self, file: OwnedFd, peer: Peer, user: u32) {
        match self.visitors.try_send(ProfileVisitor { file, peer, user }) {
            Ok(()) => self.wake(),
            Err(_) => self.refuse(),
        }
    }

    /// One was not taken.
    pub fn refuse(&self) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Has the reader look up.
    pub fn wake(&self) {
        wake(&self.wake);
    }
}

impl ProfileKeeper {
    /// Readable when one has come, or was woken.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Those that have come.
    pub fn visitors(&self) -> Vec<ProfileVisitor> {
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        self.visitors.try_iter().collect()
    }
}

impl ProfileLink {
    /// It waits where the streams are behind.
    pub fn tell(&self, note: ProfileNote) {
        if self.notes.send(note).is_ok() {
            wake(&self.wake);
        }
    }

    /// A profile was not taken.
    pub fn refuse(&self) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether somebody looks at what programs do.
    pub fn is_watched(&self) -> bool {
        self.counts.is_watched.load(Ordering::Relaxed)
    }
}

impl ProfileNotes {
    /// What was read since.
    pub fn take(&self) -> Vec<ProfileNote> {
        self.notes.try_iter().collect()
    }

    /// Profiles that were not taken since.
    pub fn take_refused(&self) -> u64 {
        self.counts.refused.swap(0, Ordering::Relaxed)
    }

    /// Somebody looks, or nobody does.
    pub fn set_watched(&self, is_watched: bool) {
        self.counts.is_watched.store(is_watched, Ordering::Relaxed);
    }
}

fn wake(descriptor: &OwnedFd) {
    // Full only if nobody has looked for 2^64 times.
    let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
}
