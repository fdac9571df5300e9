//! Pairs of events, for what draws them as something that lasts.
//!
//! Takes records, and flows that join some of them, as the synthesis tells them; emits each pair with its end. What
//! nothing follows is let go of when there are too many.

use std::collections::HashMap;

use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::synthesis::derived::is_derived;
use weigh_trace::value::Value;

/// So many wait at most.
const MOST: usize = 1 << 18;

/// Two events, from the first one's time to the second one's, both since the stream began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// What both are called together.
    pub name: String,
    /// The process of the first.
    pub tgid: u32,
    /// The thread of the first.
    pub tid: u32,
    /// The thread of the second.
    pub end_tid: u32,
    /// When the first was.
    pub from_ns: u64,
    /// When the second was.
    pub to_ns: u64,
}

/// The first of two.
#[derive(Clone, Copy, Debug)]
struct First {
    event: u32,
    time_ns: u64,
    tgid: u32,
    tid: u32,
}

/// First events that wait for their second ones.
#[derive(Default)]
pub struct Pairs {
    /// Names of events, by their numbers.
    names: Vec<String>,
    next: Vec<u64>,
    waiting: HashMap<u64, First>,
}

impl Pairs {
    /// Of these events.
    pub fn new(probes: &[&Probe]) -> Pairs {
        let names = probes.iter().map(|probe| probe.name.clone()).collect();
        Pairs { names, ..Pairs::default() }
    }

    /// An event with this number will come.
    pub fn add(&mut self, number: usize, probe: &Probe) {
        self.names.resize(number, String::new());
        self.names.push(probe.name.clone());
    }

    /// The record that is taken next has this flow.
    pub fn join(&mut self, flow: u64) {
        self.next.push(flow);
    }

    /// Takes a record; the pairs of each flow that ends with it.
    pub fn take(&mut self, probe: &Probe, record: Record<'_>, began_ns: u64) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for flow in std::mem::take(&mut self.next) {
            match self.waiting.remove(&flow) {
                Some(first) => pairs.push(self.pair(first, probe, record, began_ns)),
                None => self.wait(flow, record),
            }
        }
        pairs
    }

    fn wait(&mut self, flow: u64, record: Record<'_>) {
        if self.waiting.len() >= MOST {
            self.waiting.clear();
        }
        let (event, time_ns) = (record.event(), record.time_ns());
        let (tgid, tid) = (record.tgid(), record.tid());
        self.waiting.insert(flow, First { event, time_ns, tgid, tid });
    }

    fn pair(&self, first: First, probe: &Probe, record: Record<'_>, began_ns: u64) -> Pair {
        let of_first = self.names.get(first.event as usize).map_or("", String::as_str);
        Pair {
            name: format!("{of_first} -> {}", probe.name),
            tgid: first.tgid,
            tid: first.tid,
            end_tid: record.tid(),
            from_ns: first.time_ns.saturating_sub(began_ns),
            to_ns: record.time_ns().saturating_sub(began_ns),
        }
    }
}

/// When the first of the two events was that a record is derived from; none if it is of one alone.
pub fn first_ns(probe: &Probe, record: Record<'_>) -> Option<u64> {
    match probe.value(record, 0) {
        Value::Unsigned(after) if is_derived(probe) => Some(record.time_ns().saturating_sub(after)),
        _ => None,
    }
}

/// The pair that a record is derived from; none if it is of one event alone.
pub fn derived(probe: &Probe, record: Record<'_>, began_ns: u64) -> Option<Pair> {
    let from_ns = first_ns(probe, record)?;
    let (tgid, tid) = (record.tgid(), record.tid());
    Some(Pair {
        name: probe.name.clone(),
        tgid,
        tid,
        end_tid: tid,
        from_ns: from_ns.saturating_sub(began_ns),
        to_ns: record.time_ns().saturating_sub(began_ns),
    })
}
