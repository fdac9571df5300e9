//! What an exporter of metrics is.

use std::time::Instant;

use serde::Serialize;
use weigh_schema::top::TopReport;

/// Takes reports of the node and hands them on, in order and at least once, as far as its buffer goes.
pub trait MetricExporter: Send {
    /// By what it is asked for: `prometheus`.
    fn name(&self) -> &'static str;

    /// Puts a report into the buffer; what has no room there any more is counted as lost, the oldest first.
    fn take(&mut self, report: &TopReport);

    /// Sends what is due, and returns at once where nothing is. Blocks for [`http::TIMEOUT`](super::http::TIMEOUT) and the
    /// request that is under way then, at most. An error is that of the last attempt; what failed is tried again.
    fn send(&mut self) -> Result<(), ExportError>;

    /// How it fares.
    fn status(&self) -> ExporterStatus;

    /// When `send` has something to do again without a new report; `None` where it has not.
    fn next_attempt(&self) -> Option<Instant> {
        None
    }
}

/// How an exporter fares. All numbers count from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExporterStatus {
    /// Its name.
    pub exporter: &'static str,
    /// Values that the receiver has accepted, or that were written.
    pub sent_values: u64,
    /// Values that the buffer had no room for, or that the receiver refused.
    pub lost_values: u64,
    /// Values that this format has no form for, or that are of no declared metric and scope.
    pub left_out_values: u64,
    /// Attempts that failed and were, or will be, repeated.
    pub retries: u64,
    /// Reports in the buffer.
    pub buffered_reports: u64,
    /// What went wrong last, in words.
    pub last_error: Option<String>,
}

/// An exporter that can be asked for.
pub struct ExporterKind {
    /// By what it is asked for.
    pub name: &'static str,
    /// What is typed: `csv=FILE`.
    pub usage: &'static str,
    /// Opens it for an address, or says what is wrong with that.
    pub open: fn(&str) -> Result<Box<dyn MetricExporter>, String>,
}

/// Why nothing can be, or could be, exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no such exporter, or its address is wrong.
    #[error("--export {exporter}: {problem}")]
    Target {
        /// Its name, as given.
        exporter: String,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// The target takes no spans, or its address is wrong.
    #[error("--to {target}: {problem}")]
    Spans {
        /// Its name, as given.
        target: String,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// An attempt failed.
    #[error("export to {exporter}: {problem}")]
    Attempt {
        /// Its name.
        exporter: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// No thread can be started.
    #[error("export: cannot start a thread: {0}")]
    Thread(std::io::Error),
}
