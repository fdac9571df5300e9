//! Takes numbers that are not finite out of what is to be written, since JSON cannot hold them
//! and none of them is a measurement. A sample or a process's metric is left out, a metric of the
//! summary becomes unavailable, a limit that is no number is dropped. All of them are counted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use weigh_schema::snapshot::Snapshot;
use weigh_schema::summary::{LimitOutcome, Summary};
use weigh_schema::{Number, Value};

use crate::journal::Entry;

/// The entry without them, and how many there were.
pub(crate) fn finite_entry(entry: &Entry) -> (Cow<'_, Entry>, u64) {
    let found = match entry {
        Entry::Samples { values, .. } => count(values, |x| x.is_finite()),
        Entry::Process(row) => count(&row.metrics, is_finite),
        Entry::Started(summary) | Entry::Summary(summary) => count_in_summary(summary),
        Entry::Snapshot(snapshot) => count_in_snapshot(snapshot),
        Entry::File(_)
        | Entry::FileSoFar(_)
        | Entry::Io(_)
        | Entry::IoMoment(_)
        | Entry::IoPlace(_)
        | Entry::IoCall(_)
        | Entry::Unknown => 0,
    };
    if found == 0 {
        return (Cow::Borrowed(entry), 0);
    }
    let mut clean = entry.clone();
    match &mut clean {
        Entry::Samples { values, .. } => values.retain(|_, x| x.is_finite()),
        Entry::Process(row) => row.metrics.retain(|_, number| is_finite(number)),
        Entry::Started(summary) | Entry::Summary(summary) => clean_summary(summary),
        Entry::Snapshot(snapshot) => clean_values(&mut snapshot.metrics),
        Entry::File(_)
        | Entry::FileSoFar(_)
        | Entry::Io(_)
        | Entry::IoMoment(_)
        | Entry::IoPlace(_)
        | Entry::IoCall(_)
        | Entry::Unknown => {}
    }
    (Cow::Owned(clean), found)
}

/// The summary without them, and how many there were.
pub(crate) fn finite_summary(mut summary: Summary) -> (Summary, u64) {
    let found = count_in_summary(&summary);
    clean_summary(&mut summary);
    (summary, found)
}

fn is_finite(number: &Number) -> bool {
    number.as_f64().is_finite()
}

fn count<T>(values: &BTreeMap<String, T>, is_finite: fn(&T) -> bool) -> u64 {
    values.values().filter(|value| !is_finite(value)).count() as u64
}

fn count_in_summary(summary: &Summary) -> u64 {
    let in_limit = |limit: &LimitOutcome| {
        let numbers = [limit.observed, limit.overshoot_at_most].map(|n| n.map(Number::as_f64));
        let numbers = numbers.into_iter().chain([Some(limit.limit.as_f64())]);
        let numbers = numbers.chain([limit.at_seconds]);
        numbers.flatten().filter(|x| !x.is_finite()).count() as u64
    };
    count_in_values(&summary.metrics)
        + summary.limits.iter().map(in_limit).sum::<u64>()
        + summary.snapshots.iter().map(count_in_snapshot).sum::<u64>()
}

fn count_in_snapshot(snapshot: &Snapshot) -> u64 {
    count_in_values(&snapshot.metrics)
}

fn count_in_values(values: &BTreeMap<String, Value>) -> u64 {
    count(values, |value| value.value.iter().all(is_finite))
}

fn clean_values(values: &mut BTreeMap<String, Value>) {
    for value in values.values_mut().filter(|v| !v.value.iter().all(is_finite)) {
        *value = Value::unavailable(value.unit, "what was measured is not a finite number");
    }
}

fn clean_summary(summary: &mut Summary) {
    clean_values(&mut summary.metrics);
    summary.snapshots.iter_mut().for_each(|snapshot| clean_values(&mut snapshot.metrics));
    summary.limits.retain(|limit| is_finite(&limit.limit));
    for limit in &mut summary.limits {
        limit.observed = limit.observed.filter(is_finite);
        limit.overshoot_at_most = limit.overshoot_at_most.filter(is_finite);
        limit.at_seconds = limit.at_seconds.filter(|x| x.is_finite());
    }
}
