//! Lines for people, as it happens.

use std::io::Write;

use anyhow::Context as _;
use weigh_collect::message;
use weigh_schema::printable::{Allowed, on_screen};
use weigh_trace::probe::{ID, Probe};
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_trace::value::Value;

/// The terminal.
pub struct Table {
    has_output: bool,
    lines: Vec<u8>,
    has_begun: bool,
}

/// So much is written at once.
const CHUNK: usize = 64 * 1024;

impl Table {
    /// On standard output, or on standard error where that is the command's.
    pub fn new(has_output: bool) -> Table {
        Table { has_output, lines: Vec::new(), has_begun: false }
    }

    fn line(
        &mut self,
        probe: &Probe,
        record: Record<'_>,
        meaning: &Meaning,
    ) -> std::io::Result<()> {
        let lines = &mut self.lines;
        if !self.has_begun {
            self.has_begun = true;
            writeln!(lines, "{:>12} {:>3} {:>8} {:>8}  EVENT", "SECONDS", "CPU", "TGID", "TID")?;
        }
        let seconds = record.time_ns().saturating_sub(meaning.began_ns) as f64 / 1e9;
        let (cpu, tgid, tid) = (record.cpu(), record.tgid(), record.tid());
        write!(lines, "{seconds:>12.6} {cpu:>3} {tgid:>8} {tid:>8}  {}", probe.name)?;
        if probe.has_own_id {
            // It stands in the header, but was asked for as a field.
            match probe.has_signed_id() {
                true => write!(lines, " {ID}={}", record.id().cast_signed())?,
                false => write!(lines, " {ID}={}", record.id())?,
            }
        }
        for (field, value) in probe.fields.iter().zip(probe.values(record)) {
            match value {
                Value::Stack { .. } => {
                    let names = meaning.stack(&value, record).unwrap_or_default();
                    write!(lines, " {}={}", field.name, names.join(";"))?;
                }
                Value::Text(_) => write!(lines, " {}=\"{value}\"", field.name)?,
                _ => match field.named(&value) {
                    Some(name) => write!(lines, " {}={name}", field.name)?,
                    None => write!(lines, " {}={value}", field.name)?,
                },
            }
        }
        lines.push(b'\n');
        Ok(())
    }
}

impl RecordSink for Table {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        self.line(probe, record, meaning)?;
        if self.lines.len() >= CHUNK { self.end_batch() } else { Ok(()) }
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        let text = String::from_utf8_lossy(&lines);
        if !self.has_output {
            // The command's end and signals for it do not wait for a reader; what it has not read in time is
            // dropped and counted.
            message::show_rows(&text);
            return Ok(());
        }
        let mut out = std::io::stdout();
        let written = out.write_all(on_screen(&text, Allowed::Lines).as_bytes());
        written.and_then(|()| out.flush()).context("cannot write events to the terminal")
    }

    fn finish(mut self: Box<Self>, _: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        self.end_batch()?;
        if !self.has_output {
            message::finish_rows();
        }
        Ok(None)
    }
}
