//! Kinds of calls, and what makes a call of one slow or ordinary.

use weigh_schema::call_row::CallRow;
use weigh_schema::explain::{AskedToken, INTERVAL, Verdict};

/// The call, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindKey {
    pub(super) call: String,
    pub(super) of: Option<String>,
    /// Two files whose names are no UTF-8 may be shown alike.
    pub(super) of_base64: Option<String>,
}

impl KindKey {
    pub(super) fn of(row: &CallRow) -> KindKey {
        KindKey { call: row.call.clone(), of: row.of.clone(), of_base64: row.of_base64.clone() }
    }

    pub(super) fn interval() -> KindKey {
        KindKey { call: INTERVAL.to_string(), of: None, of_base64: None }
    }
}

pub(super) fn is_of(row: &CallRow, asked: &AskedToken) -> bool {
    row.interval.is_some_and(|interval| interval.token == asked.token)
}

/// What makes a call of a kind slow or ordinary, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Borders {
    pub(super) calls: u64,
    pub(super) median: u64,
    /// From the first on, below the second.
    pub(super) ordinary: (u64, u64),
    pub(super) slow: u64,
    pub(super) verdict: Verdict,
}
