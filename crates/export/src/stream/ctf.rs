//! A trace in the Common Trace Format 1.8, for babeltrace2, Trace Compass and their like: a folder with a file
//! that describes the events, and one that has them.
//!
//! Takes records in the order in which they come, which is nearly that of their times, and writes them in the
//! order of their times, as readers want it: what is younger than [`HELD_NS`] waits for what may still come.
//! One that comes later than that has the time of the one before it. A value that could not be had is 0, or
//! empty, and has its bit in `absent`.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use weigh_trace::path_resolve::Shape;
use weigh_trace::probe::{Probe, ProbeField};
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_trace::value::Value;

use super::format::StreamFormat;
use super::whole_file::WholeFile;

/// A trace in the Common Trace Format.
pub const FORMAT: StreamFormat = StreamFormat {
    endings: &[".ctf"],
    create: |file| Ok(Box::new(Ctf::create(file.path, file.probes)?)),
};

/// Records of several CPUs come in an order that is wrong by less than that.
const HELD_NS: u64 = 20_000_000;
/// A packet is not made of more.
const PACKET_BYTES: usize = 1 << 20;
const MAGIC: u32 = 0xc1fc_1fc1;
/// `magic`, `stream_id`, and the packet's context: see [`HEAD`].
const PACKET_HEAD: usize = 48;
/// Where the packet says how long it is, in bits.
const PACKET_SIZE: usize = 32;

/// What all traces have in common.
const HEAD: &str = "\
/* CTF 1.8 */

typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := address_t;
typealias integer { size = 32; align = 8; signed = false; base = 2; } := bits_t;

trace {
	major = 1;
	minor = 8;
	byte_order = le;
	packet.header := struct { uint32_t magic; uint32_t stream_id; };
};

";

const STREAM: &str = "\
typealias integer { size = 64; align = 8; signed = false; map = clock.boottime.value; } := time_t;

stream {
	id = 0;
	packet.context := struct {
		time_t timestamp_begin;
		time_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
		uint64_t events_discarded;
	};
	event.header := struct { uint32_t id; time_t timestamp; };
	event.context := struct { uint32_t _cpu; uint32_t _tgid; uint32_t _tid; address_t _id; bits_t _absent; };
};

";

/// A record that waits: its time, and where it lies among those that do.
struct HeldRecord {
    time_ns: u64,
    from: usize,
    to: usize,
}

/// A trace that is being written.
struct Ctf {
    stream: WholeFile,
    metadata: PathBuf,
    /// What of the metadata is not written yet.
    described: String,
    is_begun: bool,
    bytes: Vec<u8>,
    held: Vec<HeldRecord>,
    newest_ns: u64,
    /// The time of the last record that was written.
    last_ns: u64,
}

impl Ctf {
    /// Makes the folder and its files.
    fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Ctf> {
        DirBuilder::new()
            .recursive(true)
            .create(path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        let length = |bytes: &[u8]| {
            let bits = bytes.get(PACKET_SIZE..PACKET_SIZE + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bits) as usize / 8)
        };
        let metadata = path.join("metadata");
        File::create(&metadata).with_context(|| format!("cannot write {}", metadata.display()))?;
        let mut trace = Ctf {
            stream: WholeFile::create(&path.join("stream"), length)?,
            metadata,
            described: String::new(),
            is_begun: false,
            bytes: Vec::new(),
            held: Vec::new(),
            newest_ns: 0,
            last_ns: 0,
        };
        probes.iter().enumerate().for_each(|(number, probe)| trace.describe(number, probe));
        Ok(trace)
    }

    /// An event's declaration.
    fn describe(&mut self, number: usize, probe: &Probe) {
        let mut names: Vec<String> = Vec::new();
        let mut fields = String::new();
        for field in &probe.fields {
            let mut name = identifier(&field.name);
            while names.contains(&name) {
                name.push('_');
            }
            fields.push_str(&declaration(field, &name));
            names.push(name);
        }
        let _ = write!(
            self.described,
            "event {{\n\tid = {number};\n\tstream_id = 0;\n\tname = \"{}\";\n\tfields := struct {{{fields} }};\n}};\n\n",
            probe.name.replace(['"', '\\', '\n'], "_")
        );
    }

    /// Writes what of the description is new: before the first record that needs it.
    fn write_description(&mut self, epoch_ns: i64) -> anyhow::Result<()> {
        if self.described.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        if !self.is_begun {
            let _ = write!(
                text,
                "{HEAD}env {{ tracer_name = \"weigh\"; tracer_major = {}; tracer_minor = {}; }};\n\n\
                 clock {{\n\tname = boottime;\n\tdescription = \"CLOCK_BOOTTIME\";\n\tfreq = 1000000000;\n\t\
                 offset = {epoch_ns};\n}};\n\n{STREAM}",
                env!("CARGO_PKG_VERSION_MAJOR"),
                env!("CARGO_PKG_VERSION_MINOR"),
            );
            self.is_begun = true;
        }
        text.push_str(&std::mem::take(&mut self.described));
        let file = File::options().append(true).open(&self.metadata);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", self.metadata.display()))
    }

    /// Hands on what is old enough, as packets; with `discarded` also if there is nothing.
    fn hand_on(&mut self, up_to_ns: u64, discarded: Option<u64>) -> anyhow::Result<()> {
        self.held.sort_by_key(|held| held.time_ns);
        let ready = self.held.partition_point(|held| held.time_ns <= up_to_ns);
        let rest = self.held.split_off(ready);
        let records = std::mem::replace(&mut self.held, rest);
        let mut records = records.as_slice();
        while !records.is_empty() {
            let mut length = 0;
            let fits = records.iter().take_while(|held| {
                length += held.to - held.from;
                length <= PACKET_BYTES
            });
            let (packet, others) = records.split_at(fits.count().max(1));
            self.packet(packet, 0);
            self.stream.write_much()?;
            records = others;
        }
        if let Some(discarded) = discarded {
            self.packet(&[], discarded);
        }
        self.stream.write()?;
        self.close_gap();
        Ok(())
    }

    /// What still waits moves to the front.
    fn close_gap(&mut self) {
        let mut bytes = Vec::new();
        for held in &mut self.held {
            let from = bytes.len();
            bytes.extend_from_slice(&self.bytes[held.from..held.to]);
            (held.from, held.to) = (from, bytes.len());
        }
        self.bytes = bytes;
    }

    fn packet(&mut self, records: &[HeldRecord], discarded: u64) {
        let begins = records.first().map_or(self.last_ns, |held| held.time_ns.max(self.last_ns));
        let to = &mut self.stream.pending;
        let start = to.len();
        to.extend(MAGIC.to_le_bytes());
        to.extend(0u32.to_le_bytes());
        to.extend([0; PACKET_HEAD - 8]);
        for held in records {
            self.last_ns = self.last_ns.max(held.time_ns);
            let record = &self.bytes[held.from..held.to];
            to.extend_from_slice(&record[..4]);
            to.extend(self.last_ns.to_le_bytes());
            to.extend_from_slice(&record[4..]);
        }
        let bits = (to.len() - start) as u64 * 8;
        let context = [begins, self.last_ns, bits, bits, discarded];
        for (number, place) in context.iter().zip(to[start + 8..].chunks_exact_mut(8)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }
}

impl RecordSink for Ctf {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        self.write_description(meaning.epoch_ns)?;
        let (from, time_ns) = (self.bytes.len(), record.time_ns());
        let to = &mut self.bytes;
        to.extend(record.event().to_le_bytes());
        for number in [record.cpu(), record.tgid(), record.tid()] {
            to.extend(number.to_le_bytes());
        }
        to.extend(record.id().to_le_bytes());
        to.extend(record.absent().to_le_bytes());
        for (field, value) in probe.fields.iter().zip(probe.values(record)) {
            match meaning.stack(&value, record) {
                Some(names) => {
                    to.extend((names.len() as u32).to_le_bytes());
                    names.iter().for_each(|name| text(to, name.as_bytes()));
                }
                None => put(to, field, value),
            }
        }
        self.held.push(HeldRecord { time_ns, from, to: self.bytes.len() });
        self.newest_ns = self.newest_ns.max(time_ns);
        if self.bytes.len() < 4 * PACKET_BYTES { Ok(()) } else { self.end_batch() }
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        self.describe(number, probe);
        Ok(())
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.hand_on(self.newest_ns.saturating_sub(HELD_NS), None)
    }

    fn finish(mut self: Box<Self>, totals: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        // Without a record nobody asks for the day's time.
        self.write_description(0)?;
        self.hand_on(u64::MAX, Some(totals.lost())).map(|()| None)
    }
}

/// A name that begins with a mark that readers take off, so that none is a word of the language.
fn identifier(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("_{}", name.chars().map(allowed).collect::<String>())
}

fn declaration(field: &ProbeField, name: &str) -> String {
    match field.shape {
        Shape::Unsigned | Shape::Bool => format!(" uint64_t {name};"),
        Shape::Signed => format!(" int64_t {name};"),
        Shape::Pointer => format!(" address_t {name};"),
        Shape::Enum(_) | Shape::Text | Shape::Address => format!(" string {name};"),
        Shape::Bytes => format!(" uint32_t {name}_length; uint8_t {name}[{name}_length];"),
        Shape::Stack => format!(" uint32_t {name}_length; string {name}[{name}_length];"),
    }
}

fn put(to: &mut Vec<u8>, field: &ProbeField, value: Value<'_>) {
    match value {
        Value::Unsigned(number) | Value::Pointer(number) => to.extend(number.to_le_bytes()),
        Value::Signed(number) => to.extend(number.to_le_bytes()),
        Value::Bool(truth) => to.extend(u64::from(truth).to_le_bytes()),
        Value::Constant(_, Some(name)) => text(to, name.as_bytes()),
        Value::Constant(number, None) => text(to, number.to_string().as_bytes()),
        Value::Text(bytes) => text(to, bytes),
        Value::Address(address) => text(to, address.to_string().as_bytes()),
        Value::Bytes(bytes) => {
            to.extend((bytes.len() as u32).to_le_bytes());
            to.extend_from_slice(bytes);
        }
        Value::Absent | Value::Stack { .. } => match field.shape {
            Shape::Enum(_) | Shape::Text | Shape::Address => text(to, b""),
            Shape::Bytes | Shape::Stack => to.extend(0u32.to_le_bytes()),
            _ => to.extend(0u64.to_le_bytes()),
        },
    }
}

/// Up to its first zero, and with one behind it.
fn text(to: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    to.extend_from_slice(String::from_utf8_lossy(bytes).as_bytes());
    to.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_words_of_the_language() {
        assert_eq!(identifier("skb->len"), "_skb__len");
        assert_eq!(identifier("string"), "_string");
    }

    #[test]
    fn texts_end_once() {
        let mut to = Vec::new();
        text(&mut to, b"ab\0cd");
        text(&mut to, b"\xff");
        assert_eq!(to, b"ab\0\xef\xbf\xbd\0");
    }

    #[test]
    fn what_comes_late_is_put_in_its_place_and_packets_know_their_length() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut trace = Ctf::create(&folder.path().join("t.ctf"), &[]).expect("made");
        for time_ns in [30, 10, 20] {
            let from = trace.bytes.len();
            trace.bytes.extend([0; 28]);
            trace.held.push(HeldRecord { time_ns, from, to: from + 28 });
        }
        trace.hand_on(20, None).expect("written");
        assert_eq!((trace.held.len(), trace.bytes.len(), trace.last_ns), (1, 28, 20));
        trace.hand_on(u64::MAX, Some(7)).expect("written");
        let bytes = std::fs::read(folder.path().join("t.ctf/stream")).expect("it is there");
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let (mut at, mut packets) = (0, Vec::new());
        while at < bytes.len() {
            packets.push([8, 16, 40].map(|place| number(at + place)));
            at += number(at + PACKET_SIZE) as usize / 8;
        }
        assert_eq!((at, packets), (bytes.len(), vec![[10, 20, 0], [30, 30, 0], [30, 30, 7]]));
    }
}
