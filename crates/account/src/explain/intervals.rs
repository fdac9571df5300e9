//! Intervals of libweigh out of single calls: each with the calls that a thread made in it, added up.
//!
//! Reads rows as they come, those of a thread in their order; emits one row for each interval when the
//! thread is seen outside of it, or at the end. What is held grows with the threads.

use std::collections::HashMap;

use weigh_schema::call_row::{CallRow, Returned};
use weigh_schema::explain::{INTERVAL, Of};

/// The intervals that threads are in.
#[derive(Debug)]
pub struct Intervals {
    of: Of,
    open: HashMap<(u32, u32), CallRow>,
}

impl Intervals {
    /// With nothing in them yet.
    pub fn new(of: Of) -> Intervals {
        Intervals { of, open: HashMap::new() }
    }

    /// Takes a call in; gives what is to be compared from now on: the call itself, or an interval
    /// that it ends.
    pub fn add(&mut self, call: CallRow) -> Option<CallRow> {
        if self.of == Of::Call {
            return Some(call);
        }
        let thread = (call.pid, call.tid);
        if call.interval.is_none() {
            return self.open.remove(&thread);
        }
        match self.open.get_mut(&thread) {
            Some(open) if open.interval == call.interval => {
                take_in(open, &call);
                None
            }
            _ => self.open.insert(thread, begun(call, self.of)),
        }
    }

    /// The intervals that nothing was seen after.
    pub fn rest(&mut self) -> impl Iterator<Item = CallRow> {
        std::mem::take(&mut self.open).into_values()
    }
}

/// An interval with its first call in it.
fn begun(call: CallRow, of: Of) -> CallRow {
    let token = call.interval.filter(|_| of == Of::Token).map(|interval| interval.token);
    let result = moved(&call);
    CallRow {
        result,
        call: INTERVAL.to_string(),
        of: token.map(|token| format!("token {token}")),
        of_base64: None,
        ..call
    }
}

/// What an interval has of a call's bytes.
fn moved(call: &CallRow) -> Returned {
    Returned(call.moved().and_then(|bytes| bytes.try_into().ok()).unwrap_or(0))
}

fn take_in(interval: &mut CallRow, call: &CallRow) {
    let ended = call.time_ns.saturating_add_unsigned(call.account.time_ns());
    let lasted = ended.saturating_sub(interval.time_ns);
    interval.account.add(&call.account);
    // With what the program did between its calls.
    interval.account.set_time_ns(lasted.try_into().unwrap_or(0));
    interval.result.0 = interval.result.0.saturating_add(moved(call).0);
    interval.measured &= call.measured;
    interval.absent = interval.absent.and(call.absent);
    interval.known_later &= call.known_later;
    for (longest, other) in interval.rivals.iter_mut().zip(&call.rivals) {
        let is_longer = |other: &weigh_schema::call::Rival| {
            longest.as_ref().is_none_or(|longest| other.time_ns > longest.time_ns)
        };
        if other.as_ref().is_some_and(is_longer) {
            longest.clone_from(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::call::{Interval, Rival};

    /// A call of a thread that began and took so many nanoseconds.
    fn call(tid: u32, began: i64, took: u64, interval: Option<(u64, u64)>) -> CallRow {
        let interval = interval.map(|(number, token)| Interval { number, token });
        let name = "read".to_string();
        let mut row =
            CallRow { pid: 1, tid, time_ns: began, call: name, interval, ..CallRow::default() };
        row.account.set_time_ns(took);
        row
    }

    fn all(of: Of, calls: impl IntoIterator<Item = CallRow>) -> Vec<(i64, u64, Option<String>)> {
        let mut intervals = Intervals::new(of);
        let mut found: Vec<CallRow> =
            calls.into_iter().filter_map(|call| intervals.add(call)).collect();
        found.extend(intervals.rest());
        found.sort_by_key(|row| row.time_ns);
        found.into_iter().map(|row| (row.time_ns, row.account.time_ns(), row.of)).collect()
    }

    #[test]
    fn calls_of_an_interval_are_one_from_the_first_to_the_end_of_the_last() {
        let calls = || {
            [
                call(1, 100, 5, None),
                call(1, 200, 10, Some((7, 4711))),
                // Another thread's interval of the same number, and token.
                call(2, 205, 7, Some((7, 4711))),
                call(1, 230, 15, Some((7, 4711))),
                call(1, 300, 1, Some((8, 4711))),
                call(1, 400, 1, None),
                call(1, 500, 2, Some((9, 0))),
            ]
        };
        let found = all(Of::Interval, calls());
        assert_eq!(found, [(200, 45, None), (205, 7, None), (300, 1, None), (500, 2, None)]);
        let named = all(Of::Token, calls());
        let tokens: Vec<&str> = named.iter().filter_map(|row| row.2.as_deref()).collect();
        assert_eq!(tokens, ["token 4711", "token 4711", "token 4711", "token 0"]);
        assert_eq!(all(Of::Call, calls()).len(), 7);
    }

    #[test]
    fn an_interval_moved_what_its_calls_did() {
        let calls = [("openat", 3), ("read", 100), ("read", -11), ("write", 50)];
        let mut intervals = Intervals::new(Of::Interval);
        for (name, result) in calls {
            let row = CallRow {
                call: name.into(),
                result: Returned(result),
                ..call(1, 1, 1, Some((1, 1)))
            };
            assert!(intervals.add(row).is_none());
        }
        assert_eq!(intervals.rest().next().unwrap().moved(), Some(150));
    }

    #[test]
    fn of_those_in_the_way_the_longest_stays() {
        let met =
            |time_ns| Some(Rival { pid: 3, name: "ffmpeg".into(), name_base64: None, time_ns });
        let mut calls = [7, 9, 8].map(|time| {
            let mut row = call(1, time, 1, Some((1, 1)));
            row.rivals[0] = met(time as u64);
            row
        });
        calls[1].rivals[1] = met(0);
        let mut intervals = Intervals::new(Of::Interval);
        assert!(calls.into_iter().all(|call| intervals.add(call).is_none()));
        let found: Vec<CallRow> = intervals.rest().collect();
        assert_eq!((&found[0].rivals[0], &found[0].rivals[1]), (&met(9), &met(0)));
    }
}
