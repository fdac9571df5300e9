//! Messages of OpenTelemetry that come over TCP from this machine: which process, and which user, has sent them.
//!
//! Reads `/proc/net/tcp` and the descriptors of the processes that may have; emits a PID or a UID, or nothing.

use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};

pub use weigh_parse::otlp::json;
pub use weigh_parse::otlp::{
    MetricAttribute, MetricPoint, OtlpRefusal, PointValue, each_metric, each_span,
};

/// So much of the list of connections is read, and so many descriptors are looked at.
const MOST_LIST: u64 = 8 << 20;
const MOST_DESCRIPTORS: usize = 65_536;

/// Which of these processes is at the other end of a connection; none if it is not found.
pub fn peer_process(connection: &TcpStream, candidates: &[u32]) -> Option<u32> {
    let (_, inode) = peer_socket(connection)?;
    let link = format!("socket:[{inode}]");
    let mut left = MOST_DESCRIPTORS;
    candidates.iter().copied().find(|pid| {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        entries.take(left).any(|entry| {
            left = left.saturating_sub(1);
            std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == link.as_str())
        })
    })
}

/// Whose socket is at the other end of a connection; none where it is not listed: it is closed, or of another namespace.
pub fn peer_user(connection: &TcpStream) -> Option<u32> {
    peer_socket(connection).map(|(user, _)| user)
}

/// User and inode of the socket at the other end, as the kernel lists them.
fn peer_socket(connection: &TcpStream) -> Option<(u32, u64)> {
    let (own, peer) = (connection.local_addr().ok()?, connection.peer_addr().ok()?);
    let mut list = String::new();
    File::open("/proc/net/tcp").ok()?.take(MOST_LIST).read_to_string(&mut list).ok()?;
    socket_between(&list, peer, own)
}

fn socket_between(list: &str, local: SocketAddr, remote: SocketAddr) -> Option<(u32, u64)> {
    let (local, remote) = (hexadecimal(local)?, hexadecimal(remote)?);
    list.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_it = words.next()? == local && words.next()? == remote;
        let mut words = words.skip(4);
        is_it.then(|| Some((words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?)))?
    })
}

/// The address as four bytes in the order of this machine, a colon, the port.
fn hexadecimal(address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else { return None };
    let bytes = u32::from_ne_bytes(address.ip().octets());
    Some(format!("{bytes:08X}:{:04X}", address.port()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_other_end_is_found_among_the_candidates() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let other = TcpStream::connect(listener.local_addr().expect("its address"));
        let (accepted, _) = listener.accept().expect("a connection");
        let own = std::process::id();
        assert_eq!(peer_process(&accepted, &[1, own]), Some(own));
        assert_eq!(peer_process(&accepted, &[]), None);
        assert_eq!(peer_user(&accepted), Some(rustix::process::geteuid().as_raw()));
        drop(other);
    }
}
