//! A file of packets (the pcapng format, draft-ietf-opsawg-pcapng), for Wireshark, tshark and tcpdump: each with
//! the process, thread and CPU as a comment, where the records say them.
//!
//! How many end before the snap length, because the kernel gave no more, the file says at its end.

mod blocks;
mod comments;

use std::path::Path;

use weigh_trace::packet_sizes::PacketCounts;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};

use super::super::format::StreamFormat;
use super::super::whole_file::{Insert, WholeFile};
use super::layout::{Extent, Layout, Link, Name};
use super::repeated::Repeated;
use blocks::{COMMENT, END, block, length, option};
use comments::{CommentKey, Comments};

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
/// Options: of sections, of interfaces, of their statistics, of packets.
const APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_RESOLUTION: u16 = 9;
const RECEIVED: u16 = 4;
const DROPPED_BY_SYSTEM: u16 = 7;
const FLAGS: u16 = 2;
/// The two lowest bits of a packet's flags.
const INWARDS: u32 = 1;
const OUTWARDS: u32 = 2;

/// Bytes of a packet's block before the packet.
const PACKET_HEAD: usize = 28;

/// An interface that the file has told of.
struct Interface {
    index: u64,
    name: Name,
    packets: u64,
}

/// What stands around packets of a device, a thread and a CPU.
struct Frame {
    link: Link,
    interface: u32,
    /// The options of their blocks.
    options: Vec<u8>,
}

/// A file of packets that is being written.
struct Pcapng {
    file: WholeFile,
    /// Of each probe, by its number.
    probes: Vec<Option<Repeated<Frame>>>,
    interfaces: Vec<Interface>,
    comments: Comments,
    /// Packets that were cut before the snap length.
    cut: u64,
}

impl Pcapng {
    fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Pcapng> {
        let probes = probes.iter().map(|probe| Repeated::new(probe).map(Some));
        let probes = probes.collect::<Result<_, _>>()?;
        let mut file = WholeFile::create(path, length)?;
        block(&mut file.pending, SECTION, |body| {
            body.extend(0x1a2b_3c4du32.to_le_bytes()); // the order of bytes
            body.extend([1, 0, 0, 0]); // version 1.0
            body.extend(u64::MAX.to_le_bytes()); // how long it is, is not known yet
            option(body, APPLICATION, b"weigh trace packets");
            option(body, END, b"");
        });
        let (interfaces, comments) = (Vec::new(), Comments::default());
        Ok(Pcapng { file, probes, interfaces, comments, cut: 0 })
    }

    /// Puts the block of a packet behind what waits; a long packet is only said to belong there.
    fn put<'r>(&mut self, record: Record<'r>, meaning: &Meaning, inserts: &mut Vec<Insert<'r>>) {
        let Pcapng { file, probes, interfaces, comments, cut } = self;
        let probe = probes.get_mut(record.event() as usize).and_then(Option::as_mut);
        let Some(probe) = probe else { return };
        let layout = probe.layout;
        let Frame { link, interface, options } = probe.find(record, || {
            let link = layout.link(record);
            let interface = find_interface(interfaces, layout.device(record), |name| {
                write_interface(&mut file.pending, name, link.number, layout.snap);
            });
            Frame { link, interface, options: options(&layout, record, comments) }
        });
        interfaces[*interface as usize].packets += 1;
        let Extent { kept, original, is_cut } = layout.extent(record, *link);
        *cut += u64::from(is_cut);
        let time = meaning.epoch_ns.saturating_add_unsigned(record.time_ns()).cast_unsigned();
        let room = kept.len().next_multiple_of(4);
        let length = (PACKET_HEAD + room + options.len() + 4) as u32;
        let mut head = [0; PACKET_HEAD];
        let words =
            [PACKET, length, *interface, (time >> 32) as u32, time as u32, kept.len() as u32];
        for (to, word) in head.chunks_exact_mut(4).zip(words.into_iter().chain([original as u32])) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        file.pending.reserve(length as usize);
        file.pending.extend_from_slice(&head);
        file.put(kept, inserts);
        let pending = &mut file.pending;
        pending.resize(pending.len() + room - kept.len(), 0);
        pending.extend_from_slice(options);
        pending.extend_from_slice(&length.to_le_bytes());
    }

    /// How many packets of each interface there were, and what is missing.
    fn write_statistics(&mut self, lost: u64) {
        let Pcapng { file, interfaces, cut, .. } = self;
        let is_one = interfaces.len() == 1;
        let remark =
            format!("of all interfaces: {lost} packets lost, {cut} cut before the snap length");
        for (number, interface) in (0u32..).zip(&*interfaces) {
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

/// The number of a packet's interface, of which `tell` tells when its first packet comes.
fn find_interface(
    all: &mut Vec<Interface>,
    (index, name): (u64, Name),
    tell: impl FnOnce(Name),
) -> u32 {
    let is = |one: &Interface| one.index == index && one.name == name;
    let number = all.iter().position(is).unwrap_or_else(|| {
        tell(name);
        all.push(Interface { index, name, packets: 0 });
        all.len() - 1
    });
    number as u32
}

/// The options of a packet's block: its comment, if it has one, its direction, and their end.
fn options(layout: &Layout, record: Record<'_>, comments: &mut Comments) -> Vec<u8> {
    let key = layout.thread(record).map(|name| CommentKey {
        tgid: record.tgid(),
        tid: record.tid(),
        cpu: record.cpu(),
        name,
    });
    let mut options = key.map_or_else(Vec::new, |key| comments.option(key).to_vec());
    let flags = if layout.leaves { OUTWARDS } else { INWARDS };
    option(&mut options, FLAGS, &flags.to_le_bytes());
    option(&mut options, END, b"");
    options
}

impl RecordSink for Pcapng {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        self.take_all(&[(probe, record)], meaning)
    }

    fn take_all(
        &mut self,
        batch: &[(&Probe, Record<'_>)],
        meaning: &Meaning,
    ) -> anyhow::Result<()> {
        let mut inserts = Vec::new();
        for (_, record) in batch {
            self.put(*record, meaning, &mut inserts);
        }
        self.file.write_much_with(&inserts)
    }

    fn needs_order(&self) -> bool {
        false
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        Repeated::add(&mut self.probes, number, probe)
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.file.write()
    }

    fn finish(mut self: Box<Self>, totals: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        self.write_statistics(totals.lost());
        self.file.write()?;
        let packets = self.interfaces.iter().map(|interface| interface.packets).sum();
        Ok(PacketCounts { packets, cut: self.cut }.remark())
    }
}

fn write_interface(to: &mut Vec<u8>, name: Name, link: u16, snap: u32) {
    block(to, INTERFACE, |body| {
        body.extend(link.to_le_bytes());
        body.extend([0, 0]);
        body.extend(snap.to_le_bytes());
        option(body, IF_NAME, &name.text());
        option(body, IF_RESOLUTION, &[9]); // nanoseconds
        option(body, END, b"");
    });
}
