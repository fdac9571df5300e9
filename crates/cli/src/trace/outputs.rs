//! Where the records of a stream go: files by their names, and the terminal.

use std::path::Path;

use weigh_schema::synthesis::SynthesisReport;
use weigh_session::products::trace::{LiveReport, RecordOutputs};
use weigh_session::unless_medium_failed;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};

use super::json_report::ReportLines;
use super::sinks;
use crate::live::Live;
use crate::terminal;

/// Rows of a table on the terminal.
pub const ROWS: usize = 20;

/// The files and the terminal of a command line.
pub struct Outputs {
    /// Fields that are drawn as counters where a format can.
    pub counters: Vec<String>,
    /// Whether a command is followed, which runs in spite of a medium that fails.
    pub has_command: bool,
    /// What writes reports for programs.
    pub lines: Option<ReportLines>,
}

impl RecordOutputs for Outputs {
    fn open_file(&self, path: &Path, probes: &[&Probe]) -> anyhow::Result<Box<dyn RecordSink>> {
        let file = sinks::of_file(path, probes, &self.counters);
        if !self.has_command {
            return file;
        }
        Ok(unless_medium_failed(file)?.unwrap_or_else(|error| Box::new(NoFile(error))))
    }

    fn open_terminal(&self, has_output: bool) -> Box<dyn RecordSink> {
        sinks::of_terminal(has_output)
    }

    fn open_live_table(&self) -> Box<dyn LiveReport> {
        Box::new(SynthesisTable(Live::new()))
    }

    fn open_report_lines(&self) -> Option<Box<dyn LiveReport>> {
        Some(Box::new(self.lines.clone()?))
    }

    fn is_output_gone(&self) -> bool {
        terminal::is_output_gone()
    }
}

/// A file that could not be opened: records are counted, and the error is for the end.
struct NoFile(anyhow::Error);

impl RecordSink for NoFile {
    fn take(&mut self, _: &Probe, _: Record<'_>, _: &Meaning) -> anyhow::Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, _: &Totals, _: &Meaning) -> anyhow::Result<Option<String>> {
        Err(self.0)
    }
}

/// What several events say together, on the terminal.
struct SynthesisTable(Live);

impl LiveReport for SynthesisTable {
    fn is_due(&self) -> bool {
        self.0.is_due()
    }

    fn rows(&self) -> usize {
        ROWS
    }

    fn show(&mut self, found: &SynthesisReport) {
        self.0.draw(|screen| {
            weigh_show::synthesis::render(found, ROWS, screen.columns, screen.color)
        });
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
