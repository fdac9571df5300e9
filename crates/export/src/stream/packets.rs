//! Files of packets, for Wireshark, tshark and tcpdump.
//!
//! They take records that have the fields of `weigh trace packets`. A packet is what was kept of it from its link header
//! on.

mod layout;
mod pcap;
mod pcapng;
mod repeated;

use std::path::Path;

pub use pcap::FORMAT as PCAP;
pub use pcapng::FORMAT as PCAPNG;

/// Whether a file of this name says of which process each of its packets is; none if it has other things than packets.
pub fn has_processes(path: &Path) -> Option<bool> {
    let formats = [(PCAPNG, true), (PCAP, false)];
    formats.iter().find(|(format, _)| format.is_of(path)).map(|(_, has_processes)| *has_processes)
}
