//! Counters of the CPU that calls and tokens are accounted with, where somebody asks for them: to read one
//! costs some microseconds in a virtual machine.
//!
//! Each has a bit behind those of the parts of the kernel, in all sets of them: what is wanted, seen, and was
//! not measured. Its number is in an account's head, beside the time: it is of the whole call, or interval.

use super::table::PARTS;

/// A counter of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCounter {
    /// Its name in options and in the account, whose number it is.
    pub name: &'static str,
    /// Its name for readers, with its unit.
    pub key: &'static str,
    /// What it counts.
    pub help: &'static str,
}

/// All of them.
pub const CPU_COUNTERS: &[CpuCounter] = &[
    CpuCounter {
        name: "cycles",
        key: "cycles_total",
        help: "cycles of the CPU while the thread had it, on request: see counting_ns",
    },
    CpuCounter {
        name: "instructions",
        key: "instructions_total",
        help: "instructions that were done meanwhile, on request: see counting_ns",
    },
];

impl CpuCounter {
    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static CpuCounter> {
        CPU_COUNTERS.iter().find(|counter| counter.name == name)
    }

    /// Its bit's place in a set.
    pub fn index(&self) -> usize {
        // Invariant: counters exist in the table only.
        PARTS + CPU_COUNTERS.iter().position(|other| other.name == self.name).unwrap_or(0)
    }

    /// The set that holds it alone.
    pub fn bit(&self) -> u64 {
        1 << self.index()
    }

    /// The set of all.
    pub fn bits() -> u64 {
        CPU_COUNTERS.iter().fold(0, |set, counter| set | counter.bit())
    }
}

/// The bit behind those of the counters: allocations, and the counters that are asked for, of each part of the kernel.
pub const ON_REQUEST_BY_PART: u64 = 1 << (PARTS + CPU_COUNTERS.len());

/// How much of the time, in which a call's counters should have counted, they did: only told if not all.
pub const COUNTED_RATIO: &str = "counted_ratio";
