//! What of a call is compared beside where its time went: derived from the columns of costs, those of
//! what came later, and the counters of the CPU.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::call_row::{COST_COLUMNS, CallRow, CostColumn, LATER_COLUMNS, LaterColumn};
use crate::subsystem::{CPU_COUNTERS, CpuCounter, PART};
use crate::unit::Unit;

/// A number that calls are compared by.
#[derive(Clone, Copy, Debug)]
pub enum Counter {
    /// Of a part of the kernel.
    Part(&'static CostColumn),
    /// Of the CPU, while it had the call.
    Cpu(&'static CpuCounter),
    /// Of a part of the kernel, after the call had returned.
    Later(&'static LaterColumn),
}

/// All of them, in the order of their declarations.
pub static COUNTERS: LazyLock<Vec<Counter>> = LazyLock::new(|| {
    let parts = COST_COLUMNS.iter().filter(|column| !is_share_of_time(column));
    // What is pending or lost is no amount of anything: it makes the others less than they are.
    let later = LATER_COLUMNS.iter().filter(|column| column.subsystem.is_some());
    parts
        .map(Counter::Part)
        .chain(CPU_COUNTERS.iter().map(Counter::Cpu))
        .chain(later.map(Counter::Later))
        .collect()
});

/// Whether the call's time is split into this and others of its kind.
fn is_share_of_time(column: &CostColumn) -> bool {
    let is_of_every_part = PART.contains(column.field);
    column.unit == Unit::Seconds && (is_of_every_part || column.field.name == RUN_QUEUE)
}

impl Counter {
    /// The one that was compared there.
    pub fn of(difference: &CounterDifference) -> Option<Counter> {
        let is_same = |counter: &&Counter| {
            counter.subsystem() == difference.subsystem.as_deref()
                && counter.key() == difference.name
                && counter.is_later() == difference.is_later
        };
        COUNTERS.iter().find(is_same).copied()
    }

    /// The part of the kernel that it is of.
    pub fn subsystem(&self) -> Option<&'static str> {
        match self {
            Counter::Part(column) => Some(column.subsystem.name),
            Counter::Cpu(_) => None,
            Counter::Later(column) => column.subsystem.map(|subsystem| subsystem.name),
        }
    }

    /// Whether it is of what came after the call had returned.
    pub fn is_later(&self) -> bool {
        matches!(self, Counter::Later(_))
    }

    /// Its name, with its unit.
    pub fn key(&self) -> String {
        match self {
            Counter::Part(column) => column.field.key(),
            Counter::Later(column) => column.field.key(),
            Counter::Cpu(counter) => counter.key.to_string(),
        }
    }

    /// Its name in sentences.
    pub fn words(&self) -> String {
        match self {
            Counter::Part(column) => column.field.words(),
            Counter::Later(column) => column.field.words(),
            Counter::Cpu(counter) => counter.name.to_string(),
        }
    }

    /// What it counts.
    pub fn help(&self) -> &'static str {
        match self {
            Counter::Part(column) => column.field.help,
            Counter::Later(column) => column.field.help,
            Counter::Cpu(counter) => counter.help,
        }
    }

    /// In which unit.
    pub fn unit(&self) -> Unit {
        match self {
            Counter::Part(column) => column.unit,
            Counter::Later(column) => column.field.unit,
            Counter::Cpu(_) => Unit::Count,
        }
    }

    /// What a call has of it, as accounts hold it; none if nobody looked.
    pub fn raw(&self, row: &CallRow) -> Option<u64> {
        match self {
            Counter::Part(column) => column.raw(row),
            Counter::Cpu(counter) => row.account.counter(counter),
            Counter::Later(column) => column.raw(row),
        }
    }

    /// What so much is in base units.
    pub fn in_base_unit(&self, raw: f64) -> f64 {
        match self.unit() {
            Unit::Seconds => raw / 1e9,
            _ => raw,
        }
    }
}

/// A number of calls, beside their time, that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterDifference {
    /// The part of the kernel that it is of; none if it is of the whole call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsystem: Option<String>,
    /// Whether it is of what the calls caused after they had returned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_later: bool,
    /// Its name, with its unit.
    pub name: String,
    /// The mean of the slow calls.
    pub slow: f64,
    /// The mean of the ordinary calls.
    pub ordinary: f64,
    /// So many of the slow calls had any of it.
    pub slow_calls_total: u64,
    /// So many of the ordinary calls had.
    pub ordinary_calls_total: u64,
}

/// What waiting for a CPU is named among the parts of a [`TimeBucket`].
pub const RUN_QUEUE: &str = "run_queue";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsystem::{LATER, SUBSYSTEMS};

    #[test]
    fn every_number_of_a_part_is_compared_and_none_is_that_the_time_is_split_into() {
        let fields: usize = SUBSYSTEMS.iter().map(|s| s.fields.len()).sum();
        // Entries are counted in each part; the run queue is a share of the call's time.
        let others = CPU_COUNTERS.len() + LATER.len() - 2;
        assert_eq!(COUNTERS.len(), fields - 1 + SUBSYSTEMS.len() + others);
        let names: Vec<String> = COUNTERS.iter().map(Counter::key).collect();
        for name in ["device_seconds", "soft_seconds", "retransmits_total", "allocated_bytes_total"]
        {
            assert!(names.iter().any(|other| other == name), "{name}");
        }
        for name in ["time_seconds", "waiting_seconds", "run_queue_seconds"] {
            assert!(names.iter().all(|other| other != name), "{name}");
        }
    }
}
