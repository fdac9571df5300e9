//! The summary of a recording: that of its file, or for one that was cut short the last one that its journal holds,
//! brought up to date by the samples that follow it.
//!
//! Only what samples can tell is touched: counters and peaks that have a series, and the time.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read as _};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::Deserialize;
use weigh_schema::io::IoFound;
use weigh_schema::metric_name;
use weigh_schema::summary::{SCHEMA, Snapshot, Summary};
use weigh_schema::update::{Scope, Update};
use weigh_schema::{METRICS, Mechanism, Metric, MetricKind, Printable, Quality, Value, metric};

use crate::error::{KeepError, harmless};
use crate::file_access::FileAccess;
use crate::journal::{Condition, JournalReader, LINE_BYTES_MAX};

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

#[derive(Clone, Debug)]
pub(crate) struct Incomplete {
    pub(crate) running: bool,
    pub(crate) because: String,
}

/// The part of a summary that every version has.
#[derive(Deserialize)]
struct Versioned {
    schema: String,
}

/// Reads `summary.json`; none if there is no such file.
pub(crate) fn read_summary(path: &Path, access: FileAccess) -> Result<Option<Summary>, KeepError> {
    let text = match read_bounded(path, access) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(KeepError::read(path, e)),
    };
    // First the version alone: a later one may look quite different.
    let versioned: Versioned =
        serde_json::from_slice(&text).map_err(|e| KeepError::damaged(path, e))?;
    check_schema(path, &versioned.schema)?;
    serde_json::from_slice(&text).map(Some).map_err(|e| KeepError::damaged(path, e))
}

/// Reads a file that is no longer than a line of a journal may be.
fn read_bounded(path: &Path, access: FileAccess) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    access.open(path)?.take(LINE_BYTES_MAX + 1).read_to_end(&mut text)?;
    match text.len() as u64 > LINE_BYTES_MAX {
        true => Err(std::io::Error::other("it is longer than a summary can be")),
        false => Ok(text),
    }
}

pub(crate) fn check_schema(path: &Path, found: &str) -> Result<(), KeepError> {
    if found == SCHEMA {
        return Ok(());
    }
    Err(KeepError::UnknownSchema {
        path: path.to_path_buf(),
        found: harmless(found),
        reads: SCHEMA,
    })
}

/// Goes through a journal; none if there is no such file.
pub(crate) fn open_journal(
    path: &Path,
    access: FileAccess,
) -> Result<Option<(Summary, Incomplete)>, KeepError> {
    let file = match access.open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(KeepError::read(path, e)),
    };
    // The writer holds a lock as long as it lives.
    let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
    let running = lock == Err(Errno::WOULDBLOCK);
    let mut journal = JournalReader::new(BufReader::new(file));
    let mut tally = Tally::default();
    while let Some(entry) = journal.next_entry().map_err(|e| KeepError::read(path, e))? {
        if let Update::Started(summary) | Update::Summary(summary) = &entry {
            check_schema(path, &summary.schema)?;
        }
        tally.take(entry);
    }
    let condition = journal.condition;
    let last_time = tally.last_time();
    let Some(summary) = tally.into_summary() else {
        return Err(no_beginning(path, access, &condition));
    };
    let because = sentence(running, &summary, last_time, &condition);
    Ok(Some((summary, Incomplete { running, because })))
}

/// Why a journal does not say which job it is about.
fn no_beginning(path: &Path, access: FileAccess, condition: &Condition) -> KeepError {
    // A later version's summary is no entry to this one, but it still says its version.
    let first = access.open(path).and_then(|file| {
        let mut line = Vec::new();
        BufReader::new(file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map(|_| line)
    });
    let versioned = first.ok().and_then(|line| serde_json::from_slice::<Versioned>(&line).ok());
    if let Some(Err(unknown)) = versioned.map(|first| check_schema(path, &first.schema)) {
        return unknown;
    }
    KeepError::NoBeginning {
        path: path.to_path_buf(),
        lines: condition.lines,
        damaged: condition.damaged,
    }
}

/// Why a recording is incomplete, for people.
pub(crate) fn sentence(
    running: bool,
    summary: &Summary,
    last_time: Option<Timestamp>,
    condition: &Condition,
) -> String {
    let mut text = match (running, summary.exit.is_some()) {
        (true, _) => "still being recorded".to_string(),
        (false, false) => {
            "incomplete: it has no end (weigh was killed, the machine went down, or the disk was full)"
                .to_string()
        }
        (false, true) => {
            "incomplete: the job had ended, but weigh could not write the tables".to_string()
        }
    };
    match last_time {
        Some(time) => text += &format!("; it holds what was recorded up to {time:.3}"),
        None => text += "; nothing was recorded but the start",
    }
    // While it grows, a last line that is half written is what one expects.
    if condition.cut_off && !running {
        text += "; its last line was cut off";
    }
    if let Some((line, reason)) = &condition.first_damage {
        let damaged = condition.damaged;
        text += &format!(
            "; damaged lines passed over: {damaged} (first: line {line}, {})",
            Printable(reason)
        );
    }
    text
}
