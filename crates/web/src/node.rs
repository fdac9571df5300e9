//! The node's values while somebody looks: a thread takes reports from the feed, and rests when nobody does.
//!
//! Reads [`NodeFeed`](crate::NodeFeed); emits the latest report to any number of readers, each of which sees the newest that there is,
//! and keeps a short history of every value.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;
use weigh_keep::SeriesOverview;
use weigh_schema::Unit;
use weigh_schema::top::TopReport;

use crate::api::SeriesRow;
use crate::event::event;
use crate::feed::FeedOpener;

/// Between two reports while somebody looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// After so long a rest rates are over the rest: that report is left out.
const REST: Duration = Duration::from_secs(2);
/// For one request: a report that is no older.
const FRESH: Duration = Duration::from_secs(1);
/// A request waits so long for one.
const PATIENCE: Duration = Duration::from_secs(10);
/// Processes of an event: the greatest users of CPU. All are in `/api/v1/node`.
const PROCESSES_SENT: usize = 100;
/// Series that are kept.
const SERIES_MOST: usize = 2000;

/// One report, with when it came.
pub(crate) struct NodeLook {
    pub(crate) report: TopReport,
    at: Instant,
    event: OnceLock<Bytes>,
}

impl NodeLook {
    /// The report as an event of the stream, made once for all that look.
    pub(crate) fn event(&self) -> Bytes {
        self.event.get_or_init(|| event("node", &shortened(&self.report))).clone()
    }
}

fn shortened(report: &TopReport) -> TopReport {
    let mut short = TopReport { processes: Vec::new(), ..report.clone() };
    short.processes = report.processes.iter().take(PROCESSES_SENT).cloned().collect();
    short
}

/// Who wants values of the node.
#[derive(Default)]
struct Demand {
    state: Mutex<DemandState>,
    changed: Condvar,
}

#[derive(Default)]
struct DemandState {
    viewers: usize,
    /// A single report is asked for.
    once: bool,
    is_over: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Demand {
    fn change(&self, change: impl FnOnce(&mut DemandState)) {
        change(&mut locked(&self.state));
        self.changed.notify_all();
    }

    /// Blocks until somebody looks; false when nobody will any more.
    fn wait(&self) -> bool {
        let mut state = self.wait_for_any();
        state.once = false;
        !state.is_over
    }

    /// The same, and the wish stays.
    fn wait_before_first(&self) -> bool {
        !self.wait_for_any().is_over
    }

    fn wait_for_any(&self) -> MutexGuard<'_, DemandState> {
        let is_idle = |state: &mut DemandState| state.viewers == 0 && !state.once && !state.is_over;
        let state = self.changed.wait_while(locked(&self.state), is_idle);
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who looks, until it is dropped.
pub(crate) struct NodeViewer(Arc<Demand>);

impl Drop for NodeViewer {
    fn drop(&mut self) {
        self.0.change(|state| state.viewers -= 1);
    }
}

/// Values of the node over time, by scope and metric.
type NodeHistory = BTreeMap<(String, String), (Unit, SeriesOverview)>;

/// The latest report, and the thread that makes it.
pub(crate) struct NodeBoard {
    demand: Arc<Demand>,
    looks: watch::Receiver<Option<Arc<NodeLook>>>,
    history: Arc<Mutex<NodeHistory>>,
}

impl NodeBoard {
    /// Starts the thread; it rests.
    pub(crate) fn start(feed: FeedOpener) -> std::io::Result<NodeBoard> {
        let (sender, looks) = watch::channel(None);
        let demand = Arc::new(Demand::default());
        let history = Arc::new(Mutex::new(NodeHistory::new()));
        let (wanted, kept) = (demand.clone(), history.clone());
        let thread = std::thread::Builder::new().name("node".into());
        thread.spawn(move || take_reports(feed, &wanted, &kept, &sender))?;
        Ok(NodeBoard { demand, looks, history })
    }

    /// Takes part in what the thread makes, as long as the viewer is held.
    pub(crate) fn view(&self) -> (NodeViewer, watch::Receiver<Option<Arc<NodeLook>>>) {
        self.demand.change(|state| state.viewers += 1);
        let mut looks = self.looks.clone();
        // What was the latest when nobody looked is no news.
        looks.mark_unchanged();
        (NodeViewer(self.demand.clone()), looks)
    }

    /// A report of now; none if there will be none.
    pub(crate) async fn look(&self) -> Option<Arc<NodeLook>> {
        let mut looks = self.looks.clone();
        let asked = Instant::now();
        let is_fresh = |look: &Option<Arc<NodeLook>>| {
            look.as_ref().is_some_and(|look| look.at + FRESH > asked)
        };
        if !is_fresh(&looks.borrow()) {
            self.demand.change(|state| state.once = true);
        }
        let fresh = tokio::time::timeout(PATIENCE, looks.wait_for(is_fresh)).await;
        fresh.ok()?.ok()?.clone()
    }

    /// The series that there are.
    pub(crate) fn series_list(&self) -> Vec<SeriesRow> {
        let history = locked(&self.history);
        let row =
            |((scope, metric), (unit, series)): (&(String, String), &(Unit, SeriesOverview))| {
                SeriesRow {
                    metric: metric.clone(),
                    scope: scope.clone(),
                    unit: Some(*unit),
                    samples: series.samples(),
                }
            };
        history.iter().map(row).collect()
    }

    /// One of them.
    pub(crate) fn series(&self, scope: &str, metric: &str) -> Option<(Unit, SeriesOverview)> {
        locked(&self.history).get(&(scope.to_string(), metric.to_string())).cloned()
    }
}

impl Drop for NodeBoard {
    fn drop(&mut self) {
        self.demand.change(|state| state.is_over = true);
    }
}

fn take_reports(
    open: FeedOpener,
    demand: &Demand,
    history: &Mutex<NodeHistory>,
    sender: &watch::Sender<Option<Arc<NodeLook>>>,
) {
    // Nothing is opened before somebody looks.
    if !demand.wait_before_first() {
        return;
    }
    let mut feed = open();
    feed.set_interval(INTERVAL);
    let mut last: Option<Instant> = None;
    while demand.wait() {
        if last.is_none_or(|last| last.elapsed() > REST) && feed.next().is_none() {
            break;
        }
        let Some(report) = feed.next() else { break };
        remember(&mut locked(history), &report);
        let at = Instant::now();
        last = Some(at);
        sender.send_replace(Some(Arc::new(NodeLook { report, at, event: OnceLock::new() })));
    }
}

fn remember(history: &mut NodeHistory, report: &TopReport) {
    let time_ns = i64::try_from(report.time.as_nanosecond()).unwrap_or(i64::MAX);
    for (scope, values) in &report.metrics {
        let scope = scope.to_string();
        for (metric, known) in values {
            let Some(value) = known.value else { continue };
            let key = (scope.clone(), metric.clone());
            if history.len() >= SERIES_MOST && !history.contains_key(&key) {
                continue;
            }
            let (_, series) = history.entry(key).or_insert((known.unit, SeriesOverview::default()));
            series.push(time_ns, value.as_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ScriptedFeed;
    use std::sync::atomic::Ordering::SeqCst;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn the_feed_rests_while_nobody_looks() {
        let (feed, ticks) = ScriptedFeed::new();
        let board = NodeBoard::start(Box::new(|| Box::new(feed))).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(ticks.load(SeqCst), 0);
        let look = block_on(board.look()).unwrap();
        assert_eq!(look.report.node, "tick 2", "the first is over the rest");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(ticks.load(SeqCst), 2, "one request, one report");
        let (viewer, mut looks) = board.view();
        let is_ninth = |look: &Option<Arc<NodeLook>>| {
            look.as_ref().is_some_and(|look| {
                look.report.metrics.values().any(|values| {
                    values
                        .values()
                        .any(|value| value.value.is_some_and(|value| value.as_f64() >= 9.0))
                })
            })
        };
        block_on(looks.wait_for(is_ninth)).unwrap();
        drop(viewer);
        std::thread::sleep(Duration::from_millis(50));
        let rested = ticks.load(SeqCst);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(ticks.load(SeqCst), rested);
        assert_eq!(board.series_list()[0].samples, rested as u64 - 1);
    }

    #[test]
    fn where_the_feed_ends_nobody_waits() {
        let (mut feed, _) = ScriptedFeed::new();
        feed.reports_left = 1;
        let board = NodeBoard::start(Box::new(|| Box::new(feed))).unwrap();
        assert!(block_on(board.look()).is_none());
    }
}
