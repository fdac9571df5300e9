//! Takes numbers that are not finite out of what is to be written, since JSON cannot hold them
//! and none of them is a measurement. A sample or a process's metric is left out, a metric of the
//! summary becomes unavailable, a limit that is no number is dropped. All of them are counted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use weigh_schema::summary::{LimitOutcome, Snapshot, Summary};
use weigh_schema::update::Update;
use weigh_schema::{Number, Value};

/// The entry without them, and how many there were.
pub(crate) fn finite_entry(entry: &Update) -> (Cow<'_, Update>, u64) {
    let found = match entry {
        Update::Samples { values, .. } => count(values, |x| x.is_finite()),
        Update::Process(row) => count(&row.metrics, is_finite),
        Update::Started(summary) | Update::Summary(summary) => count_in_summary(summary),
        Update::Snapshot(snapshot) => count_in_snapshot(snapshot),
        Update::FileUse(_)
        | Update::FileUseSoFar(_)
        | Update::IoTotals(_)
        | Update::IoInterval(_)
        | Update::OffsetHistogram(_)
        | Update::Syscall(_)
        | Update::SyscallTotals(_)
        // Made of whole numbers: what divides them is no zero.
        | Update::Region(_)
        | Update::RegionSoFar(_)
        | Update::Phase(_)
        | Update::Unknown => 0,
    };
    if found == 0 {
        return (Cow::Borrowed(entry), 0);
    }
    let mut clean = entry.clone();
    match &mut clean {
        Update::Samples { values, .. } => values.retain(|_, x| x.is_finite()),
        Update::Process(row) => row.metrics.retain(|_, number| is_finite(number)),
        Update::Started(summary) | Update::Summary(summary) => clean_summary(summary),
        Update::Snapshot(snapshot) => clean_values(&mut snapshot.metrics),
        // None was found in others.
        _ => {}
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
