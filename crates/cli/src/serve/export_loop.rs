//! `weigh serve --export`: reads the node once an interval, and hands each report to the threads of the exporters.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_collect::message::notice;
use weigh_export::metrics::{ExportError, ExportThread, ExporterStatus, exporter};
use weigh_session::Source as _;
use weigh_session::products::top::{ListedProcesses, TopSettings, TopSource};

/// Exporters at work, until it is dropped.
pub struct ExportLoop {
    /// The thread ends when this is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ExportLoop {
    /// Opens the exporters of these targets; reads nothing where there are none.
    pub fn start(targets: &[String], interval: Duration) -> anyhow::Result<ExportLoop> {
        if targets.is_empty() {
            return Ok(ExportLoop { stop: None, thread: None });
        }
        let exporters = targets.iter().map(|target| open(target));
        let exporters = exporters.collect::<Result<Vec<_>, _>>()?;
        let (stop, is_stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("export".to_string())
            .spawn(move || work(interval, &exporters, &is_stopped))
            .context("cannot start a thread")?;
        Ok(ExportLoop { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ExportLoop {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}

fn open(target: &str) -> Result<ExportThread, ExportError> {
    ExportThread::start(exporter(target)?)
}

fn work(interval: Duration, exporters: &[ExportThread], is_stopped: &Receiver<()>) {
    let listed = ListedProcesses::Nobody;
    let mut source = TopSource::new(TopSettings { interval, listed }, None);
    let mut problems = vec![None; exporters.len()];
    while let Some(deadline) = source.deadline() {
        let wait = deadline.saturating_duration_since(Instant::now());
        if is_stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        source.tick_if_due();
        let Some(report) = source.take_report().map(Arc::new) else { continue };
        for (exporter, problem) in exporters.iter().zip(&mut problems) {
            exporter.push(report.clone());
            say_new_problem(&exporter.status(), problem);
        }
    }
}

/// A problem is told when it is another one than before.
fn say_new_problem(status: &ExporterStatus, before: &mut Option<String>) {
    if status.last_error == *before {
        return;
    }
    before.clone_from(&status.last_error);
    let ExporterStatus { exporter, lost_values, buffered_reports, .. } = status;
    let problem = before.as_deref().unwrap_or_default();
    notice(format_args!(
        "export to {exporter}: {problem}; {buffered_reports} reports wait, {lost_values} values are lost"
    ));
}
