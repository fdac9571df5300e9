//! The node's values while somebody looks: a thread takes reports from the feed, and rests when nobody does.
//!
//! Reads [`NodeFeed`]; emits the latest report, or why there is none, to any number of readers, each of which sees the newest
//! that there is, and keeps a short history of every value.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tokio::sync::watch;
use weigh_keep::SeriesOverview;
use weigh_schema::Unit;
use weigh_schema::top::TopReport;

use crate::api::SeriesRow;
use crate::error::ApiError;
use crate::event::event;
use crate::feed::{FeedEvent, FeedOpener, NodeFeed};
use crate::node_change::node_change;

/// Between two reports while somebody looks, at least and at most.
const INTERVAL: Duration = Duration::from_millis(100);
const INTERVAL_MOST: Duration = Duration::from_secs(1);
/// The time between two reports is so many times what one takes of a CPU: 2 % of it, where that can be.
const INTERVAL_PER_COST: u32 = 50;
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
    pub(crate) report: Arc<TopReport>,
    /// The one before it; none where the feed has rested since.
    before: Option<Arc<TopReport>>,
    /// Counts the reports.
    number: u64,
    at: Instant,
    whole: OnceLock<Bytes>,
    change: OnceLock<Option<Bytes>>,
}

impl NodeLook {
    /// The look after another one.
    fn after(last: Option<&NodeLook>, report: TopReport, at: Instant) -> NodeLook {
        NodeLook {
            report: Arc::new(report),
            before: last.map(|last| last.report.clone()),
            number: last.map_or(0, |last| last.number + 1),
            at,
            whole: OnceLock::new(),
            change: OnceLock::new(),
        }
    }

    /// What a client gets that has this look as its last one: what has changed, or the whole report. Each is made once for all.
    fn event_after(&self, known: Option<u64>) -> Bytes {
        let is_next = known.is_some_and(|known| known + 1 == self.number);
        let change = if is_next { self.change.get_or_init(|| self.change_event()) } else { &None };
        change.clone().unwrap_or_else(|| self.whole_event())
    }

    fn change_event(&self) -> Option<Bytes> {
        let change = node_change(self.before.as_deref()?, &self.report, PROCESSES_SENT)?;
        Some(event("change", &change))
    }

    fn whole_event(&self) -> Bytes {
        self.whole.get_or_init(|| event("node", &shortened(&self.report))).clone()
    }
}

/// Why there are no values now: `event: outage` of the stream.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NodeOutage {
    /// When the last values came; null if none did.
    pub(crate) since: Option<Timestamp>,
    pub(crate) reason: String,
    #[serde(skip)]
    pub(crate) at: Instant,
}

impl NodeOutage {
    /// What a request gets for an answer.
    fn error(&self) -> ApiError {
        let since = self.since.map_or_else(String::new, |since| format!(" since {since:.0}"));
        ApiError::no_data(&format!("no data of the node{since}: {}", self.reason))
    }
}

/// The newest that is known of the node.
#[derive(Clone, Default)]
pub(crate) enum NodeState {
    /// Nobody has looked.
    #[default]
    Unknown,
    Report(Arc<NodeLook>),
    Outage(Arc<NodeOutage>),
}

impl NodeState {
    /// As an event of the stream, for a client that has the report of this number; it has the new one then.
    pub(crate) fn event_after(&self, known: &mut Option<u64>) -> Option<Bytes> {
        match self {
            NodeState::Unknown => None,
            NodeState::Report(look) => Some(look.event_after(known.replace(look.number))),
            NodeState::Outage(outage) => Some(event("outage", &**outage)),
        }
    }

    /// When it came.
    fn at(&self) -> Option<Instant> {
        match self {
            NodeState::Unknown => None,
            NodeState::Report(look) => Some(look.at),
            NodeState::Outage(outage) => Some(outage.at),
        }
    }
}

fn shortened(report: &TopReport) -> TopReport {
    let mut short = report.clone();
    short.processes.truncate(PROCESSES_SENT);
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

impl DemandState {
    fn is_idle(&self) -> bool {
        self.viewers == 0 && !self.once && !self.is_over
    }
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

    /// Blocks until somebody looks, and lets the feed rest if that is later; false when nobody will any more.
    fn wait(&self, feed: &mut dyn NodeFeed) -> bool {
        if locked(&self.state).is_idle() {
            feed.rest();
        }
        let mut state = self.wait_for_any();
        state.once = false;
        !state.is_over
    }

    /// The same, and the wish stays.
    fn wait_before_first(&self) -> bool {
        !self.wait_for_any().is_over
    }

    fn wait_for_any(&self) -> MutexGuard<'_, DemandState> {
        let state = self.changed.wait_while(locked(&self.state), |state| state.is_idle());
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
    looks: watch::Receiver<NodeState>,
    history: Arc<Mutex<NodeHistory>>,
}

impl NodeBoard {
    /// Starts the thread; it rests.
    pub(crate) fn start(feed: FeedOpener) -> std::io::Result<NodeBoard> {
        let (sender, looks) = watch::channel(NodeState::Unknown);
        let demand = Arc::new(Demand::default());
        let history = Arc::new(Mutex::new(NodeHistory::new()));
        let (wanted, kept) = (demand.clone(), history.clone());
        let thread = std::thread::Builder::new().name("node".into());
        thread.spawn(move || take_reports(feed, &wanted, &kept, &sender))?;
        Ok(NodeBoard { demand, looks, history })
    }

    /// Whether there will be no more reports.
    pub(crate) fn is_over(&self) -> bool {
        self.looks.has_changed().is_err()
    }

    /// Takes part in what the thread makes, as long as the viewer is held.
    pub(crate) fn view(&self) -> (NodeViewer, watch::Receiver<NodeState>) {
        self.demand.change(|state| state.viewers += 1);
        let mut looks = self.looks.clone();
        // What was the latest when nobody looked is no news.
        looks.mark_unchanged();
        (NodeViewer(self.demand.clone()), looks)
    }

    /// A report of now. Errors: there is none, and since when.
    pub(crate) async fn look(&self) -> Result<Arc<NodeLook>, ApiError> {
        let mut looks = self.looks.clone();
        let asked = Instant::now();
        let is_fresh = |state: &NodeState| state.at().is_some_and(|at| at + FRESH > asked);
        if !is_fresh(&looks.borrow()) {
            self.demand.change(|state| state.once = true);
        }
        let fresh = tokio::time::timeout(PATIENCE, looks.wait_for(is_fresh)).await;
        match fresh.ok().and_then(Result::ok).as_deref() {
            Some(NodeState::Report(look)) => Ok(look.clone()),
            Some(NodeState::Outage(outage)) => Err(outage.error()),
            _ => Err(ApiError::no_node()),
        }
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
    sender: &watch::Sender<NodeState>,
) {
    // Nothing is opened before somebody looks.
    if !demand.wait_before_first() {
        return;
    }
    let mut feed = open();
    let mut interval = INTERVAL;
    feed.set_interval(interval);
    let mut last: Option<Arc<NodeLook>> = None;
    while demand.wait(feed.as_mut()) {
        let began = thread_cpu_time();
        let is_rested = last.as_ref().is_none_or(|last| last.at.elapsed() > REST);
        let Some(news) = next_news(feed.as_mut(), is_rested) else { break };
        let at = Instant::now();
        let state = match news {
            FeedEvent::Report(report) => {
                remember(&mut locked(history), &report);
                let look = Arc::new(NodeLook::after(last.as_deref(), *report, at));
                last = Some(look.clone());
                NodeState::Report(look)
            }
            FeedEvent::Outage(reason) => {
                let since = last.as_ref().map(|last| last.report.time);
                NodeState::Outage(NodeOutage { since, reason, at }.into())
            }
        };
        sender.send_replace(state);
        let wanted = interval_for(thread_cpu_time().saturating_sub(began));
        // A feed need not be told of each small difference; after a rest it has taken two reports.
        if !is_rested && wanted.abs_diff(interval) > interval / 4 {
            interval = wanted;
            feed.set_interval(interval);
        }
    }
}

/// The next event; after a rest the first report is left out.
fn next_news(feed: &mut dyn NodeFeed, is_rested: bool) -> Option<FeedEvent> {
    match feed.next()? {
        FeedEvent::Report(_) if is_rested => feed.next(),
        news => Some(news),
    }
}

/// Between two reports, where one takes so much of a CPU.
fn interval_for(cost: Duration) -> Duration {
    (cost * INTERVAL_PER_COST).clamp(INTERVAL, INTERVAL_MOST)
}

/// What this thread has had of a CPU.
fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
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
    fn a_report_that_is_dear_comes_seldomer() {
        let wanted = [0, 1, 2, 5, 20, 500].map(|cost| interval_for(Duration::from_millis(cost)));
        assert_eq!(wanted.map(|wanted| wanted.as_millis()), [100, 100, 100, 250, 1000, 1000]);
    }

    #[test]
    fn the_first_event_is_whole_and_the_next_ones_tell_changes() {
        let tick = |text: &str| TopReport { time: text.parse().unwrap(), ..TopReport::default() };
        let first = NodeLook::after(None, tick("2026-01-02T03:04:05Z"), Instant::now());
        let next = NodeLook::after(Some(&first), tick("2026-01-02T03:04:06Z"), Instant::now());
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text(first.event_after(None)).starts_with("event: node\n"));
        let change = text(next.event_after(Some(first.number)));
        assert!(change.starts_with("event: change\ndata: {\"report\":{\"time\":"), "{change}");
        // A client that has missed one.
        for known in [None, Some(next.number), Some(next.number + 7)] {
            assert!(text(next.event_after(known)).starts_with("event: node\n"), "{known:?}");
        }
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
        let is_ninth = |state: &NodeState| {
            let NodeState::Report(look) = state else { return false };
            let mut values = look.report.metrics.values().flat_map(BTreeMap::values);
            values.any(|value| value.value.is_some_and(|value| value.as_f64() >= 9.0))
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
        assert!(block_on(board.look()).is_err());
    }

    #[test]
    fn an_outage_is_told_with_its_beginning_and_ends_by_itself() {
        let (mut feed, _) = ScriptedFeed::new();
        feed.outage = 3..5;
        let board = NodeBoard::start(Box::new(|| Box::new(feed))).unwrap();
        let first = block_on(board.look()).unwrap();
        let (_viewer, mut looks) = board.view();
        let is_outage = |state: &NodeState| matches!(state, NodeState::Outage(_));
        let outage = block_on(looks.wait_for(is_outage)).unwrap().clone();
        let NodeState::Outage(outage) = outage else { panic!("no outage") };
        assert_eq!((outage.since, outage.reason.as_str()), (Some(first.report.time), "a test"));
        let event = NodeState::Outage(outage).event_after(&mut None).unwrap();
        assert!(event.starts_with(b"event: outage\ndata: {\"since\":\""), "{event:?}");
        block_on(looks.wait_for(|state| matches!(state, NodeState::Report(_)))).unwrap();
    }
}
