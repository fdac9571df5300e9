//! Who a session is for.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::activity::Notes;
use crate::process::Peer;

/// The user that a session is for.
pub struct User {
    /// Where requests come in.
    pub stream: UnixStream,
    /// The user's weigh.
    pub process: OwnedFd,
    /// The same, by its numbers.
    pub peer: Peer,
    /// Wakes the user's weigh.
    pub wake: OwnedFd,
    /// Where it is noted what is done for the user.
    pub notes: Notes,
}
