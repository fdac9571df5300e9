//! Where the time of calls went, by parts of the kernel.

use std::collections::BTreeMap;

use weigh_schema::call::Numbers;
use weigh_schema::subsystem::{PART, SUBSYSTEMS, Subsystem};

/// Parts that took less than this share of the time are not named.
pub(super) const LEAST_SHARE: f64 = 0.01;

/// A time of a call, and what it was: `busy` and `waits` of its subsystem.
pub(super) struct Share {
    pub(super) seconds: f64,
    pub(super) part: Part,
    pub(super) is_wait: bool,
}

impl Share {
    /// Whether it is a wait that no part of the kernel asked for.
    pub(super) fn is_plain_wait(&self) -> bool {
        self.is_wait && self.part.name == "sched"
    }

    /// Whether somebody can be in the way in it: waits for a CPU are kept apart from others, and a
    /// lock can be waited for on the CPU.
    pub(super) fn is_rivals(&self) -> bool {
        match self.part.name.as_str() {
            "sched" => false,
            "lock" => true,
            _ => self.is_wait,
        }
    }
}

/// A part of the kernel: one that weigh knows, or one that a configuration has given a name.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) known: Option<&'static Subsystem>,
}

impl Part {
    pub(super) fn named(name: &str) -> Part {
        Part { name: name.to_string(), known: Subsystem::named(name) }
    }

    pub(super) fn doing(&self, is_wait: bool) -> String {
        match (self.known, is_wait) {
            (Some(known), true) => known.waits.to_string(),
            (Some(known), false) => known.busy.to_string(),
            (None, true) => format!("waiting in {}", self.name),
            (None, false) => format!("in {}", self.name),
        }
    }
}

/// Where the time went, most first.
pub(super) fn split(parts: &BTreeMap<String, Numbers>) -> Vec<Share> {
    let mut shares = Vec::new();
    let known = SUBSYSTEMS.iter().map(|subsystem| subsystem.name);
    let own = parts.keys().map(String::as_str).filter(|name| Subsystem::named(name).is_none());
    for name in known.chain(own) {
        let Some(numbers) = parts.get(name) else { continue };
        for (field, is_wait) in [(&PART[0], false), (&PART[1], true)] {
            let seconds = numbers.get(&field.key()).map_or(0.0, |n| n.as_f64());
            shares.push(Share { seconds, part: Part::named(name), is_wait });
        }
    }
    shares.retain(|share| share.seconds > 0.0);
    shares.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    shares
}

pub(super) fn run_queue(parts: &BTreeMap<String, Numbers>) -> f64 {
    let sched = parts.get("sched");
    sched.and_then(|n| n.get("run_queue_seconds")).map_or(0.0, |n| n.as_f64())
}
