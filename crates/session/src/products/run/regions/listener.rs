//! The socket at which programs hand their profiles over: an abstract address that nobody can guess, and nothing on disk.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use weigh_schema::profile::{ADDRESS_PREFIX, VARIABLE};

use super::hello::WaitingPeer;

/// So many connections may wait: programs of an MPI job begin all at once.
pub(super) const BACKLOG: i32 = 4_096;

/// Listens for programs.
pub(super) struct Listener {
    socket: OwnedFd,
    address: String,
    token: [u64; 2],
}

impl Listener {
    pub fn new() -> io::Result<Listener> {
        let mut random = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let (address, token) = random.split_at(16);
        let address = hexadecimal(address);
        let socket = listen_at(&format!("{ADDRESS_PREFIX}{address}"), BACKLOG)?;
        Ok(Listener { socket, address, token: numbers(token) })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What the first message has to hold.
    pub fn token(&self) -> [u64; 2] {
        self.token
    }

    pub fn variable(&self) -> (OsString, OsString) {
        let [first, second] = self.token;
        let value = format!("{}:{first:016x}{second:016x}", self.address);
        (VARIABLE.into(), value.into())
    }

    pub fn accept(&self) -> rustix::io::Result<WaitingPeer> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        accept_with(&self.socket, flags).map(WaitingPeer::new)
    }
}

/// Listens at an abstract address.
pub(super) fn listen_at(address: &str, backlog: i32) -> io::Result<OwnedFd> {
    let name = SocketAddrUnix::new_abstract_name(address.as_bytes())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &name)?;
    listen(&socket, backlog)?;
    Ok(socket)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn numbers(bytes: &[u8]) -> [u64; 2] {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (first, second) = bytes.split_at(bytes.len() / 2);
    [number(first), number(second)]
}
