//! What several events say together, as JSON: once in the end, or as a line now and then for programs that read along.
//!
//! Reads reports; emits `weigh.synthesis/1`. Never waits for a reader while the stream runs: a report that finds no room
//! is not written, and the next one says how many were not.

use std::cell::RefCell;
use std::io::{ErrorKind, Write as _};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_schema::synthesis::SynthesisReport;
use weigh_session::products::trace::{LiveReport, SynthesisSettings};

use crate::destination::{Destination, LineOutput};

/// Rows of each table in a line.
const LINE_ROWS: usize = 1000;

/// Where the reports go.
pub struct JsonReport {
    destination: Destination,
    lines: Option<ReportLines>,
}

impl JsonReport {
    /// Opens it, if it is asked for.
    pub fn open(settings: &SynthesisSettings) -> anyhow::Result<Option<JsonReport>> {
        let Some(name) = settings.json.as_deref() else { return Ok(None) };
        let mut destination = Destination::open(name)?;
        let lines = match settings.every {
            Some(every) => destination
                .lines()
                .with_context(|| format!("--json {name} cannot be written line by line"))?
                .map(|output| ReportLines::new(every, output)),
            None => None,
        };
        Ok(Some(JsonReport { destination, lines }))
    }

    /// What writes while the stream runs.
    pub fn lines(&self) -> Option<ReportLines> {
        self.lines.clone()
    }

    /// The last one.
    pub fn write(self, found: &SynthesisReport) -> anyhow::Result<()> {
        let text = match &self.lines {
            None => serde_json::to_string_pretty(found)? + "\n",
            Some(lines) => lines.last(found)?,
        };
        self.destination.write(&text)
    }
}

/// Lines for a reader who may be slow. A copy writes to the same place.
#[derive(Clone)]
pub struct ReportLines(Rc<RefCell<LineWriter>>);

struct LineWriter {
    every: Duration,
    next: Instant,
    output: LineOutput,
    /// What has found no room yet of a line that was begun.
    rest: Vec<u8>,
    missed: u64,
}

impl ReportLines {
    fn new(every: Duration, output: LineOutput) -> ReportLines {
        let next = Instant::now() + every;
        ReportLines(Rc::new(RefCell::new(LineWriter {
            every,
            next,
            output,
            rest: Vec::new(),
            missed: 0,
        })))
    }

    /// What is still to be written, with the last report.
    fn last(&self, found: &SynthesisReport) -> anyhow::Result<String> {
        let mut writer = self.0.borrow_mut();
        let mut text = std::mem::take(&mut writer.rest);
        text.extend(line(found, writer.missed)?);
        Ok(String::from_utf8(text)?)
    }
}

impl LiveReport for ReportLines {
    fn is_due(&self) -> bool {
        Instant::now() >= self.0.borrow().next
    }

    fn rows(&self) -> usize {
        LINE_ROWS
    }

    fn show(&mut self, found: &SynthesisReport) {
        self.0.borrow_mut().write(found);
    }

    fn clear(&mut self) {}
}

impl LineWriter {
    fn write(&mut self, found: &SynthesisReport) {
        let now = Instant::now();
        self.next = (self.next + self.every).max(now);
        self.push();
        match line(found, self.missed) {
            Ok(line) if self.rest.is_empty() => {
                (self.rest, self.missed) = (line, 0);
                self.push();
            }
            _ => self.missed += 1,
        }
    }

    /// As much of what waits as there is room for. Of a place that fails the last report tells.
    fn push(&mut self) {
        while !self.rest.is_empty() {
            match self.output.write(&self.rest) {
                Ok(0) => return,
                Ok(written) => drop(self.rest.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.rest.clear(),
            }
        }
    }
}

fn line(found: &SynthesisReport, missed: u64) -> serde_json::Result<Vec<u8>> {
    let found = SynthesisReport { reports_missed_total: missed, ..found.clone() };
    let mut line = serde_json::to_vec(&found)?;
    line.push(b'\n');
    Ok(line)
}
