//! A line of JSON for each event.
//!
//! When a line can not be written whole, what there is of it is cut off: the file ends with the last
//! line that is whole.

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::rc::Rc;

use anyhow::Context as _;
use weigh_schema::printable::json_on_screen;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_trace::value::Value;

use super::whole::WholeFile;
use crate::show;

/// A file of lines, or standard output.
pub enum Jsonl {
    /// A file.
    File(WholeFile),
    /// Standard output, and what waits to be written there.
    Output(Vec<u8>),
}

/// So much is written at once.
const CHUNK: usize = 256 * 1024;

impl Jsonl {
    /// Makes the file.
    pub fn create(path: &Path) -> anyhow::Result<Jsonl> {
        let line = |bytes: &[u8]| Some(bytes.iter().position(|byte| *byte == b'\n')? + 1);
        Ok(Jsonl::File(WholeFile::create(path, line)?))
    }

    /// On standard output.
    pub fn on_output() -> anyhow::Result<Jsonl> {
        show::check_output()?;
        Ok(Jsonl::Output(Vec::new()))
    }
}

fn print(lines: &mut Vec<u8>) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let written = match out.is_terminal() {
        true => out.write_all(json_on_screen(&String::from_utf8_lossy(lines)).as_bytes()),
        false => out.write_all(lines),
    };
    lines.clear();
    written.context("cannot write events to standard output")
}

impl RecordSink for Jsonl {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        match self {
            Jsonl::File(file) => {
                line(&mut file.pending, probe, record, meaning)?;
                file.write_much()
            }
            Jsonl::Output(lines) => {
                line(lines, probe, record, meaning)?;
                if lines.len() >= CHUNK { print(lines) } else { Ok(()) }
            }
        }
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        match self {
            Jsonl::File(file) => file.write(),
            Jsonl::Output(lines) => print(lines),
        }
    }

    fn finish(mut self: Box<Self>, _: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        self.end_batch().map(|()| None)
    }
}

fn line(to: &mut Vec<u8>, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> io::Result<()> {
    let time = meaning.epoch_ns.saturating_add_unsigned(record.time_ns());
    write!(to, "{{\"time_ns\":{time},\"event\":")?;
    text(to, probe.name.as_bytes())?;
    let (cpu, tgid, tid, id) = (record.cpu(), record.tgid(), record.tid(), record.id());
    write!(to, ",\"cpu\":{cpu},\"tgid\":{tgid},\"tid\":{tid},\"id\":\"{id:#x}\",\"fields\":{{")?;
    let mut separator = "";
    for (field, found) in probe.fields.iter().zip(probe.values(record)) {
        to.write_all(separator.as_bytes())?;
        text(to, field.name.as_bytes())?;
        to.push(b':');
        match meaning.stack(&found, record) {
            Some(names) => list(to, &names)?,
            None => match field.is_bits().then(|| field.named(&found)).flatten() {
                Some(flags) => text(to, flags.as_bytes())?,
                None => value(to, &found)?,
            },
        }
        separator = ",";
    }
    to.write_all(b"}}\n")
}

/// A value, but for a stack.
pub(super) fn value(to: &mut Vec<u8>, value: &Value<'_>) -> io::Result<()> {
    match value {
        Value::Absent => write!(to, "null"),
        Value::Unsigned(_) | Value::Signed(_) | Value::Bool(_) | Value::Constant(_, None) => {
            write!(to, "{value}")
        }
        Value::Pointer(_) | Value::Bytes(_) => write!(to, "\"{value}\""),
        Value::Constant(_, Some(name)) => text(to, name.as_bytes()),
        Value::Text(bytes) => text(to, bytes),
        // A list of names, by whoever knows them.
        Value::Stack { .. } => write!(to, "null"),
    }
}

/// Names of functions.
pub(super) fn list(to: &mut Vec<u8>, names: &[Rc<str>]) -> io::Result<()> {
    let mut separator = "";
    to.push(b'[');
    for name in names {
        to.write_all(separator.as_bytes())?;
        text(to, name.as_bytes())?;
        separator = ",";
    }
    to.push(b']');
    Ok(())
}

/// A text in quotation marks; what is not UTF-8 is replaced.
pub(super) fn text(to: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    to.push(b'"');
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '"' | '\\' => write!(to, "\\{c}")?,
            '\u{0}'..='\u{1f}' | '\u{7f}' => write!(to, "\\u{:04x}", u32::from(c))?,
            c => write!(to, "{c}")?,
        }
    }
    to.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_json_text() {
        for bytes in [&b"plain"[..], b"a\"b\\c\n\x01\x7f", b"\xff\xfe", "ä€".as_bytes()] {
            let mut written = Vec::new();
            text(&mut written, bytes).expect("memory takes it");
            let read: String = serde_json::from_slice(&written).expect("JSON");
            assert_eq!(read, String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_stack_is_a_list_even_if_it_is_empty() {
        let one: &[Rc<str>] = &["a\"b".into()];
        for (names, expected) in [(&[][..], "[]"), (one, "[\"a\\\"b\"]")] {
            let mut written = Vec::new();
            list(&mut written, names).expect("memory takes it");
            assert_eq!(String::from_utf8_lossy(&written), expected);
        }
    }
}
