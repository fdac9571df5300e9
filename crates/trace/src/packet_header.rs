//! Names over the headers of packets: `ip.src`, `udp.dport`, `tcp.flags`, `proto`, `out`.
//!
//! Which part of the headers a name means, and how wide it is. Where the kernel has them: `packet_resolve`.

use crate::error::Span;
use crate::path::{Path, Step};
use crate::vocabulary::Vocabulary;

/// Numbers of protocols above IP.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const SCTP: u8 = 132;
/// Ethernet's types of IP.
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;

/// An end of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes to.
    Destination,
}

/// A part of a packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketField {
    /// What Ethernet says that it carries.
    EtherType,
    /// What IP says that it carries, behind the extension headers of IPv6.
    Protocol,
    /// An address of IP.
    Address(Side),
    /// A port of TCP, UDP or SCTP; of one protocol alone, if that is said.
    Port {
        /// Whose.
        side: Side,
        /// Of which protocol.
        of: Option<u8>,
    },
    /// The flags of TCP.
    TcpFlags,
    /// Whether Ethernet carries that.
    IsEtherType(u16),
    /// Whether IP carries that.
    IsProtocol(u8),
    /// Whether the packet leaves; the event says so.
    Leaves,
    /// Whether it comes in.
    Comes,
}

const fn port(side: Side, of: Option<u8>) -> PacketField {
    PacketField::Port { side, of }
}

/// All of them.
pub(crate) const NAMES: &[(&str, PacketField)] = &[
    ("eth.type", PacketField::EtherType),
    ("proto", PacketField::Protocol),
    ("ip.src", PacketField::Address(Side::Source)),
    ("ip.dst", PacketField::Address(Side::Destination)),
    ("src.port", port(Side::Source, None)),
    ("dst.port", port(Side::Destination, None)),
    ("udp.sport", port(Side::Source, Some(UDP))),
    ("udp.dport", port(Side::Destination, Some(UDP))),
    ("tcp.sport", port(Side::Source, Some(TCP))),
    ("tcp.dport", port(Side::Destination, Some(TCP))),
    ("tcp.flags", PacketField::TcpFlags),
    ("out", PacketField::Leaves),
    ("in", PacketField::Comes),
    ("ip", PacketField::IsEtherType(IPV4)),
    ("ip6", PacketField::IsEtherType(IPV6)),
    ("arp", PacketField::IsEtherType(0x0806)),
    ("rarp", PacketField::IsEtherType(0x8035)),
    ("tcp", PacketField::IsProtocol(TCP)),
    ("udp", PacketField::IsProtocol(UDP)),
    ("sctp", PacketField::IsProtocol(SCTP)),
    ("icmp", PacketField::IsProtocol(1)),
    ("icmp6", PacketField::IsProtocol(58)),
    ("igmp", PacketField::IsProtocol(2)),
    ("esp", PacketField::IsProtocol(50)),
    ("ah", PacketField::IsProtocol(51)),
];

/// Names of two values, either of which is meant.
pub(crate) const PAIRS: &[(&str, [&str; 2])] = &[
    ("host", ["ip.src", "ip.dst"]),
    ("port", ["src.port", "dst.port"]),
    ("udp.port", ["udp.sport", "udp.dport"]),
    ("tcp.port", ["tcp.sport", "tcp.dport"]),
];

impl PacketField {
    /// Bytes of it in a record; of an address [`crate::ip_prefix::ADDRESS_BYTES`].
    pub fn bytes(self) -> u32 {
        match self {
            PacketField::EtherType | PacketField::Port { .. } => 2,
            PacketField::Address(_) => crate::ip_prefix::ADDRESS_BYTES as u32,
            _ => 1,
        }
    }

    /// Names that its numbers have.
    pub fn names(self) -> Option<Vocabulary> {
        match self {
            PacketField::EtherType => Some(Vocabulary::EtherTypes),
            PacketField::Protocol => Some(Vocabulary::Protocols),
            PacketField::TcpFlags => Some(Vocabulary::TcpFlags),
            _ => None,
        }
    }
}

/// A path as one name, if it is nothing but members.
pub(crate) fn dotted(path: &Path) -> Option<String> {
    let mut name = path.base.clone();
    for (step, _) in &path.steps {
        let Step::Member(member) = step else { return None };
        name.push('.');
        name.push_str(member);
    }
    Some(name)
}

/// A path of that name, which stands there.
pub(crate) fn path_of(name: &str, span: Span) -> Path {
    let mut parts = name.split('.');
    let mut path = Path::of_word(parts.next().unwrap_or_default(), span);
    path.steps = parts.map(|part| (Step::Member(part.to_string()), span)).collect();
    path
}

/// Whether a header or two have that name.
pub(crate) fn is_name(name: &str) -> bool {
    names().any(|other| other == name)
}

/// All names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let pairs = PAIRS.iter().map(|(name, _)| *name);
    NAMES.iter().map(|(name, _)| *name).chain(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_paths() {
        for name in names() {
            let path = path_of(name, Span::default());
            assert_eq!(dotted(&path).as_deref(), Some(name));
        }
        let names: Vec<&str> = names().collect();
        for (place, name) in names.iter().enumerate() {
            assert!(!names[..place].contains(name), "{name} stands twice");
        }
    }
}
