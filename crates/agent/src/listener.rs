//! The socket that a server listens at: made at a place that is free, and taken away.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, chmod, unlink};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, socket_with,
};
use weigh_schema::library::Reason;
use weigh_wire::HEAD_BYTES;
use weigh_wire::library::{leave, parse_reply};

use crate::client::{send, turn_away};

/// libweigh waits twice as long.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What keeps a server from being.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Somebody serves there.
    #[error("{0}: somebody serves there already")]
    Taken(PathBuf),
    /// The place is no place for a socket.
    #[error("{0}: there is a file that is no socket")]
    NoSocket(PathBuf),
    /// Nobody can connect there.
    #[error("{path}: {error}")]
    Socket {
        /// The place.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The kernel refuses.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// A socket at a place, for [`crate::Server::at`].
pub fn listen_at(path: &Path) -> Result<OwnedFd, ServerError> {
    let at = |error: rustix::io::Errno| ServerError::Socket {
        path: path.to_owned(),
        error: error.into(),
    };
    let address = SocketAddrUnix::new(path).map_err(at)?;
    make_room(path, &address)?;
    let listener = new_socket()?;
    bind(&listener, &address).map_err(at)?;
    chmod(path, Mode::from_raw_mode(0o666)).map_err(at)?;
    listen(&listener, 128).map_err(at)?;
    Ok(listener)
}

/// Who has come; none where nobody has, or no descriptor is left: then it is told, else it would wait for ever and the
/// socket stay readable.
pub(crate) fn accept(listener: &OwnedFd, reserve: &mut Option<OwnedFd>) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    match accept_with(listener, flags) {
        Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
            *reserve = None;
            if let Ok(connection) = accept_with(listener, flags) {
                turn_away(&connection, Reason::TooMany);
            }
            *reserve = spare();
            None
        }
        accepted => accepted.ok(),
    }
}

/// Whether programs with libweigh are served at a place. An agent that serves the node alone refuses all that they ask for.
pub fn serves_programs(path: &Path) -> bool {
    try_request(path).is_ok_and(|reason| reason != Some(Reason::Kernel))
}

/// What the server there says to a program's request; none where it says nothing in time. Errors: there is no server.
fn try_request(path: &Path) -> io::Result<Option<Reason>> {
    let socket = new_socket()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    // A program that is turned away finds the reason there, though its request was not read.
    let _ = send(&socket, &leave(0), &[]);
    let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&PATIENCE));
    let mut answer = [0; HEAD_BYTES];
    let received = recv(&socket, &mut answer, RecvFlags::DONTWAIT);
    Ok(received.ok().and_then(|(length, _)| parse_reply(&answer[..length])))
}

/// Turns away, with the reason, the clients that wait at a socket.
pub fn turn_all_away(listener: &OwnedFd, reason: Reason) {
    while let Ok(connection) = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        turn_away(&connection, reason);
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Takes away what a server that was killed has left.
fn make_room(path: &Path, address: &SocketAddrUnix) -> Result<(), ServerError> {
    use std::os::unix::fs::FileTypeExt as _;
    let Ok(about) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !about.file_type().is_socket() {
        return Err(ServerError::NoSocket(path.to_owned()));
    }
    match connect(&new_socket()?, address) {
        Err(rustix::io::Errno::CONNREFUSED) => {
            unlink(path).map_err(io::Error::from)?;
            Ok(())
        }
        _ => Err(ServerError::Taken(path.to_owned())),
    }
}

/// A descriptor that is given up to turn somebody away when there is no other.
pub fn spare() -> Option<OwnedFd> {
    new_socket().ok()
}
