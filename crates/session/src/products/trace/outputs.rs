//! Where the records of a stream go: files and the terminal are of who calls the product.

use std::path::Path;

use weigh_schema::synthesis::SynthesisReport;
use weigh_trace::probe::Probe;
use weigh_trace::sink::RecordSink;

/// Opens what records go to.
pub trait RecordOutputs {
    /// A file, of the format that its name says, for records of these probes.
    fn open_file(&self, path: &Path, probes: &[&Probe]) -> anyhow::Result<Box<dyn RecordSink>>;

    /// The terminal: standard output, unless that is the command's.
    fn open_terminal(&self, has_output: bool) -> Box<dyn RecordSink>;

    /// What draws what several events say together, while the stream runs.
    fn open_live_table(&self) -> Box<dyn LiveReport>;

    /// What gives that to programs now and then.
    fn open_reports(&self) -> Vec<Box<dyn LiveReport>>;

    /// The same sink, with commands that are run for events before it; none: nothing takes events one by one.
    fn with_triggers(
        &self,
        sink: Option<Box<dyn RecordSink>>,
        probes: &[&Probe],
    ) -> anyhow::Result<Option<Box<dyn RecordSink>>>;

    /// Whether nobody can read standard output any more.
    fn is_output_gone(&self) -> bool;
}

/// What shows reports while a stream runs.
pub trait LiveReport {
    /// Whether it is time.
    fn is_due(&self) -> bool;

    /// So many rows of each table at most.
    fn rows(&self) -> usize;

    /// Shows one.
    fn show(&mut self, found: &SynthesisReport);

    /// There will be no more: what follows is written in its place.
    fn clear(&mut self);
}
