//! `weigh serve --export`: reads the node once an interval, and hands each report to the threads of the exporters.
//!
//! A thread reads the feed and may wait there for long; another one takes what it has read, and ends when it is told to.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use weigh_collect::message::notice;
use weigh_export::metrics::{ExportError, ExportThread, ExporterStatus, exporter};
use weigh_schema::top::TopReport;
use weigh_web::{FeedEvent, FeedOpener};

use super::export_bound::ExportBound;

/// Exporters at work, until it is dropped.
pub struct ExportLoop {
    /// Takes what the feed says; without an event the thread ends.
    events: Option<Sender<Option<FeedEvent>>>,
    thread: Option<JoinHandle<()>>,
}

impl ExportLoop {
    /// Opens the exporters of these targets; reads nothing where there are none. Of jobs and published values they get so many.
    pub fn start(
        targets: &[String],
        interval: Duration,
        bound: ExportBound,
        open_feed: FeedOpener,
    ) -> anyhow::Result<ExportLoop> {
        if targets.is_empty() {
            return Ok(ExportLoop { events: None, thread: None });
        }
        let exporters = targets.iter().map(|target| open(target));
        let exporters = exporters.collect::<Result<Vec<_>, _>>()?;
        let (sender, events) = channel();
        let feeder = sender.clone();
        let named = |name: &str| std::thread::Builder::new().name(name.to_string());
        let read = move || read_feed(open_feed, interval, &feeder);
        named("export feed").spawn(read).context("cannot start a thread")?;
        let thread = named("export").spawn(move || work(&events, &exporters, bound));
        let thread = thread.context("cannot start a thread")?;
        Ok(ExportLoop { events: Some(sender), thread: Some(thread) })
    }
}

impl Drop for ExportLoop {
    fn drop(&mut self) {
        if let Some(events) = self.events.take() {
            // It may have ended by itself.
            let _ = events.send(None);
        }
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}

fn read_feed(open: FeedOpener, interval: Duration, events: &Sender<Option<FeedEvent>>) {
    let mut feed = open();
    feed.set_interval(interval);
    while let Some(event) = feed.next() {
        if events.send(Some(event)).is_err() {
            break;
        }
    }
}

fn open(target: &str) -> Result<ExportThread, ExportError> {
    ExportThread::start(exporter(target)?)
}

fn work(events: &Receiver<Option<FeedEvent>>, exporters: &[ExportThread], mut bound: ExportBound) {
    let mut problems = vec![None; exporters.len()];
    let mut outage = None;
    while let Ok(Some(event)) = events.recv() {
        let mut report = match event {
            FeedEvent::Report(report) => *report,
            FeedEvent::Outage(reason) => {
                say_outage(reason, &mut outage);
                continue;
            }
        };
        outage = None;
        bound.apply_and_say(&mut report);
        let report = Arc::<TopReport>::new(report);
        for (exporter, problem) in exporters.iter().zip(&mut problems) {
            exporter.push(report.clone());
            say_new_problem(&exporter.status(), problem);
        }
    }
}

/// An outage is told when it begins, and when its reason is another one.
fn say_outage(reason: String, before: &mut Option<String>) {
    if before.as_ref() != Some(&reason) {
        notice(format_args!("there is nothing to export: {reason}"));
        *before = Some(reason);
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
