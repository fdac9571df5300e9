//! Lines of JSON on standard output.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use weigh_export::stream::jsonl::line;
use weigh_schema::printable::json_on_screen;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};

use crate::terminal;

/// So much is written at once.
const CHUNK: usize = 256 * 1024;

/// Standard output.
pub struct Output {
    /// What waits to be written there.
    lines: Vec<u8>,
}

impl Output {
    /// Refuses one that is closed.
    pub fn open() -> anyhow::Result<Output> {
        terminal::check_output()?;
        Ok(Output { lines: Vec::new() })
    }
}

impl RecordSink for Output {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        line(&mut self.lines, probe, record, meaning)?;
        if self.lines.len() >= CHUNK { self.end_batch() } else { Ok(()) }
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        let mut out = io::stdout();
        let lines = std::mem::take(&mut self.lines);
        let written = match out.is_terminal() {
            true => out.write_all(json_on_screen(&String::from_utf8_lossy(&lines)).as_bytes()),
            false => out.write_all(&lines),
        };
        written.context("cannot write events to standard output")
    }

    fn finish(mut self: Box<Self>, _: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        self.end_batch().map(|()| None)
    }
}
