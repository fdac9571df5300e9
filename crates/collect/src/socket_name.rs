//! What sockets are called: protocol and addresses.

use std::net::{IpAddr, SocketAddr};

/// The kernel's number of IPv4.
pub(crate) const INET: u32 = 2;
/// And of IPv6.
pub(crate) const INET6: u32 = 10;

/// An address as the kernel side has it: of one of IPv4 the first bytes.
pub(crate) fn address(family: u32, bytes: &[u8; 16], port: u16) -> Option<SocketAddr> {
    let address = match family {
        INET => IpAddr::from(*bytes.first_chunk::<4>()?),
        _ => IpAddr::from(*bytes),
    };
    Some(SocketAddr::new(address, port))
}

/// Both ends of an Internet socket, as far as it is connected.
pub(crate) fn of_ends(protocol: u32, local: SocketAddr, remote: Option<SocketAddr>) -> String {
    let protocol = match protocol {
        6 => "tcp".to_string(),
        17 => "udp".to_string(),
        other => format!("protocol {other}"),
    };
    match remote {
        Some(remote) => format!("{protocol} {local} -> {remote}"),
        None => format!("{protocol} {local}"),
    }
}

/// Both ends of a Unix socket, as far as they have names.
pub(crate) fn of_unix(local: Option<String>, remote: Option<String>) -> String {
    match (local, remote) {
        (None, None) => "unix socket".to_string(),
        (Some(local), None) => format!("unix {local}"),
        (None, Some(remote)) => format!("unix -> {remote}"),
        (Some(local), Some(remote)) => format!("unix {local} -> {remote}"),
    }
}
