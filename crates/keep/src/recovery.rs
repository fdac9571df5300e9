//! A summary for a recording that was cut short: the last one that its journal holds, brought up
//! to date by the samples that follow it.
//!
//! Only what samples can tell is touched: counters and peaks that have a series, and the time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use weigh_schema::io::IoFound;
use weigh_schema::metric_name;
use weigh_schema::summary::{Snapshot, Summary};
use weigh_schema::update::{Scope, Update};
use weigh_schema::{METRICS, Mechanism, Metric, MetricKind, Quality, Value, metric};

const NANOSECONDS: f64 = 1e9;
/// A journal may be hostile: of more series and snapshots than these nothing is kept.
const SERIES_MOST: usize = 10_000;
const NAME_BYTES_MOST: usize = 1024;
const SNAPSHOTS_MOST: usize = 10_000;

/// What a journal tells about its job, gathered entry by entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    summary: Option<Box<Summary>>,
    /// Samples of the job since that summary, by series: the last and the greatest.
    since: BTreeMap<String, LatestTimes>,
    snapshots: Vec<Snapshot>,
    io: Option<Box<IoFound>>,
    /// The latest time that any row speaks of.
    last_time_ns: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct LatestTimes {
    last: f64,
    greatest: f64,
    least: f64,
}

impl Tally {
    pub(crate) fn take(&mut self, entry: Update) {
        match entry {
            Update::Started(summary) | Update::Summary(summary) => {
                self.summary = Some(summary);
                self.since.clear();
            }
            Update::Samples { time_ns, scope, values } => {
                self.saw_time(time_ns);
                if scope == Scope::Job {
                    self.take_values(values);
                }
            }
            Update::Process(row) => self.saw_time(row.ended_ns.unwrap_or(row.started_ns)),
            Update::Snapshot(snapshot) => {
                self.saw_time(snapshot.taken.as_nanosecond() as i64);
                if self.snapshots.len() < SNAPSHOTS_MOST {
                    self.snapshots.push(*snapshot);
                }
            }
            Update::IoTotals(found) => self.io = Some(found),
            Update::IoInterval(row) => self.saw_time(row.time_ns),
            Update::Syscall(row) => self.saw_time(row.time_ns),
            Update::Phase(row) => self.saw_time(row.ended_ns),
            Update::FileUse(_)
            | Update::Region(_)
            | Update::RegionSoFar(_)
            | Update::FileUseSoFar(_)
            | Update::SyscallTotals(_)
            | Update::OffsetHistogram(_)
            | Update::Unknown => {}
        }
    }

    fn saw_time(&mut self, time_ns: i64) {
        self.last_time_ns = self.last_time_ns.max(Some(time_ns));
    }

    fn take_values(&mut self, values: BTreeMap<String, f64>) {
        for (series, value) in values {
            let is_one_more = !self.since.contains_key(&series);
            let is_full = self.since.len() >= SERIES_MOST || series.len() > NAME_BYTES_MOST;
            if is_one_more && is_full {
                continue;
            }
            let seen = self.since.entry(series).or_insert(LatestTimes {
                last: value,
                greatest: value,
                least: value,
            });
            seen.last = value;
            seen.greatest = seen.greatest.max(value);
            seen.least = seen.least.min(value);
        }
    }

    /// Up to when something was recorded.
    pub(crate) fn last_time(&self) -> Option<Timestamp> {
        Timestamp::from_nanosecond(i128::from(self.last_time_ns?)).ok()
    }

    /// The summary as far as it is known; none if the journal does not say which job it is about.
    pub(crate) fn into_summary(self) -> Option<Summary> {
        let last_time = self.last_time();
        let mut summary = *self.summary?;
        if summary.exit.is_some() {
            // It was made when the job had ended: no sample knows better.
            return Some(summary);
        }
        summary.snapshots = self.snapshots;
        summary.io = self.io;
        for metric in METRICS {
            let Some(seen) = metric.series.and_then(|series| self.since.get(series)) else {
                continue;
            };
            match metric.kind {
                MetricKind::Counter => raise(&mut summary, metric, seen.last),
                MetricKind::Peak => raise(&mut summary, metric, seen.greatest),
                MetricKind::Floor => lower(&mut summary, metric, seen.least),
                // What a gauge was on the whole, its last values do not say.
                MetricKind::Gauge => {}
            }
        }
        if let Some((wall, last)) = metric(metric_name::wall_seconds).zip(last_time) {
            let nanoseconds = last.as_nanosecond() - summary.job.started.as_nanosecond();
            if nanoseconds > 0 {
                raise(&mut summary, wall, nanoseconds as f64 / NANOSECONDS);
            }
        }
        for limit in summary.limits.iter_mut().filter(|limit| limit.observed.is_none()) {
            limit.observed = summary.metrics.get(&limit.metric).and_then(|value| value.value);
        }
        Some(summary)
    }
}

/// Replaces a value by a greater one that later samples have shown.
fn raise(summary: &mut Summary, metric: &Metric, seen: f64) {
    let known = summary.metrics.get(metric.name);
    if known.and_then(Value::number).is_some_and(|number| number >= seen) {
        return;
    }
    // Samples of older builds have a 0 of what nobody counts.
    if seen == 0.0 && known.is_some_and(|value| value.quality == Quality::Unavailable) {
        return;
    }
    put_sample(summary, metric, seen);
}

/// Replaces a value by a lesser one that later samples have shown.
fn lower(summary: &mut Summary, metric: &Metric, seen: f64) {
    let known = summary.metrics.get(metric.name).and_then(Value::number);
    if known.is_none_or(|number| number > seen) {
        put_sample(summary, metric, seen);
    }
}

fn put_sample(summary: &mut Summary, metric: &Metric, seen: f64) {
    let known = summary.metrics.get(metric.name);
    let value = Value {
        value: Some(metric.unit.number(seen)),
        unit: metric.unit,
        // Samples do not carry it: it is that of the provisional value, if there was one.
        source: known.map_or(Mechanism::None, |value| value.source),
        quality: Quality::Sampled,
        reason: Some("as of the last sample in the journal".to_string()),
    };
    summary.metrics.insert(metric.name.to_string(), value);
}
