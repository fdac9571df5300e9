//! A thread for one exporter, so that no server and no disk makes the caller wait.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weigh_schema::top::TopReport;

use super::exporter::{ExportError, ExporterStatus, MetricExporter};

/// Reports that wait while a request is under way: ten times a second for as long as one may take, twice.
const INBOX: usize = 200;
/// How long the end waits for what is still to be sent.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// An exporter in a thread of its own. Dropped, it sends for two seconds more what is left; a request that hangs then is
/// left to end with the process.
pub struct ExportThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    inbox: VecDeque<Arc<TopReport>>,
    /// Values of reports for which the inbox had no room.
    lost_values: u64,
    status: ExporterStatus,
    /// Set at the end: until when to go on.
    until: Option<Instant>,
    /// The thread has done its last.
    has_ended: bool,
}

impl Shared {
    /// No thread panics while it holds the lock; if one did, the state is whole all the same.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExportThread {
    /// Starts the thread.
    pub fn start(exporter: Box<dyn MetricExporter>) -> Result<ExportThread, ExportError> {
        let shared = Arc::new(Shared::default());
        shared.lock().status = exporter.status();
        let for_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name(format!("export {}", exporter.name()))
            .spawn(move || work(exporter, &for_thread))
            .map_err(ExportError::Thread)?;
        Ok(ExportThread { shared, thread: Some(thread) })
    }

    /// Hands a report over; never waits. The oldest one is lost, and counted, where the exporter does not keep up.
    pub fn push(&self, report: Arc<TopReport>) {
        let mut state = self.shared.lock();
        state.inbox.push_back(report);
        if state.inbox.len() > INBOX {
            let lost = state.inbox.pop_front().map_or(0, |report| values(&report));
            state.lost_values += lost;
        }
        self.shared.changed.notify_one();
    }

    /// How the exporter fares.
    pub fn status(&self) -> ExporterStatus {
        let state = self.shared.lock();
        let mut status = state.status.clone();
        status.lost_values += state.lost_values;
        status.buffered_reports += state.inbox.len() as u64;
        status
    }
}

impl Drop for ExportThread {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.until = Some(Instant::now() + LAST_WORDS);
        self.shared.changed.notify_all();
        let is_at_work = |state: &mut State| !state.has_ended;
        // Somewhat longer than the thread goes on by itself.
        let waited = self.shared.changed.wait_timeout_while(state, LAST_WORDS * 5 / 4, is_at_work);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = self.thread.take().filter(|_| state.has_ended) {
            drop(state);
            // It has no result.
            let _ = thread.join();
        }
    }
}

fn values(report: &TopReport) -> u64 {
    report.metrics.values().map(|metrics| metrics.len() as u64).sum()
}

fn work(mut exporter: Box<dyn MetricExporter>, shared: &Shared) {
    while let Some(reports) = next_reports(exporter.as_ref(), shared) {
        reports.iter().for_each(|report| exporter.take(report));
        // The status has it.
        let _ = exporter.send();
        shared.lock().status = exporter.status();
    }
    shared.lock().has_ended = true;
    shared.changed.notify_all();
}

/// Waits for reports, or until the exporter has something to do again; `None` at the end.
fn next_reports(
    exporter: &dyn MetricExporter,
    shared: &Shared,
) -> Option<VecDeque<Arc<TopReport>>> {
    let mut state = shared.lock();
    loop {
        let (now, attempt) = (Instant::now(), exporter.next_attempt());
        if !state.inbox.is_empty() || attempt.is_some_and(|due| due <= now && !is_over(&state, now))
        {
            return Some(std::mem::take(&mut state.inbox));
        }
        if is_over(&state, now) || state.until.is_some() && attempt.is_none() {
            return None;
        }
        let wait = [attempt, state.until].into_iter().flatten().min().map(|due| due - now);
        state = match wait {
            Some(wait) => {
                let waited = shared.changed.wait_timeout(state, wait);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

fn is_over(state: &State, now: Instant) -> bool {
    state.until.is_some_and(|until| now >= until)
}
