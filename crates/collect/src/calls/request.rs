//! What is asked of the kernel side, and what it gives.

use weigh_schema::call::{BorderProbes, Grouping, Sharing};
use weigh_schema::subsystem::Subsystem;

use super::counting::Counters;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct CallsRequest {
    /// The parts of the kernel.
    pub subsystems: Vec<&'static Subsystem>,
    /// What has a row of its own in the table.
    pub grouping: Grouping,
    /// How those who wrote to one page share what comes of it.
    pub sharing: Sharing,
    /// Whether system calls themselves are followed: without, only intervals that programs mark.
    pub every_call: bool,
    /// Counters of the CPU.
    pub counters: Counters,
    /// Whether allocations, and these counters, can be asked of each part of the kernel.
    pub by_part: bool,
}

/// How single calls are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling {
    /// Room for so many bytes of calls that were not read yet: a power of two.
    pub room: u32,
    /// Whether it is found out who was in their way.
    pub rivals: bool,
    /// Whether what comes later of single calls is told, bit by bit.
    pub later: bool,
}

impl Telling {
    /// Without a name of anybody.
    pub const PLAIN: Telling = Telling { room: 8 << 20, rivals: false, later: false };
    /// The slowest calls: few, and the longer the fewer.
    pub const SLOWEST: Telling = Telling { rivals: true, ..Telling::PLAIN };
    /// Every call: a program can make a million in a second, and weigh may not have the CPU. Most take
    /// some hundred bytes.
    pub const EVERY: Telling = Telling { room: 64 << 20, rivals: true, later: true };
}

/// A part of the kernel as it can be seen here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The part.
    pub subsystem: String,
    /// How many probes are attached for it.
    pub probes: usize,
    /// Of these, functions at its border.
    pub functions: Option<BorderProbes>,
    /// What could not be attached, and why.
    pub missing: Vec<String>,
}
