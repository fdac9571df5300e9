//! The headers of a packet, read once for all that looks at them.
//!
//! Reads `struct sk_buff` and the first part of its memory; leaves on the stack what Ethernet, IP and TCP, UDP or SCTP
//! say, and which of that is there. Nothing is taken from behind the end of the first part or of IP's own length, nor
//! of a fragment that is not the first: it is absent, not 0. Extension headers of IPv6 are walked through, eight at most.

use super::writer::{PACKET, Writer};
use crate::assemble::{Helper, Label, Op, R, When};
use crate::ip_prefix::{ADDRESS_BYTES, Prefix};
use crate::packet_header::{IPV4, IPV6, PacketField, SCTP, Side, TCP, UDP};
use crate::packet_resolve::PacketPlaces;

/// What is there, as bits.
const HAVE: i16 = PACKET;
const HAS_ETHER_TYPE: i32 = 1;
const HAS_ADDRESSES: i32 = 2;
const HAS_PROTOCOL: i32 = 4;
const HAS_PORTS: i32 = 8;
const HAS_FLAGS: i32 = 16;
/// Where the memory begins; how far behind that the next header is, and the end of what may be read.
const HEAD: i16 = PACKET - 8;
const AT: i16 = PACKET - 16;
const END: i16 = PACKET - 24;
/// What was found.
const ETHER_TYPE: i16 = PACKET - 32;
const PROTOCOL: i16 = PACKET - 40;
const SOURCE_PORT: i16 = PACKET - 48;
const DESTINATION_PORT: i16 = PACKET - 56;
const FLAGS: i16 = PACKET - 64;
const SOURCE: i16 = PACKET - 80;
const DESTINATION: i16 = PACKET - 96;
/// A header as it lies in the packet.
const RAW: i16 = PACKET - 136;

/// Bytes of headers that are looked at.
const IPV4_BYTES: i32 = 20;
const IPV6_BYTES: i32 = 40;
const EXTENSION_BYTES: i32 = 8;
const TCP_BYTES: i32 = 14;
const PORTS_BYTES: i32 = 4;
/// Extension headers: hop by hop, routing, destination, and that of fragments.
const EXTENSIONS: [i32; 3] = [0, 43, 60];
const FRAGMENT: i32 = 44;
const MOST_EXTENSIONS: u64 = 8;
/// `::ffff:`, before an address of IPv4: the bytes 8 to 11.
const MAPPED: u64 = 0xffff_0000;

impl Writer<'_> {
    /// All that is known of the packet, on the stack. R8 stays.
    pub(super) fn learn_packet(&mut self) {
        let probe = self.probe;
        let Some(places) = &probe.packet else { return };
        if self.knows_packet {
            return;
        }
        self.knows_packet = true;
        let end = self.code.label();
        for at in (DESTINATION..=HAVE).step_by(8) {
            self.code.store_constant(R::Frame, at, 0, 8);
        }
        self.find_headers(places, end);
        let [v4, v6, above] = [(); 3].map(|()| self.code.label());
        self.place_value(&places.ether_type, end);
        self.code.network_to_host(R::R0, 2);
        self.code.store(R::Frame, ETHER_TYPE, R::R0, 8);
        self.have(HAS_ETHER_TYPE);
        self.code.jump_if_constant(When::Equal, R::R0, IPV4.into(), v4);
        self.code.jump_if_constant(When::Equal, R::R0, IPV6.into(), v6);
        self.code.jump(end);
        self.code.place(v4);
        self.learn_ipv4(end);
        self.code.jump(above);
        self.code.place(v6);
        self.learn_ipv6(above, end);
        self.code.place(above);
        self.learn_ports(end);
        self.code.place(end);
    }

    /// Where its memory begins and ends, and where IP's header is.
    fn find_headers(&mut self, places: &PacketPlaces, absent: Label) {
        self.place_value(&places.head, absent);
        self.code.store(R::Frame, HEAD, R::R0, 8);
        let found = self.code.label();
        if let Some(network) = &places.network {
            self.place_value(network, absent);
            self.code.store(R::Frame, AT, R::R0, 8);
            self.code.jump_if_constant(When::Unequal, R::R0, 0, found);
        }
        self.place_value(&places.data, absent);
        self.code.load(R::R1, R::Frame, HEAD, 8);
        self.code.with(Op::Subtract, R::R0, R::R1);
        self.code.store(R::Frame, AT, R::R0, 8);
        self.code.place(found);
        self.place_value(&places.tail, absent);
        self.code.store(R::Frame, END, R::R0, 8);
    }

    fn learn_ipv4(&mut self, end: Label) {
        self.read_header(IPV4_BYTES, end);
        let code = &mut self.code;
        code.load(R::R1, R::Frame, RAW, 1);
        code.with(Op::Move, R::R7, R::R1);
        code.with_constant(Op::ShiftRight, R::R1, 4);
        code.jump_if_constant(When::Unequal, R::R1, 4, end);
        code.with_constant(Op::And, R::R7, 15);
        code.with_constant(Op::ShiftLeft, R::R7, 2);
        code.jump_if_constant(When::Less, R::R7, IPV4_BYTES, end);
        code.constant(R::R1, MAPPED);
        for (to, from) in [(SOURCE, 12), (DESTINATION, 16)] {
            code.store(R::Frame, to + 8, R::R1, 4);
            code.load(R::R0, R::Frame, RAW + from, 4);
            code.store(R::Frame, to + 12, R::R0, 4);
        }
        code.load(R::R0, R::Frame, RAW + 9, 1);
        code.store(R::Frame, PROTOCOL, R::R0, 8);
        self.have(HAS_ADDRESSES | HAS_PROTOCOL);
        self.end_behind(RAW + 2, 0);
        let code = &mut self.code;
        code.load(R::R0, R::Frame, RAW + 6, 2);
        code.network_to_host(R::R0, 2);
        code.with_constant(Op::And, R::R0, 0x1fff);
        code.jump_if_constant(When::Unequal, R::R0, 0, end);
        self.go_on_by(R::R7);
    }

    fn learn_ipv6(&mut self, above: Label, end: Label) {
        self.read_header(IPV6_BYTES, end);
        let code = &mut self.code;
        code.load(R::R1, R::Frame, RAW, 1);
        code.with_constant(Op::ShiftRight, R::R1, 4);
        code.jump_if_constant(When::Unequal, R::R1, 6, end);
        for (to, from) in [(SOURCE, 8), (DESTINATION, 24)] {
            for word in [0, 8] {
                code.load(R::R0, R::Frame, RAW + from + word, 8);
                code.store(R::Frame, to + word, R::R0, 8);
            }
        }
        code.load(R::R7, R::Frame, RAW + 6, 1);
        self.have(HAS_ADDRESSES);
        self.end_behind(RAW + 4, IPV6_BYTES);
        self.code.constant(R::R1, IPV6_BYTES as u64);
        self.go_on_by(R::R1);
        self.walk_extensions(above, end);
    }

    /// Goes on behind the extension headers. R7 is what comes next, R9 how many more may come.
    fn walk_extensions(&mut self, above: Label, end: Label) {
        let [again, extension, fragment, later] = [(); 4].map(|()| self.code.label());
        self.code.constant(R::R9, MOST_EXTENSIONS);
        self.code.place(again);
        for kind in EXTENSIONS {
            self.code.jump_if_constant(When::Equal, R::R7, kind, extension);
        }
        self.code.jump_if_constant(When::Equal, R::R7, FRAGMENT, fragment);
        self.code.store(R::Frame, PROTOCOL, R::R7, 8);
        self.have(HAS_PROTOCOL);
        self.code.jump(above);
        for (at, is_fragment) in [(extension, false), (fragment, true)] {
            self.code.place(at);
            self.code.jump_if_constant(When::Equal, R::R9, 0, end);
            self.code.with_constant(Op::Add, R::R9, -1);
            self.read_header(EXTENSION_BYTES, end);
            let code = &mut self.code;
            code.load(R::R7, R::Frame, RAW, 1);
            if is_fragment {
                code.load(R::R0, R::Frame, RAW + 2, 2);
                code.network_to_host(R::R0, 2);
                code.with_constant(Op::And, R::R0, 0xfff8);
                code.jump_if_constant(When::Unequal, R::R0, 0, later);
                code.constant(R::R1, EXTENSION_BYTES as u64);
            } else {
                code.load(R::R1, R::Frame, RAW + 1, 1);
                code.with_constant(Op::Add, R::R1, 1);
                code.with_constant(Op::ShiftLeft, R::R1, 3);
            }
            self.go_on_by(R::R1);
            self.code.jump(again);
        }
        // Of what a later fragment carries there is no header.
        self.code.place(later);
        self.code.store(R::Frame, PROTOCOL, R::R7, 8);
        self.have(HAS_PROTOCOL);
        self.code.jump(end);
    }

    fn learn_ports(&mut self, end: Label) {
        let [tcp, others, read] = [(); 3].map(|()| self.code.label());
        self.code.load(R::R0, R::Frame, PROTOCOL, 8);
        self.code.jump_if_constant(When::Equal, R::R0, TCP.into(), tcp);
        for protocol in [UDP, SCTP] {
            self.code.jump_if_constant(When::Equal, R::R0, protocol.into(), others);
        }
        self.code.jump(end);
        self.code.place(tcp);
        self.read_header(TCP_BYTES, end);
        self.code.load(R::R0, R::Frame, RAW + 13, 1);
        self.code.store(R::Frame, FLAGS, R::R0, 8);
        self.have(HAS_FLAGS);
        self.code.jump(read);
        self.code.place(others);
        self.read_header(PORTS_BYTES, end);
        self.code.place(read);
        for (to, from) in [(SOURCE_PORT, 0), (DESTINATION_PORT, 2)] {
            self.code.load(R::R0, R::Frame, RAW + from, 2);
            self.code.network_to_host(R::R0, 2);
            self.code.store(R::Frame, to, R::R0, 8);
        }
        self.have(HAS_PORTS);
    }

    /// So many bytes of the next header, if all of them are there.
    fn read_header(&mut self, bytes: i32, absent: Label) {
        let code = &mut self.code;
        code.load(R::R1, R::Frame, AT, 8);
        code.load(R::R3, R::Frame, HEAD, 8);
        code.with(Op::Add, R::R3, R::R1);
        code.with_constant(Op::Add, R::R1, bytes);
        code.load(R::R2, R::Frame, END, 8);
        code.jump_if(When::Greater, R::R1, R::R2, absent);
        code.with(Op::Move, R::R1, R::Frame);
        code.with_constant(Op::Add, R::R1, RAW.into());
        code.constant(R::R2, bytes as u64);
        code.call(Helper::ReadKernel);
        code.jump_if_constant(When::Unequal, R::R0, 0, absent);
    }

    /// What is to be read ends where IP says: so many bytes behind its header's beginning. Very long ones say 0.
    fn end_behind(&mut self, length: i16, more: i32) {
        let whole = self.code.label();
        let code = &mut self.code;
        code.load(R::R0, R::Frame, length, 2);
        code.jump_if_constant(When::Equal, R::R0, 0, whole);
        code.network_to_host(R::R0, 2);
        code.load(R::R1, R::Frame, AT, 8);
        code.with(Op::Add, R::R0, R::R1);
        code.with_constant(Op::Add, R::R0, more);
        code.load(R::R2, R::Frame, END, 8);
        code.jump_if(When::AtLeast, R::R0, R::R2, whole);
        code.store(R::Frame, END, R::R0, 8);
        code.place(whole);
    }

    fn go_on_by(&mut self, bytes: R) {
        self.code.load(R::R2, R::Frame, AT, 8);
        self.code.with(Op::Add, R::R2, bytes);
        self.code.store(R::Frame, AT, R::R2, 8);
    }

    /// R0 stays.
    fn have(&mut self, bits: i32) {
        self.code.load(R::R1, R::Frame, HAVE, 8);
        self.code.with_constant(Op::Or, R::R1, bits);
        self.code.store(R::Frame, HAVE, R::R1, 8);
    }

    fn need(&mut self, bits: i32, absent: Label) {
        self.code.load(R::R0, R::Frame, HAVE, 8);
        self.code.with_constant(Op::And, R::R0, bits);
        self.code.jump_if_constant(When::Equal, R::R0, 0, absent);
    }

    /// R0 is that number of the packet's.
    pub(super) fn packet_value(&mut self, field: PacketField, absent: Label) {
        match field {
            PacketField::EtherType => self.packet_part(HAS_ETHER_TYPE, ETHER_TYPE, absent),
            PacketField::Protocol => self.packet_part(HAS_PROTOCOL, PROTOCOL, absent),
            PacketField::TcpFlags => self.packet_part(HAS_FLAGS, FLAGS, absent),
            PacketField::Port { side, of } => {
                if let Some(protocol) = of {
                    self.code.load(R::R0, R::Frame, PROTOCOL, 8);
                    self.code.jump_if_constant(When::Unequal, R::R0, protocol.into(), absent);
                }
                let at = if side == Side::Source { SOURCE_PORT } else { DESTINATION_PORT };
                self.packet_part(HAS_PORTS, at, absent);
            }
            PacketField::IsEtherType(kind) => self.is_that(ETHER_TYPE, kind.into(), absent),
            PacketField::IsProtocol(kind) => self.is_that(PROTOCOL, kind.into(), absent),
            PacketField::Leaves => self.code.constant(R::R0, self.leaves().into()),
            PacketField::Comes => self.code.constant(R::R0, (!self.leaves()).into()),
            // It is no number.
            PacketField::Address(_) => self.code.constant(R::R0, 0),
        }
    }

    /// An event that does not say it has been refused.
    fn leaves(&self) -> bool {
        self.probe.packet.as_ref().is_some_and(|places| places.network.is_some())
    }

    fn packet_part(&mut self, bits: i32, at: i16, absent: Label) {
        self.need(bits, absent);
        self.code.load(R::R0, R::Frame, at, 8);
    }

    /// R0 is 1 if that part is this, else 0.
    fn is_that(&mut self, at: i16, this: i32, absent: Label) {
        let same = self.code.label();
        self.need(HAS_ETHER_TYPE, absent);
        self.code.load(R::R1, R::Frame, at, 8);
        self.code.constant(R::R0, 1);
        self.code.jump_if_constant(When::Equal, R::R1, this, same);
        self.code.constant(R::R0, 0);
        self.code.place(same);
    }

    /// Goes on if the address begins with these bits.
    pub(super) fn compare_address(
        &mut self,
        side: Side,
        prefix: &Prefix,
        absent: Label,
        other: Label,
    ) {
        self.need(HAS_ADDRESSES, absent);
        let (family, first) = if prefix.is_v4() { (IPV4, 12) } else { (IPV6, 0) };
        self.code.load(R::R0, R::Frame, ETHER_TYPE, 8);
        self.code.jump_if_constant(When::Unequal, R::R0, family.into(), other);
        let (octets, mask) = prefix.octets_and_mask();
        let begin = first + if side == Side::Source { SOURCE } else { DESTINATION };
        for (at, (octets, mask)) in (begin..).step_by(4).zip(octets.chunks(4).zip(mask.chunks(4))) {
            let [octets, mask] = [octets, mask].map(little_endian);
            if mask == 0 {
                return;
            }
            self.code.load(R::R0, R::Frame, at, 4);
            if mask != u64::from(u32::MAX) {
                self.code.constant(R::R1, mask);
                self.code.with(Op::And, R::R0, R::R1);
            }
            self.code.constant(R::R1, octets);
            self.code.jump_if(When::Unequal, R::R0, R::R1, other);
        }
    }

    /// An address into a field of the record.
    pub(super) fn write_address(&mut self, side: Side, offset: u32, absent: Label) {
        let words = (0..ADDRESS_BYTES as i16).step_by(8);
        for word in words.clone() {
            self.code.store_constant(R::R7, offset as i16 + word, 0, 8);
        }
        self.need(HAS_ADDRESSES, absent);
        let from = if side == Side::Source { SOURCE } else { DESTINATION };
        for word in words {
            self.code.load(R::R0, R::Frame, from + word, 8);
            self.code.store(R::R7, offset as i16 + word, R::R0, 8);
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
