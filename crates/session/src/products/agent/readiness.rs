//! Tells systemd that the agent serves, if it has started it (`Type=notify`).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells it; nobody may listen.
pub fn tell() {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = send(&socket);
    }
}

fn send(socket: &OsStr) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_at_a_path_or_an_abstract_name_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        send(path.as_os_str()).expect("sends");
        let mut bytes = [0; 64];
        let length = listener.recv(&mut bytes).expect("a message");
        assert_eq!(&bytes[..length], b"READY=1\n");
        let name = format!("weigh-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixDatagram::bind_addr(&address).expect("a socket");
        send(OsStr::new(&format!("@{name}"))).expect("sends");
        assert_eq!(listener.recv(&mut bytes).expect("a message"), 8);
    }
}
