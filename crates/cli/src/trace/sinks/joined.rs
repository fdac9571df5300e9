//! First events that wait for their second ones, for what draws both at once.
//!
//! Takes flows, which join records, as the synthesis tells them; emits the first of each. What nothing follows
//! is let go of when there are too many.

use std::collections::HashMap;

use weigh_trace::record::Record;

/// So many wait at most.
const MOST: usize = 1 << 18;

/// The first of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// Which event.
    pub event: u32,
    /// When.
    pub time_ns: u64,
    /// Its process.
    pub tgid: u32,
    /// Its thread.
    pub tid: u32,
}

/// Those that wait.
#[derive(Default)]
pub struct Joined {
    next: Vec<u64>,
    waiting: HashMap<u64, First>,
}

impl Joined {
    /// The record that is taken next has this flow.
    pub fn join(&mut self, flow: u64) {
        self.next.push(flow);
    }

    /// Takes a record; tells of each flow that ends with it, and where that began.
    pub fn take(&mut self, record: Record<'_>, mut ends: impl FnMut(u64, First)) {
        for flow in std::mem::take(&mut self.next) {
            if let Some(first) = self.waiting.remove(&flow) {
                ends(flow, first);
                continue;
            }
            if self.waiting.len() >= MOST {
                self.waiting.clear();
            }
            let (event, time_ns) = (record.event(), record.time_ns());
            let (tgid, tid) = (record.tgid(), record.tid());
            self.waiting.insert(flow, First { event, time_ns, tgid, tid });
        }
    }
}
