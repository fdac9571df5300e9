//! A file of packets (the pcapng format, draft-ietf-opsawg-pcapng), for Wireshark, tshark and tcpdump: each with
//! the process, thread and CPU as a comment.
//!
//! Takes records that have the fields of `weigh trace packets`. A packet is what lies between its link
//! header and the end of its first part; of one whose data is in pages beyond that, less is there.

use std::collections::HashMap;
use std::path::Path;

use anyhow::bail;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sets::PACKET_LEAVES;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_trace::value::Value;

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
const PACKET: u32 = 6;
/// Options: of all blocks, of sections, of interfaces, of packets.
const END: u16 = 0;
const COMMENT: u16 = 1;
const APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;
/// The two lowest bits of a packet's flags.
const INWARDS: u32 = 1;
const OUTWARDS: u32 = 2;
/// `LINKTYPE_ETHERNET`, `LINKTYPE_RAW`: an IP packet without anything before it.
const ETHERNET: u16 = 1;
const RAW: u16 = 101;
/// `ARPHRD_ETHER`, `ARPHRD_LOOPBACK` of `<linux/if_arp.h>`: devices whose packets have Ethernet's header.
const WITH_ETHERNET: [u64; 2] = [1, 772];

/// The fields of a packet, by their places in a record.
#[derive(Clone, Copy)]
struct Fields {
    len: usize,
    head: usize,
    data: usize,
    mac: usize,
    network: usize,
    tail: usize,
    dev: usize,
    ifindex: usize,
    kind: usize,
    process: usize,
    packet: usize,
}

/// A file of packets that is being written.
struct Pcapng {
    file: WholeFile,
    /// Of each probe.
    fields: HashMap<u32, Fields>,
    /// By the device's number and name.
    interfaces: HashMap<(u64, Vec<u8>), u32>,
}

impl Pcapng {
    fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Pcapng> {
        let mut fields = HashMap::new();
        for (number, probe) in probes.iter().enumerate() {
            fields.insert(number as u32, fields_of(probe)?);
        }
        let mut file = WholeFile::create(path, length)?;
        block(&mut file.pending, SECTION, |body| {
            body.extend(0x1a2b_3c4du32.to_le_bytes()); // the order of bytes
            body.extend([1, 0, 0, 0]); // version 1.0
            body.extend(u64::MAX.to_le_bytes()); // how long it is, is not known yet
            option(body, APPLICATION, b"weigh trace packets");
            option(body, END, b"");
        });
        Ok(Pcapng { file, fields, interfaces: HashMap::new() })
    }

    /// The number of an interface, which is told of when its first packet comes.
    fn interface(&mut self, device: u64, name: &[u8], link: u16, snap: u32) -> u32 {
        let next = self.interfaces.len() as u32;
        let number = *self.interfaces.entry((device, name.to_vec())).or_insert(next);
        if number == next {
            block(&mut self.file.pending, INTERFACE, |body| {
                body.extend(link.to_le_bytes());
                body.extend([0, 0]);
                body.extend(snap.to_le_bytes());
                option(body, IF_NAME, name);
                option(body, IF_RESOLUTION, &[9]); // nanoseconds
                option(body, END, b"");
            });
        }
        number
    }
}

fn fields_of(probe: &Probe) -> anyhow::Result<Fields> {
    let place = |name: &str| match probe.fields.iter().position(|field| field.name == name) {
        Some(place) => Ok(place),
        None => bail!(
            "a .pcapng file takes packets; `weigh trace packets` follows those ({} has no field '{name}')",
            probe.name
        ),
    };
    Ok(Fields {
        len: place("len")?,
        head: place("head")?,
        data: place("data")?,
        mac: place("mac")?,
        network: place("network")?,
        tail: place("tail")?,
        dev: place("dev")?,
        ifindex: place("ifindex")?,
        kind: place("type")?,
        process: place("process")?,
        packet: place("packet")?,
    })
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

fn number(value: Value<'_>) -> u64 {
    match value {
        Value::Unsigned(number) | Value::Pointer(number) => number,
        Value::Signed(number) => number.cast_unsigned(),
        _ => 0,
    }
}

fn bytes(value: Value<'_>) -> &[u8] {
    match value {
        Value::Text(bytes) | Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

impl RecordSink for Pcapng {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        let Some(at) = self.fields.get(&record.event()).copied() else { return Ok(()) };
        let values: Vec<Value<'_>> = probe.values(record).collect();
        let of = |place: usize| number(values[place]);
        let kept = bytes(values[at.packet]);
        let has_ethernet = WITH_ETHERNET.contains(&of(at.kind));
        let (mac, link) = (of(at.mac), if has_ethernet { ETHERNET } else { RAW });
        // Where the packet begins for its link type, behind the first byte that was kept.
        let skipped = if has_ethernet { 0 } else { of(at.network).saturating_sub(mac) };
        // Before `data` lies what the kernel has taken off already: `len` begins there.
        let taken_off = of(at.data).wrapping_sub(of(at.head)).saturating_sub(mac);
        let original = (of(at.len) + taken_off).saturating_sub(skipped);
        let first_part = of(at.tail).saturating_sub(mac) as usize;
        let kept = &kept[..kept.len().min(first_part)];
        let kept = kept.get(skipped as usize..).unwrap_or_default();
        let kept = &kept[..kept.len().min(original as usize)];
        let snap = probe.fields[at.packet].bytes;
        let interface = self.interface(of(at.ifindex), bytes(values[at.dev]), link, snap);
        let leaves = probe.name == PACKET_LEAVES;
        let comment = format!(
            "process {} ({}), thread {}, CPU {}, {}",
            record.tgid(),
            String::from_utf8_lossy(bytes(values[at.process])),
            record.tid(),
            record.cpu(),
            probe.name
        );
        let time = meaning.epoch_ns.saturating_add_unsigned(record.time_ns()).cast_unsigned();
        block(&mut self.file.pending, PACKET, |body| {
            for word in [interface, (time >> 32) as u32, time as u32] {
                body.extend(word.to_le_bytes());
            }
            body.extend((kept.len() as u32).to_le_bytes());
            body.extend((original as u32).to_le_bytes());
            padded(body, kept);
            option(body, COMMENT, comment.as_bytes());
            option(body, FLAGS, &(if leaves { OUTWARDS } else { INWARDS }).to_le_bytes());
            option(body, END, b"");
        });
        self.file.write_much()
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        self.fields.insert(number as u32, fields_of(probe)?);
        Ok(())
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.file.write()
    }

    fn finish(mut self: Box<Self>, _: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        self.file.write().map(|()| None)
    }
}
