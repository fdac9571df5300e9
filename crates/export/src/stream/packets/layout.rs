//! Where a packet and what belongs to it lie in a record, and which bytes of it a file gets.

use std::ops::Range;

use anyhow::bail;
use weigh_trace::probe::{Probe, ProbeField};
use weigh_trace::record::{Record, offset};
use weigh_trace::sets::PACKET_LEAVES;
use weigh_trace::value::PlainNumber;

/// The kernel's names of devices and of threads, with their end.
const NAME_BYTES: usize = 16;
/// `LINKTYPE_ETHERNET`, `LINKTYPE_RAW`: an IP packet without anything before it.
pub const ETHERNET: u16 = 1;
const RAW: u16 = 101;
/// `ARPHRD_ETHER`, `ARPHRD_LOOPBACK` of `<linux/if_arp.h>`: devices whose packets have Ethernet's header.
const WITH_ETHERNET: [u64; 2] = [1, 772];
/// The offset of a link header that nobody has set.
const UNSET: u64 = 0xffff;

/// Where a packet's fields lie in a record.
#[derive(Clone, Copy)]
pub struct Layout {
    length: PlainNumber,
    kept: PlainNumber,
    mac: PlainNumber,
    network: PlainNumber,
    ifindex: PlainNumber,
    kind: PlainNumber,
    dev: usize,
    process: Option<usize>,
    packet: usize,
    /// Bytes of a packet at most.
    pub snap: u32,
    /// Whether it leaves there.
    pub leaves: bool,
}

/// Which bytes of a packet's record are written, and how many the packet had.
pub struct Extent<'r> {
    /// They.
    pub kept: &'r [u8],
    /// How many it had.
    pub original: u64,
    /// Whether more was wanted.
    pub is_cut: bool,
}

/// How a packet begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its link type.
    pub number: u16,
    /// So many bytes were kept before that.
    skipped: u64,
}

/// A name without its end, the first byte is the lowest; the others are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Name(u128);

impl Layout {
    /// Refuses an event without the fields of packets.
    pub fn new(probe: &Probe) -> anyhow::Result<Layout> {
        let field = |name: &str| match probe.fields.iter().find(|field| field.name == name) {
            Some(field) => Ok(field),
            None => bail!(
                "a file of packets takes nothing else; `weigh trace packets` follows those ({} has no field '{name}')",
                probe.name
            ),
        };
        let number = |name: &str| match field(name)?.plain_number() {
            Some(number) => Ok(number),
            None => bail!("{}: the field '{name}' is no number", probe.name),
        };
        let place = |field: &ProbeField| field.offset as usize;
        let packet = field("packet")?;
        Ok(Layout {
            length: number("packet_length")?,
            kept: number("packet_kept")?,
            mac: number("mac")?,
            network: number("network")?,
            ifindex: number("ifindex")?,
            kind: number("type")?,
            dev: place(field("dev")?),
            process: field("process").ok().map(place),
            packet: place(packet),
            snap: packet.bytes,
            leaves: probe.name == PACKET_LEAVES,
        })
    }

    /// Which bytes of a record [`Layout::device`], [`Layout::thread`] and [`Layout::link`] read, and those of its CPU and
    /// thread where these are wanted.
    pub fn repeated(&self, probe: &Probe) -> Vec<Range<usize>> {
        let numbers = ["mac", "network", "ifindex", "type"];
        let numbers = probe.fields.iter().filter(|field| numbers.contains(&field.name.as_str()));
        let numbers =
            numbers.map(|field| field.offset as usize..(field.offset + field.bytes) as usize);
        let names = self.process.into_iter().chain([self.dev]).map(|at| at..at + NAME_BYTES);
        let header = self.process.map(|_| offset::cpu..offset::absent);
        header.into_iter().chain(numbers).chain(names).collect()
    }

    /// The number of its device, and that one's name.
    pub fn device(&self, record: Record<'_>) -> (u64, Name) {
        (number(self.ifindex, record), Name::read(record, self.dev))
    }

    /// The name of its thread, where the record has it.
    pub fn thread(&self, record: Record<'_>) -> Option<Name> {
        self.process.map(|place| Name::read(record, place))
    }

    /// How it begins.
    pub fn link(&self, record: Record<'_>) -> Link {
        match WITH_ETHERNET.contains(&number(self.kind, record)) {
            true => Link { number: ETHERNET, skipped: 0 },
            false => Link { number: RAW, skipped: self.link_header(record) },
        }
    }

    /// Its bytes.
    pub fn extent<'r>(&self, record: Record<'r>, link: Link) -> Extent<'r> {
        let length = number(self.length, record);
        let wanted = number(self.kept, record).min(self.snap.into());
        let bytes = record.bytes().get(self.packet..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(wanted as usize)];
        let original = length.saturating_sub(link.skipped);
        let kept = bytes.get(link.skipped as usize..).unwrap_or_default();
        Extent {
            kept: &kept[..kept.len().min(original as usize)],
            original,
            is_cut: (bytes.len() as u64) < length.min(self.snap.into()),
        }
    }

    /// Bytes before the network's header.
    fn link_header(&self, record: Record<'_>) -> u64 {
        match number(self.mac, record) {
            UNSET => 0,
            mac => number(self.network, record).saturating_sub(mac),
        }
    }
}

fn number(field: PlainNumber, record: Record<'_>) -> u64 {
    field.of(record).unwrap_or_default().cast_unsigned()
}

impl Name {
    /// The name that lies there in a record.
    fn read(record: Record<'_>, at: usize) -> Name {
        let bytes = record.bytes().get(at..).unwrap_or_default();
        match bytes.first_chunk() {
            Some(room) => Name(until_end(u128::from_le_bytes(*room))),
            None => {
                let mut room = [0; NAME_BYTES];
                room[..bytes.len()].copy_from_slice(bytes);
                Name(until_end(u128::from_le_bytes(room)))
            }
        }
    }

    /// Its bytes.
    pub fn text(self) -> Vec<u8> {
        let bytes = self.0.to_le_bytes();
        bytes.into_iter().take_while(|byte| *byte != 0).collect()
    }
}

/// Without the first byte that is 0 and what lies behind it.
fn until_end(room: u128) -> u128 {
    const ONES: u128 = u128::MAX / 255;
    // Of the bits that this sets the lowest is in the first byte that is 0.
    match room.wrapping_sub(ONES) & !room & (ONES << 7) {
        0 => room,
        ends => room & ((1 << (ends.trailing_zeros() - 7)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_with_its_first_0() {
        let cases: [(&[u8; 16], &[u8]); 5] = [
            (b"lo\0garbage\0\x80\xff\x01..", b"lo"),
            (b"0123456789abcdef", b"0123456789abcdef"),
            (b"0123456789abcde\0", b"0123456789abcde"),
            (&[0; 16], b""),
            (b"\x01\x80\xff\x01\0\x01\0\0\0\0\0\0\0\0\0\x01", b"\x01\x80\xff\x01"),
        ];
        for (room, name) in cases {
            assert_eq!(Name(until_end(u128::from_le_bytes(*room))).text(), name, "{room:?}");
        }
    }
}
