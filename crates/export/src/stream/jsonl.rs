//! A line of JSON for each event.
//!
//! When a line cannot be written whole, what there is of it is cut off: the file ends with the last
//! line that is whole.

use std::io::{self, Write as _};
use std::path::Path;

use weigh_trace::probe::{Probe, ProbeField};
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_trace::value::Value;

use super::format::StreamFormat;
use super::json;
use super::whole_file::{WholeFile, line_length};

/// Lines of JSON.
pub const FORMAT: StreamFormat =
    StreamFormat { endings: &[".jsonl"], create: |file| Ok(Box::new(Jsonl::create(file.path)?)) };

/// A file of lines that is being written.
struct Jsonl {
    file: WholeFile,
}

impl Jsonl {
    fn create(path: &Path) -> anyhow::Result<Jsonl> {
        Ok(Jsonl { file: WholeFile::create(path, line_length)? })
    }
}

impl RecordSink for Jsonl {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        line(&mut self.file.pending, probe, record, meaning)?;
        self.file.write_much()
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.file.write()
    }

    fn finish(mut self: Box<Self>, _: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        self.end_batch().map(|()| None)
    }
}

/// Writes the line of a record.
pub fn line(
    to: &mut Vec<u8>,
    probe: &Probe,
    record: Record<'_>,
    meaning: &Meaning,
) -> io::Result<()> {
    let time = meaning.epoch_ns.saturating_add_unsigned(record.time_ns());
    write!(to, "{{\"time_ns\":{time},\"event\":")?;
    json::text(to, probe.name.as_bytes())?;
    let (cpu, tgid, tid, id) = (record.cpu(), record.tgid(), record.tid(), record.id());
    write!(to, ",\"cpu\":{cpu},\"tgid\":{tgid},\"tid\":{tid},\"id\":\"{id:#x}\",\"fields\":{{")?;
    json::fields(to, probe, record, meaning, flags)?;
    to.write_all(b"}}\n")
}

/// A set of flags by their names.
fn flags(field: &ProbeField, value: &Value<'_>) -> Option<String> {
    field.is_bits().then(|| field.named(value)).flatten()
}
