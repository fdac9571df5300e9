//! A file of packets in the format that `tcpdump -w` writes (libpcap's, draft-ietf-opsawg-pcap), with times in
//! nanoseconds: their bytes, and nothing else.
//!
//! All packets of a file have one link type, that of the first one; others are left out, and counted.

use std::path::Path;

use weigh_trace::packet_sizes::PacketCounts;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};

use super::super::format::StreamFormat;
use super::super::whole_file::{Insert, WholeFile};
use super::layout::{ETHERNET, Extent, Link};
use super::repeated::Repeated;

/// A file of packets.
pub const FORMAT: StreamFormat = StreamFormat {
    endings: &[".pcap"],
    create: |file| Ok(Box::new(Pcap::create(file.path, file.probes)?)),
};

/// A file of version 2.4 whose times are in nanoseconds begins like this.
const BEGIN: [u8; 8] = [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
/// Bytes of the file before its packets.
const FILE_HEAD: usize = 24;
/// Bytes before a packet.
const PACKET_HEAD: usize = 16;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// A file of packets that is being written.
struct Pcap {
    file: WholeFile,
    /// Of each probe, by its number: how its packets begin.
    probes: Vec<Option<Repeated<Link>>>,
    /// The greatest snap length of those that were there at first.
    snap: u32,
    /// The link type of the file; none as long as it is empty.
    link: Option<u16>,
    counts: PacketCounts,
    /// Packets of another link type.
    left_out: u64,
}

impl Pcap {
    fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Pcap> {
        let probes: Vec<_> =
            probes.iter().map(|probe| Repeated::new(probe)).collect::<Result<_, _>>()?;
        let snap = probes.iter().map(|probe| probe.layout.snap).max().unwrap_or_default();
        Ok(Pcap {
            file: WholeFile::create(path, length)?,
            probes: probes.into_iter().map(Some).collect(),
            snap,
            link: None,
            counts: PacketCounts::default(),
            left_out: 0,
        })
    }

    /// Begins the file, if that has not been done: its packets have this link type.
    fn begin(&mut self, link: u16) -> u16 {
        let Pcap { file, snap, .. } = self;
        *self.link.get_or_insert_with(|| {
            file.pending.extend(BEGIN);
            file.pending.extend([0; 8]); // times are UTC; how exact they are, nobody says
            file.pending.extend(snap.to_le_bytes());
            file.pending.extend(u32::from(link).to_le_bytes());
            link
        })
    }

    /// Puts a packet behind what waits; a long one is only said to belong there.
    fn put<'r>(&mut self, record: Record<'r>, meaning: &Meaning, inserts: &mut Vec<Insert<'r>>) {
        let probe = self.probes.get_mut(record.event() as usize).and_then(Option::as_mut);
        let Some(probe) = probe else { return };
        let layout = probe.layout;
        let link = *probe.find(record, || layout.link(record));
        if self.begin(link.number) != link.number {
            self.left_out += 1;
            return;
        }
        let Extent { kept, original, is_cut } = layout.extent(record, link);
        self.counts.packets += 1;
        self.counts.cut += u64::from(is_cut);
        let time = meaning.epoch_ns.saturating_add_unsigned(record.time_ns()).cast_unsigned();
        let (seconds, ns) = (time / NS_PER_SECOND, time % NS_PER_SECOND);
        let mut head = [0; PACKET_HEAD];
        let words = [seconds as u32, ns as u32, kept.len() as u32, original as u32];
        for (to, word) in head.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.file.pending.extend_from_slice(&head);
        self.file.put(kept, inserts);
    }
}

/// How long the head of the file is, or a packet with its own, that begins here.
fn length(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(&BEGIN) {
        return Some(FILE_HEAD);
    }
    let kept = bytes.get(8..12)?.try_into().ok()?;
    Some(PACKET_HEAD + u32::from_le_bytes(kept) as usize)
}

impl RecordSink for Pcap {
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

    fn finish(mut self: Box<Self>, _: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        self.begin(ETHERNET);
        self.file.write()?;
        let left_out = (self.left_out > 0).then(|| {
            format!(
                "{} packets are left out: a .pcap has packets of one link type, Ethernet's or plain IP; a .pcapng has both",
                self.left_out
            )
        });
        let mut ways = self.probes.iter().flatten().map(|probe| probe.layout.leaves);
        let has_both = ways.next().is_some_and(|first| ways.any(|other| other != first));
        let has_both = has_both.then(|| {
            "a .pcap says of no packet whether it leaves or comes in, nor of which process it is; a .pcapng does".into()
        });
        let remarks = has_both.into_iter().chain(left_out).chain(self.counts.remark());
        let remarks: Vec<String> = remarks.collect();
        Ok((!remarks.is_empty()).then(|| remarks.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::repeated::tests::{probe, record};
    use super::*;

    /// A record of a packet of 1,000 bytes, of which so many were kept, of a device of this kind.
    fn packet(kept: u32, kind: u16) -> Vec<u8> {
        let mut bytes = record(&[]);
        bytes[8..16].copy_from_slice(&5_000_000_007u64.to_le_bytes());
        bytes[72..76].copy_from_slice(&1000u32.to_le_bytes());
        bytes[76..80].copy_from_slice(&kept.to_le_bytes());
        // What lies before the network's header, where there is no Ethernet's.
        bytes[84..88].copy_from_slice(&[3, 0, 5, 0]);
        bytes[88..90].copy_from_slice(&kind.to_le_bytes());
        bytes[..4].fill(0);
        bytes
    }

    fn written(packets: &[Vec<u8>]) -> (Vec<u8>, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let (path, probe) = (folder.path().join("x.pcap"), probe());
        let mut file = Box::new(Pcap::create(&path, &[&probe]).unwrap());
        let meaning = Meaning::recorded(0, 2_000_000_000, &[]);
        let batch: Vec<_> =
            packets.iter().map(|bytes| (&probe, Record::new(bytes).unwrap())).collect();
        file.take_all(&batch, &meaning).unwrap();
        let remark = file.finish(&Totals::default(), &meaning).unwrap();
        (std::fs::read(&path).unwrap(), remark)
    }

    #[test]
    fn packets_of_another_link_type_than_the_first_are_left_out_and_counted() {
        let head = |link: u8| [&BEGIN[..], &[0; 8], &[64, 0, 0, 0, link, 0, 0, 0]].concat();
        // 7 s and 7 ns.
        let packet_head =
            |kept: u8, of: u16| [7, 7, kept.into(), u32::from(of)].map(u32::to_le_bytes).concat();
        let none = 65_534;
        let (file, remark) = written(&[packet(60, 1), packet(60, none), packet(60, 772)]);
        let one = [packet_head(60, 1000), vec![7; 60]].concat();
        assert_eq!(file, [head(1), one.clone(), one].concat());
        let remark = remark.unwrap();
        assert!(remark.starts_with("1 packets are left out") && remark.contains("; 2 of 2 "));
        let (file, _) = written(&[packet(60, none), packet(60, 1), packet(60, 1)]);
        assert_eq!(file, [head(101), packet_head(58, 998), vec![7; 58]].concat());
        assert_eq!(written(&[]), (head(1), None));
    }

    #[test]
    fn a_piece_is_the_head_of_the_file_or_a_packet() {
        let (file, _) = written(&[packet(64, 1), packet(13, 1)]);
        assert_eq!(length(&file), Some(24));
        assert_eq!(length(&file[24..]), Some(16 + 64));
        assert_eq!(length(&file[24 + 80..]), Some(16 + 13));
        assert_eq!((length(&file[24 + 80 + 29..]), length(&file[..11])), (None, Some(24)));
    }
}
