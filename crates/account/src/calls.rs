//! From the kernel side's table of calls to what is told of them.
//!
//! Reads cells and single calls; emits rows, those that took most time first, with quantiles from
//! the histograms. Names of calls are given, for they are the kernel's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use weigh_schema::byte_text;
use weigh_schema::call::{
    Call, CallKind, Cell, Grouping, Named, OtherEnd, RIVALS, Rival, RivalSeen, SingleCall,
    TimeHistogram, idle_wait, is_idle,
};
use weigh_schema::call_row::{Absent, CallRow, Returned};

/// Seconds of nanoseconds.
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// The time that a part of the calls, given as a fraction, did not exceed: the upper end of the
/// bucket it falls into, but no more than the longest, so at most a sixteenth too long.
fn quantile(cell: &Cell, fraction: f64) -> u64 {
    let last = cell.times.quantile(fraction).map(TimeHistogram::last);
    last.map_or(cell.longest_ns, |last| last.clamp(cell.shortest_ns, cell.longest_ns))
}

/// What calls are about, by the grouping of the table and what was told of names.
#[derive(Debug)]
pub struct Owners {
    grouping: Grouping,
    names: HashMap<[u64; 2], String>,
}

impl Owners {
    /// Without names.
    pub fn new(grouping: Grouping) -> Owners {
        Owners { grouping, names: HashMap::new() }
    }

    /// The last name of a thing is the one that stays: a socket gets its addresses in time.
    pub fn learn(&mut self, named: impl IntoIterator<Item = Named>) {
        self.names.extend(named.into_iter().map(|named| (named.of, named.name)));
    }

    /// What people call it; none for what has no name. Its bytes in Base64 are beside it where they are no UTF-8.
    pub fn told(&self, of: [u64; 2]) -> (Option<String>, Option<String>) {
        let name = self.name(of);
        (name.as_deref().map(byte_text::shown), name.as_deref().and_then(byte_text::base64))
    }

    /// Whether it is something with another end at which a call waited.
    fn other_end(&self, of: [u64; 2]) -> Option<OtherEnd> {
        match self.grouping {
            // In place of what nobody asked for.
            Grouping::Call => OtherEnd::of_type(of[1]),
            _ => OtherEnd::named(self.name(of).as_deref()),
        }
    }

    fn name(&self, of: [u64; 2]) -> Option<String> {
        match self.grouping {
            Grouping::Call => None,
            Grouping::Thread if of[0] == of[1] => Some(format!("process {}", of[0])),
            Grouping::Thread => Some(format!("process {}, thread {}", of[0], of[1])),
            _ if of == [0, 0] => None,
            _ => {
                let unnamed = || format!("device {}, inode {}", of[0], of[1]);
                Some(self.names.get(&of).cloned().unwrap_or_else(unnamed))
            }
        }
    }
}

/// The table, what cost most time, at once and later, first.
pub fn call_kinds(cells: &[Cell], owners: &Owners, name: &dyn Fn(u64) -> String) -> Vec<CallKind> {
    let mut sorted: Vec<&Cell> = cells.iter().collect();
    sorted.sort_by_key(|cell| (cell.number, cell.of));
    let kind = |cell: &Cell| {
        let (of, of_base64) = owners.told(cell.of);
        with_ratio(CallKind {
            call: name(cell.number),
            of,
            of_base64,
            calls_total: cell.account.calls(),
            errors_total: cell.errors,
            bytes_total: cell.bytes,
            time_seconds: seconds(cell.account.time_ns()),
            time_p50_seconds: seconds(quantile(cell, 0.5)),
            time_p99_seconds: seconds(quantile(cell, 0.99)),
            time_max_seconds: seconds(cell.longest_ns),
            waiting_at_pipes_seconds: seconds(cell.waits_at_pipes_ns),
            waiting_at_sockets_seconds: seconds(cell.waits_at_sockets_ns),
            counters: cell.account.counters(),
            parts: cell.account.parts(),
            by_part: cell.by_part.as_ref().map(|p| p.numbers(&cell.account)).unwrap_or_default(),
            later: cell.account.later_numbers(),
            later_ratio: None,
        })
    };
    let mut kinds: Vec<CallKind> = sorted.into_iter().map(kind).collect();
    kinds.sort_by(|one, other| other.cost_seconds().total_cmp(&one.cost_seconds()));
    kinds
}

fn with_ratio(kind: CallKind) -> CallKind {
    let (later, cost) = (kind.later_seconds(), kind.cost_seconds());
    CallKind { later_ratio: (cost > 0.0).then(|| later / cost), ..kind }
}

/// The slowest of many calls, of which no more than so many are kept.
#[derive(Debug)]
pub struct Slowest {
    kept: usize,
    calls: Vec<Call>,
}

impl Slowest {
    /// Keeps so many.
    pub fn new(kept: usize) -> Slowest {
        Slowest { kept, calls: Vec::new() }
    }

    /// Takes calls in; what a call must have taken to be of interest from now on.
    pub fn add(&mut self, calls: impl IntoIterator<Item = Call>) -> Option<u64> {
        self.calls.extend(calls);
        self.calls.sort_by_key(|call| (Reverse(call.account.time_ns()), call.sequence));
        self.calls.truncate(self.kept);
        let is_full = self.calls.len() == self.kept;
        self.calls.last().filter(|_| is_full).map(|call| call.account.time_ns())
    }

    /// The calls, the slowest first; times count from `began_ns`.
    pub fn told(
        &self,
        began_ns: u64,
        owners: &Owners,
        name: &dyn Fn(u64) -> String,
    ) -> Vec<SingleCall> {
        self.calls.iter().map(|call| single_call(call, began_ns, owners, name)).collect()
    }
}

/// Whether a call only waited for somebody else to do something.
pub fn is_idle_call(call: &Call, owners: &Owners, name: &dyn Fn(u64) -> String) -> bool {
    let (name, end) = (name(call.number), owners.other_end(call.of));
    idle_wait(&name, end).is_some()
        && is_idle(&name, end, &call.account.parts(), seconds(call.account.time_ns()))
}

/// One call as it is told; times count from `began_ns`.
pub fn single_call(
    call: &Call,
    began_ns: u64,
    owners: &Owners,
    name: &dyn Fn(u64) -> String,
) -> SingleCall {
    // Its thread is told anyway.
    let is_told = owners.grouping == Grouping::Thread;
    let (of, of_base64) = if is_told { (None, None) } else { owners.told(call.of) };
    SingleCall {
        call: name(call.number),
        of,
        of_base64,
        waited_at: owners.other_end(call.of),
        pid: call.pid,
        tid: call.tid,
        at_seconds: seconds(call.began_ns.saturating_sub(began_ns)),
        time_seconds: seconds(call.account.time_ns()),
        result: call.result,
        counters: call.account.counters(),
        parts: call.account.parts(),
        rivals: rivals(call),
    }
}

fn rivals(call: &Call) -> BTreeMap<String, RivalSeen> {
    let seen = |rival: &Rival| RivalSeen {
        pid: rival.pid,
        name: rival.name.clone(),
        name_base64: rival.name_base64.clone(),
        seconds: Some(seconds(rival.time_ns)).filter(|_| rival.time_ns > 0),
    };
    let kinds = RIVALS.iter().zip(&call.rivals);
    kinds.filter_map(|(kind, rival)| Some((kind.name.to_string(), seen(rival.as_ref()?)))).collect()
}

/// The same as a row of its own. `epoch_ns` is when the kernel's clock was at 0, UTC; `measured`
/// are the parts of the kernel that were looked into.
pub fn call_row(
    call: Call,
    epoch_ns: i64,
    measured: u64,
    owners: &Owners,
    name: &dyn Fn(u64) -> String,
) -> CallRow {
    let (of, of_base64) = owners.told(call.of);
    CallRow {
        time_ns: epoch_ns.saturating_add_unsigned(call.began_ns),
        pid: call.pid,
        tid: call.tid,
        call: name(call.number),
        of,
        of_base64,
        sequence: call.sequence,
        result: Returned(call.result),
        interval: call.interval,
        measured,
        account: call.account,
        absent: Absent::default(),
        known_later: 0,
        rivals: call.rivals,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::subsystem::{Account, HEAD, LATER, account_length};

    /// An account of so many calls and nanoseconds.
    fn account(calls: u64, time_ns: u64) -> Account {
        let place = |of: &str| HEAD.iter().position(|(name, _)| *name == of).unwrap();
        let mut numbers = vec![0; account_length()];
        (numbers[place("calls")], numbers[place("time_ns")]) = (calls, time_ns);
        let bytes: Vec<u8> = numbers.iter().flat_map(|n: &u64| n.to_ne_bytes()).collect();
        Account::from_bytes(&bytes).unwrap()
    }

    fn cell(number: u64, time_ns: u64, times: &[(u32, u64)]) -> Cell {
        let calls = times.iter().map(|(_, count)| count).sum();
        let mut histogram = TimeHistogram::default();
        times.iter().for_each(|(bucket, count)| histogram.add_to(*bucket, *count));
        Cell {
            number,
            of: [0, 0],
            errors: 0,
            bytes: 0,
            shortest_ns: times.first().map_or(0, |(bucket, _)| TimeHistogram::first(*bucket)),
            longest_ns: times.last().map_or(0, |(bucket, _)| TimeHistogram::first(*bucket)),
            waits_at_pipes_ns: 0,
            waits_at_sockets_ns: 0,
            account: account(calls, time_ns),
            by_part: None,
            times: histogram,
        }
    }

    fn call(sequence: u64, time_ns: u64) -> Call {
        Call {
            pid: 1,
            tid: 1,
            sequence,
            number: 0,
            result: 0,
            began_ns: 1000,
            ended_ns: 1000 + time_ns,
            of: [0, 0],
            interval: None,
            account: account(1, time_ns),
            rivals: Default::default(),
        }
    }

    #[test]
    fn what_took_most_time_comes_first() {
        let cells = [cell(1, 10, &[(3, 1)]), cell(2, 30, &[(3, 9)]), cell(3, 20, &[(3, 1)])];
        let rows = call_kinds(&cells, &Owners::new(Grouping::Call), &|n| n.to_string());
        let calls: Vec<&str> = rows.iter().map(|row| row.call.as_str()).collect();
        assert_eq!(calls, ["2", "3", "1"]);
        assert_eq!(rows[0].calls_total, 9);
        assert_eq!(rows[0].time_seconds, 30e-9);
    }

    #[test]
    fn what_comes_later_is_a_part_of_the_cost() {
        let mut written = cell(2, 10, &[(3, 1)]);
        let later = |slot: &str| LATER.iter().position(|field| field.slot() == slot).unwrap();
        written.account.later_mut()[later("block_queue_ns")] = 5;
        written.account.later_mut()[later("block_device_ns")] = 25;
        written.account.later_mut()[later("block_bytes")] = 4096;
        let rows = call_kinds(
            &[cell(1, 30, &[(3, 1)]), written, cell(3, 0, &[])],
            &Owners::new(Grouping::Call),
            &|n| n.to_string(),
        );
        let percent = |ratio: f64| (ratio * 100.0).round();
        let told: Vec<(&str, Option<f64>)> =
            rows.iter().map(|row| (row.call.as_str(), row.later_ratio.map(percent))).collect();
        assert_eq!(told, [("2", Some(75.0)), ("1", Some(0.0)), ("3", None)]);
        assert_eq!(rows[0].time_seconds, 10e-9);
    }

    #[test]
    fn a_file_has_the_name_that_was_told_last() {
        let mut owners = Owners::new(Grouping::File);
        let named = |name: &str| Named { of: [8, 9], name: name.into() };
        owners.learn([named("socket"), named("tcp 127.0.0.1:1 -> 127.0.0.1:2")]);
        assert_eq!(owners.name([8, 9]).unwrap(), "tcp 127.0.0.1:1 -> 127.0.0.1:2");
        assert_eq!(owners.name([8, 10]).unwrap(), "device 8, inode 10");
        assert_eq!(owners.name([0, 0]), None);
        assert_eq!(Owners::new(Grouping::Thread).name([7, 8]).unwrap(), "process 7, thread 8");
    }

    #[test]
    fn quantiles_are_of_the_bucket_they_fall_into() {
        let hundred = cell(1, 0, &[(10, 50), (20, 48), (100, 2)]);
        assert_eq!(quantile(&hundred, 0.5), 10);
        assert_eq!(quantile(&hundred, 0.51), TimeHistogram::last(20));
        assert_eq!(quantile(&hundred, 0.98), TimeHistogram::last(20));
        // No more than the longest there was.
        assert_eq!(quantile(&hundred, 0.99), TimeHistogram::first(100));
        assert_eq!(quantile(&cell(1, 0, &[(10, 1)]), 0.99), 10);
    }

    #[test]
    fn the_slowest_are_kept_and_the_bar_rises() {
        let mut slowest = Slowest::new(2);
        assert_eq!(slowest.add([call(1, 5)]), None);
        assert_eq!(slowest.add([call(2, 9), call(3, 7)]), Some(7));
        assert_eq!(slowest.add([call(4, 6), call(5, 8)]), Some(8));
        let told = slowest.told(400, &Owners::new(Grouping::Call), &|_| "read".into());
        let times: Vec<f64> = told.iter().map(|call| call.time_seconds).collect();
        assert_eq!(times, [9e-9, 8e-9]);
        assert_eq!(told[0].at_seconds, 600e-9);
        assert_eq!(told[0].of, None);
    }

    #[test]
    fn a_slow_call_says_which_file_it_was_on_but_not_its_thread_twice() {
        let mut slowest = Slowest::new(1);
        slowest.add([Call { of: [8, 9], ..call(1, 5) }]);
        let about = |grouping| {
            let mut owners = Owners::new(grouping);
            owners.learn([Named { of: [8, 9], name: "/data/log".into() }]);
            slowest.told(0, &owners, &|_| "fsync".into())[0].of.clone()
        };
        assert_eq!(about(Grouping::File).as_deref(), Some("/data/log"));
        assert_eq!(about(Grouping::Thread), None);
        assert_eq!(about(Grouping::Call), None);
    }
}
