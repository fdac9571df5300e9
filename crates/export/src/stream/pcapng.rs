//! A file of packets (the pcapng format, draft-ietf-opsawg-pcapng), for Wireshark, tshark and tcpdump: each with
//! the process, thread and CPU as a comment, where the records say them.
//!
//! Takes records that have the fields of `weigh trace packets`. A packet is what was kept of it from its link header on;
//! how many end before the snap length, because the kernel gave no more, the file says at its end.

use std::collections::HashMap;
use std::path::Path;

use anyhow::bail;
use weigh_trace::probe::{Probe, ProbeField};
use weigh_trace::record::Record;
use weigh_trace::sets::PACKET_LEAVES;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_trace::value::PlainNumber;

use super::format::StreamFormat;
use super::whole_file::WholeFile;

/// A file of packets.
pub const FORMAT: StreamFormat = StreamFormat {
    endings: &[".pcapng"],
    create: |file| Ok(Box::new(Pcapng::create(file.path, file.probes)?)),
};

/// Kinds of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Options: of all blocks, of sections, of interfaces, of their statistics, of packets.
const END: u16 = 0;
const COMMENT: u16 = 1;
const APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_RESOLUTION: u16 = 9;
const RECEIVED: u16 = 4;
const DROPPED_BY_SYSTEM: u16 = 7;
const FLAGS: u16 = 2;
/// The two lowest bits of a packet's flags.
const INWARDS: u32 = 1;
const OUTWARDS: u32 = 2;
/// `LINKTYPE_ETHERNET`, `LINKTYPE_RAW`: an IP packet without anything before it.
const ETHERNET: u16 = 1;
const RAW: u16 = 101;
/// `ARPHRD_ETHER`, `ARPHRD_LOOPBACK` of `<linux/if_arp.h>`: devices whose packets have Ethernet's header.
const WITH_ETHERNET: [u64; 2] = [1, 772];

/// The offset of a link header that nobody has set.
const UNSET: u64 = 0xffff;
/// The kernel's names of devices and of threads, with their end.
const NAME_BYTES: usize = 16;
/// Threads whose comments are kept.
const COMMENTS: usize = 4096;
/// Bytes of a packet's block before the packet.
const PACKET_HEAD: usize = 28;

/// Where a packet's fields lie in a record.
#[derive(Clone, Copy)]
struct Fields {
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
    snap: u32,
    leaves: bool,
}

/// An interface that the file has told of.
struct Interface {
    index: u64,
    name: Name,
    packets: u64,
}

/// A name with its end, in the room that the kernel has for it.
type Name = [u8; NAME_BYTES];

/// What a comment says: process, thread, CPU, the thread's name.
type CommentKey = (u32, u32, u32, Name);

/// Comments, each made once.
#[derive(Default)]
struct Comments {
    /// Each an option, whole.
    made: HashMap<CommentKey, Box<[u8]>>,
}

impl Comments {
    fn option(&mut self, key: CommentKey) -> &[u8] {
        if self.made.len() >= COMMENTS && !self.made.contains_key(&key) {
            self.made.clear();
        }
        self.made.entry(key).or_insert_with(|| {
            let (tgid, tid, cpu, name) = key;
            let name = String::from_utf8_lossy(text(&name));
            let thread = if tid == tgid { String::new() } else { format!("/{tid}") };
            let mut made = Vec::new();
            option(&mut made, COMMENT, format!("{name} {tgid}{thread} cpu {cpu}").as_bytes());
            made.into()
        })
    }
}

/// A file of packets that is being written.
struct Pcapng {
    file: WholeFile,
    /// Of each probe, by its number.
    fields: Vec<Fields>,
    interfaces: Vec<Interface>,
    comments: Comments,
    /// The comment of the last packet, and whose that was.
    last: Option<(CommentKey, Vec<u8>)>,
    /// Packets that were cut before the snap length.
    cut: u64,
}

impl Pcapng {
    fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Pcapng> {
        let fields = probes.iter().map(|probe| fields_of(probe)).collect::<anyhow::Result<_>>()?;
        let mut file = WholeFile::create(path, length)?;
        block(&mut file.pending, SECTION, |body| {
            body.extend(0x1a2b_3c4du32.to_le_bytes()); // the order of bytes
            body.extend([1, 0, 0, 0]); // version 1.0
            body.extend(u64::MAX.to_le_bytes()); // how long it is, is not known yet
            option(body, APPLICATION, b"weigh trace packets");
            option(body, END, b"");
        });
        let (interfaces, comments) = (Vec::new(), Comments::default());
        Ok(Pcapng { file, fields, interfaces, comments, last: None, cut: 0 })
    }

    /// The number of an interface, which is told of when its first packet comes.
    fn interface(&mut self, index: u64, name: Name, link: u16, snap: u32) -> u32 {
        let is = |one: &Interface| one.index == index && one.name == name;
        let number = self.interfaces.iter().position(is).unwrap_or(self.interfaces.len());
        if number == self.interfaces.len() {
            self.interfaces.push(Interface { index, name, packets: 0 });
            block(&mut self.file.pending, INTERFACE, |body| {
                body.extend(link.to_le_bytes());
                body.extend([0, 0]);
                body.extend(snap.to_le_bytes());
                option(body, IF_NAME, text(&name));
                option(body, IF_RESOLUTION, &[9]); // nanoseconds
                option(body, END, b"");
            });
        }
        self.interfaces[number].packets += 1;
        number as u32
    }

    /// The last comment is this packet's, too, mostly.
    fn find_comment(&mut self, at: Fields, record: Record<'_>) {
        let Some(process) = at.process else { return };
        let key = (record.tgid(), record.tid(), record.cpu(), name(record, process));
        if self.last.as_ref().is_none_or(|(last, _)| *last != key) {
            self.last = Some((key, self.comments.option(key).to_vec()));
        }
    }

    /// How many packets of each interface there were, and what is missing.
    fn write_statistics(&mut self, lost: u64) {
        let Pcapng { file, interfaces, cut, .. } = self;
        let is_one = interfaces.len() == 1;
        let remark =
            format!("of all interfaces: {lost} packets lost, {cut} cut before the snap length");
        for (number, interface) in (0u32..).zip(interfaces.iter()) {
            block(&mut file.pending, STATISTICS, |body| {
                body.extend(number.to_le_bytes());
                body.extend([0; 8]);
                if number == 0 {
                    option(body, COMMENT, remark.as_bytes());
                }
                option(body, RECEIVED, &interface.packets.to_le_bytes());
                // Of which interface those are that no record was made of, nobody knows.
                if is_one {
                    option(body, DROPPED_BY_SYSTEM, &lost.to_le_bytes());
                }
                option(body, END, b"");
            });
        }
    }
}

fn fields_of(probe: &Probe) -> anyhow::Result<Fields> {
    let field = |name: &str| match probe.fields.iter().find(|field| field.name == name) {
        Some(field) => Ok(field),
        None => bail!(
            "a .pcapng file takes packets; `weigh trace packets` follows those ({} has no field '{name}')",
            probe.name
        ),
    };
    let number = |name: &str| match field(name)?.plain_number() {
        Some(number) => Ok(number),
        None => bail!("{}: the field '{name}' is no number", probe.name),
    };
    let place = |field: &ProbeField| field.offset as usize;
    let packet = field("packet")?;
    Ok(Fields {
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

/// The name that lies there in a record.
fn name(record: Record<'_>, at: usize) -> Name {
    let mut name = Name::default();
    let bytes = record.bytes().get(at..at + NAME_BYTES).unwrap_or_default();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    name[..end].copy_from_slice(&bytes[..end]);
    name
}

/// A name without its end.
fn text(name: &Name) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A block: its kind, its length, what is in it, its length again.
fn block(to: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let begin = to.len();
    to.extend(kind.to_le_bytes());
    to.extend([0; 4]);
    fill(to);
    let length = ((to.len() - begin + 4) as u32).to_le_bytes();
    to[begin + 4..begin + 8].copy_from_slice(&length);
    to.extend(length);
}

fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    to.extend(code.to_le_bytes());
    to.extend((value.len() as u16).to_le_bytes());
    padded(to, value);
}

/// Everything begins at a multiple of 4 bytes.
fn padded(to: &mut Vec<u8>, value: &[u8]) {
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// How long a block is that begins here.
fn length(bytes: &[u8]) -> Option<usize> {
    let word = bytes.get(4..8)?.try_into().ok()?;
    Some(u32::from_le_bytes(word) as usize)
}

/// Which bytes of a packet's record are written, and how many the packet had.
struct Extent<'r> {
    kept: &'r [u8],
    original: u64,
    link: u16,
    /// Whether more was wanted.
    is_cut: bool,
}

impl<'r> Extent<'r> {
    fn new(at: Fields, record: Record<'r>) -> Extent<'r> {
        let of = |number: PlainNumber| number.of(record).unwrap_or_default().cast_unsigned();
        let (length, kept) = (of(at.length), of(at.kept).min(u64::from(at.snap)));
        let bytes = record.bytes().get(at.packet..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(kept as usize)];
        let (mac, has_ethernet) = (of(at.mac), WITH_ETHERNET.contains(&of(at.kind)));
        // Where the packet begins for its link type, behind the first byte that was kept.
        let is_whole = has_ethernet || mac == UNSET;
        let skipped = if is_whole { 0 } else { of(at.network).saturating_sub(mac) };
        let original = length.saturating_sub(skipped);
        let kept = bytes.get(skipped as usize..).unwrap_or_default();
        Extent {
            kept: &kept[..kept.len().min(original as usize)],
            original,
            link: if has_ethernet { ETHERNET } else { RAW },
            is_cut: (bytes.len() as u64) < length.min(at.snap.into()),
        }
    }
}

impl RecordSink for Pcapng {
    fn take(&mut self, _: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        let Some(at) = self.fields.get(record.event() as usize).copied() else { return Ok(()) };
        let Extent { kept, original, link, is_cut } = Extent::new(at, record);
        self.cut += u64::from(is_cut);
        let index = at.ifindex.of(record).unwrap_or_default().cast_unsigned();
        let interface = self.interface(index, name(record, at.dev), link, at.snap);
        self.find_comment(at, record);
        let comment = self.last.as_ref().filter(|_| at.process.is_some());
        let comment = comment.map_or(&[][..], |(_, comment)| comment);
        let time = meaning.epoch_ns.saturating_add_unsigned(record.time_ns()).cast_unsigned();
        let room = kept.len().next_multiple_of(4);
        let options = option_of_flags(if at.leaves { OUTWARDS } else { INWARDS });
        let length = (PACKET_HEAD + room + comment.len() + options.len() + 4) as u32;
        let mut head = [0; PACKET_HEAD];
        let words =
            [PACKET, length, interface, (time >> 32) as u32, time as u32, kept.len() as u32];
        for (to, word) in head.chunks_exact_mut(4).zip(words.into_iter().chain([original as u32])) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let pending = &mut self.file.pending;
        pending.reserve(length as usize);
        pending.extend_from_slice(&head);
        pending.extend_from_slice(kept);
        pending.extend_from_slice(&[0; 3][..room - kept.len()]);
        pending.extend_from_slice(comment);
        pending.extend_from_slice(&options);
        pending.extend_from_slice(&length.to_le_bytes());
        self.file.write_much()
    }

    fn needs_order(&self) -> bool {
        false
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        let fields = fields_of(probe)?;
        // Each has a number of its own, in the order in which they come.
        self.fields.resize(number + 1, fields);
        Ok(())
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.file.write()
    }

    fn finish(mut self: Box<Self>, totals: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        self.write_statistics(totals.lost());
        self.file.write()?;
        let packets: u64 = self.interfaces.iter().map(|interface| interface.packets).sum();
        Ok((self.cut > 0).then(|| {
            format!(
                "{} of {packets} packets end before --snap: this kernel gives no more of them than their first part",
                self.cut
            )
        }))
    }
}

/// The flags of a packet, and the end of its options.
fn option_of_flags(flags: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&FLAGS.to_le_bytes());
    bytes[2..4].copy_from_slice(&4u16.to_le_bytes());
    bytes[4..8].copy_from_slice(&flags.to_le_bytes());
    bytes
}
