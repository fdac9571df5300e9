//! What system calls cost in each part of the kernel, as the page has it: words already chosen.

use serde::Serialize;
use weigh_schema::call::{CallKind, CallsReport};

use crate::calls::{headline_text, notes_on_recorded, parts_in_words};

/// The most kinds of calls that a page carries.
const ROWS: usize = 500;

/// System calls.
#[derive(Clone, Debug, Serialize)]
pub struct CallsPage {
    /// How many there were, in words.
    pub headline: String,
    /// How many kinds of calls the recording has.
    pub total: u64,
    /// Those that took most time, the greatest first.
    pub rows: Vec<CallKindRow>,
    /// What is missing or less than exact, and why.
    pub notes: Vec<String>,
}

/// All calls of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct CallKindRow {
    /// Its name.
    pub call: String,
    /// How many.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Their time, all together, in seconds.
    pub total: f64,
    /// Half of them took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
    /// What they caused that came after they had returned, in seconds.
    pub later: f64,
    /// Where the time went, in words.
    pub parts: String,
}

/// Of a report.
pub fn calls_page(report: &CallsReport) -> CallsPage {
    CallsPage {
        headline: headline_text(report),
        total: report.calls.len() as u64,
        rows: report.calls.iter().take(ROWS).map(row).collect(),
        notes: notes_on_recorded(report),
    }
}

fn row(kind: &CallKind) -> CallKindRow {
    CallKindRow {
        call: kind.call.clone(),
        calls: kind.calls_total,
        errors: kind.errors_total,
        bytes: kind.bytes_total,
        total: kind.time_seconds,
        p50: kind.time_p50_seconds,
        p99: kind.time_p99_seconds,
        max: kind.time_max_seconds,
        later: kind.later_seconds(),
        parts: parts_in_words(kind),
    }
}
