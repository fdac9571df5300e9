//! Where the records of a stream go: files by their names, and the terminal.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use weigh_schema::synthesis::SynthesisReport;
use weigh_session::products::trace::{LiveReport, Publisher, RecordOutputs, TriggerSpec};
use weigh_session::unless_medium_failed;
use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};
use weigh_web::ScrapeBoard;

use super::json_report::ReportLines;
use super::scrape::ScrapeReport;
use super::sinks;
use super::sinks::triggers::TriggerSink;
use crate::live::Live;
use crate::terminal;

/// Rows of a table on the terminal.
pub const ROWS: usize = 20;

/// The files and the terminal of a command line.
#[derive(Default)]
pub struct Outputs {
    /// Fields that are drawn as counters where a format can.
    pub counters: Vec<String>,
    /// Whether a command is followed, which runs in spite of a medium that fails.
    pub has_command: bool,
    /// What writes reports for programs.
    pub lines: Option<ReportLines>,
    /// Who collects reports.
    pub metrics: Option<Arc<ScrapeBoard>>,
    /// What publishes reports, until it is taken.
    pub publisher: RefCell<Option<Publisher>>,
    /// Commands that are run for events.
    pub triggers: Vec<TriggerSpec>,
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

    fn open_reports(&self) -> Vec<Box<dyn LiveReport>> {
        let lines = self.lines.clone().map(|lines| Box::new(lines) as Box<dyn LiveReport>);
        let metrics = self.metrics.clone();
        let metrics = metrics.map(|board| Box::new(ScrapeReport(board)) as Box<dyn LiveReport>);
        let publisher = self.publisher.borrow_mut().take();
        let publisher = publisher.map(|publisher| Box::new(publisher) as Box<dyn LiveReport>);
        lines.into_iter().chain(metrics).chain(publisher).collect()
    }

    fn with_triggers(
        &self,
        sink: Option<Box<dyn RecordSink>>,
        probes: &[&Probe],
    ) -> anyhow::Result<Option<Box<dyn RecordSink>>> {
        match self.triggers.is_empty() {
            true => Ok(sink),
            false => Ok(Some(Box::new(TriggerSink::start(&self.triggers, probes, sink)?))),
        }
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
