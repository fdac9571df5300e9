//! A line of JSON for each event.
//!
//! When a line can not be written whole, what there is of it is cut off: the file ends with the last
//! line that is whole.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::value::{Value, frames};

use super::{Sink, Times};
use crate::trace::counts::Totals;

/// A file of lines; without one, standard output.
pub struct Jsonl {
    file: Option<(PathBuf, File)>,
    lines: Vec<u8>,
    has_failed: bool,
}

/// So much is written at once.
const CHUNK: usize = 256 * 1024;

impl Jsonl {
    /// Makes the file.
    pub fn create(path: &Path) -> anyhow::Result<Jsonl> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Jsonl { file: Some((path.to_path_buf(), file)), lines: Vec::new(), has_failed: false })
    }

    /// On standard output.
    pub fn on_output() -> Jsonl {
        Jsonl { file: None, lines: Vec::new(), has_failed: false }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        if self.has_failed || lines.is_empty() {
            return Ok(());
        }
        let written = match &mut self.file {
            None => {
                io::stdout().write_all(&lines).context("cannot write events to standard output")
            }
            Some((path, file)) => write_whole(file, &lines)
                .with_context(|| format!("cannot write {}", path.display())),
        };
        self.has_failed = written.is_err();
        self.lines = lines;
        self.lines.clear();
        written
    }
}

/// Writes lines; after a failure the file ends with the last whole one.
fn write_whole(file: &mut File, lines: &[u8]) -> io::Result<()> {
    let mut written = 0;
    let failed = loop {
        match file.write(&lines[written..]) {
            Ok(0) => break io::ErrorKind::WriteZero.into(),
            Ok(length) => written += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break error,
        }
        if written == lines.len() {
            return Ok(());
        }
    };
    let end = lines[..written].iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let surplus = (written - end) as u64;
    let at = file.stream_position()?;
    file.set_len(at.saturating_sub(surplus))?;
    Err(failed)
}

impl Sink for Jsonl {
    fn take(&mut self, probe: &Probe, record: Record<'_>, times: &Times) -> anyhow::Result<()> {
        line(&mut self.lines, probe, record, times)?;
        if self.lines.len() >= CHUNK { self.write() } else { Ok(()) }
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.write()
    }

    fn finish(mut self: Box<Self>, _: &Totals) -> anyhow::Result<()> {
        self.write()
    }
}

fn line(to: &mut Vec<u8>, probe: &Probe, record: Record<'_>, times: &Times) -> io::Result<()> {
    let time = times.epoch_ns.saturating_add_unsigned(record.time_ns());
    write!(to, "{{\"time_ns\":{time},\"event\":")?;
    text(to, probe.name.as_bytes())?;
    let (cpu, tgid, tid, id) = (record.cpu(), record.tgid(), record.tid(), record.id());
    write!(to, ",\"cpu\":{cpu},\"tgid\":{tgid},\"tid\":{tid},\"id\":\"{id:#x}\",\"fields\":{{")?;
    let mut separator = "";
    for (field, found) in probe.fields.iter().zip(probe.values(record)) {
        to.write_all(separator.as_bytes())?;
        text(to, field.name.as_bytes())?;
        to.push(b':');
        value(to, &found)?;
        separator = ",";
    }
    to.write_all(b"}}\n")
}

fn value(to: &mut Vec<u8>, value: &Value<'_>) -> io::Result<()> {
    match value {
        Value::Absent => write!(to, "null"),
        Value::Unsigned(_) | Value::Signed(_) | Value::Bool(_) | Value::Constant(_, None) => {
            write!(to, "{value}")
        }
        Value::Pointer(_) | Value::Bytes(_) => write!(to, "\"{value}\""),
        Value::Constant(_, Some(name)) => text(to, name.as_bytes()),
        Value::Text(bytes) => text(to, bytes),
        Value::Stack(stack) => {
            let mut separator = "[";
            for frame in frames(stack) {
                write!(to, "{separator}\"{frame:#x}\"")?;
                separator = ",";
            }
            write!(to, "{}]", if stack.is_empty() { "[" } else { "" })
        }
    }
}

/// A text in quotation marks; what is not UTF-8 is replaced.
fn text(to: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
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
        for (stack, expected) in [(&[][..], "[]"), (&[1, 0, 0, 0, 0, 0, 0, 0][..], "[\"0x1\"]")] {
            let mut written = Vec::new();
            value(&mut written, &Value::Stack(stack)).expect("memory takes it");
            assert_eq!(String::from_utf8_lossy(&written), expected);
        }
    }
}
