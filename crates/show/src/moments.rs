//! Snapshots for people: when, why, and the metrics that most are taken for.
//!
//! Reads the snapshots of a summary; emits rows of texts, for the table and for the page.

use serde::Serialize;
use weigh_schema::amount::show_amount;
use weigh_schema::metric_name;
use weigh_schema::summary::{Cause, Snapshot};
use weigh_schema::{Unit, metric};

/// The metrics that are shown; all of them stand in `summary.json`.
pub const SHOWN: [&str; 5] = [
    metric_name::cpu_seconds,
    metric_name::memory_peak_bytes,
    metric_name::io_read_bytes_total,
    metric_name::io_written_bytes_total,
    metric_name::processes_total,
];

/// One snapshot in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// Its label.
    pub label: String,
    /// Seconds from the start.
    pub at: f64,
    /// The same for people.
    pub when: String,
    /// What it was taken for.
    pub because: String,
    /// The metrics of [`SHOWN`]; null where one was not known.
    pub values: Vec<Option<String>>,
}

/// A snapshot in words.
pub fn moment(snapshot: &Snapshot) -> Moment {
    let values = SHOWN.iter().map(|name| {
        let number = snapshot.metrics.get(*name)?.number()?;
        Some(show_amount(number, metric(name)?.unit))
    });
    Moment {
        label: snapshot.label.clone(),
        at: snapshot.at_seconds,
        when: show_amount(snapshot.at_seconds, Unit::Seconds),
        because: because(snapshot),
        values: values.collect(),
    }
}

fn because(snapshot: &Snapshot) -> String {
    let what = match (snapshot.cause, &snapshot.line) {
        (Cause::Line, Some(line)) => format!("{}: {line}", snapshot.file),
        (cause, _) => format!("{} was {cause}", snapshot.file),
    };
    match snapshot.count {
        0 | 1 => what,
        count => format!("{what} (the last of {count})"),
    }
}
