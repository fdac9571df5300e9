//! Who has connected, as the kernel has kept it of that moment.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt::socket_peercred;

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number here when it connected; 0 if it is in a PID namespace that cannot be seen from here.
    pub pid: u32,
    /// Its user then.
    pub uid: u32,
    /// Its group then.
    pub gid: u32,
}

impl Peer {
    /// Whether it is root's, or of this process's own user.
    pub fn is_trusted(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// The process that has connected.
/// Errors: the descriptor is no connected socket.
pub fn peer_of(connection: impl AsFd) -> io::Result<Peer> {
    let who = socket_peercred(&connection)?;
    let pid = rustix::process::Pid::as_raw(Some(who.pid)).unsigned_abs();
    Ok(Peer { pid, uid: who.uid.as_raw(), gid: who.gid.as_raw() })
}
