//! A process's profile as it was read at one moment: numbers in ticks of its own clock, names by their numbers.
//!
//! `parse` makes it of the shared words, `account` makes rows of it. Texts keep bytes that are no UTF-8, as
//! [`byte_text`](crate::byte_text) does.

use std::sync::Arc;

use crate::profile::{NodeKind, ProfileClock};
use crate::subsystem::Account;

/// A moment by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockPair {
    /// Ticks of the profile's clock.
    pub ticks: u64,
    /// The same moment by CLOCK_MONOTONIC, in nanoseconds.
    pub ns: u64,
}

/// A profile, read once.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileSnapshot {
    /// The process, as it sees itself.
    pub pid: u32,
    /// Of the process in its MPI job, if it has one.
    pub rank: Option<u32>,
    /// What times are measured in.
    pub clock: ProfileClock,
    /// When the profile was made.
    pub first: ClockPair,
    /// A later moment.
    pub last: ClockPair,
    /// How often the program had published, and 1.
    pub epoch: u64,
    /// Whether the program has ended in order.
    pub has_ended: bool,
    /// Names by number: 0 is none. A name that cannot be read is empty.
    pub names: Arc<Vec<String>>,
    /// Nodes by number; none for one that is not there, or makes no sense.
    pub nodes: Vec<Option<ProfileNode>>,
    /// Accounts of calls that are bound to regions, by number; none for one that is not there. At a publish there are none.
    pub costs: Vec<Option<ProfileCosts>>,
    /// Threads by number.
    pub threads: Vec<ProfileThread>,
    /// Phases that have ended since the last read.
    pub phases: Vec<ProfilePhase>,
    /// Events since the last read.
    pub events: Vec<ProfileEvent>,
    /// Keys and values.
    pub metadata: Vec<(String, String)>,
    /// What is not in it.
    pub lost: ProfileLosses,
}

/// What a profile does not hold. All are counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileLosses {
    /// Calls of regions, counters and events that found no node.
    pub nodes: u64,
    /// Names that found no room.
    pub names: u64,
    /// Threads that found no room.
    pub threads: u64,
    /// Calls that began too deep.
    pub frames: u64,
    /// Calls of threads that found no room, and their ticks.
    pub other_calls: u64,
    /// Their time, in ticks.
    pub other_ticks: u64,
    /// Names that are longer than what is kept of them.
    pub names_cut: u64,
    /// Phases that were overwritten before they were read, since the last read.
    pub phases: u64,
    /// The same of events.
    pub events: u64,
    /// Nodes whose numbers at the publish were overwritten before they were read.
    pub overtaken: u64,
    /// Records that make no sense.
    pub damaged: u64,
}

/// One region in one place of a call tree, or a counter, gauge or kind of event of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfileNode {
    /// The node above; of a root its own number.
    pub parent: usize,
    /// Its name's number.
    pub name: usize,
    /// Its thread's number.
    pub thread: usize,
    /// What it is.
    pub kind: NodeKind,
    /// Calls before it was braked; 0: it is not.
    pub braked: u64,
    /// Calls that were not ended by themselves, and ends without a begin.
    pub unbalanced: u64,
    /// Whether it was being written when it was read: its numbers may be of two moments.
    pub is_unsettled: bool,
    /// Its account of calls.
    pub costs: CostsLink,
    /// Its numbers.
    pub numbers: NodeNumbers,
}

/// Where the account of calls of a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CostsLink {
    /// None is bound to its region.
    #[default]
    Unbound,
    /// There was no room for one.
    NoRoom,
    /// Its number among the profile's costs.
    Record(usize),
}

/// The account of calls of a node, as it stood last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileCosts {
    /// The number of the node whose it is.
    pub node: u64,
    /// The parts of the kernel that were to be looked into, as bits.
    pub wanted: u64,
    /// Why a call was not measured, of the last one that was not: the number of a reason; 0: all were.
    pub reason: u64,
    /// Its numbers.
    pub account: Account,
    /// Whether it was being written when it was read.
    pub is_unsettled: bool,
}

/// The numbers of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeNumbers {
    /// In which they were last written; 0: never.
    pub epoch: u64,
    /// Calls that have ended, or samples.
    pub calls: u64,
    /// Of these, how many were timed.
    pub timed: u64,
    /// Ticks, or a sum.
    pub inclusive: u64,
    /// Ticks without regions inside, or the last value.
    pub exclusive: u64,
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// Sum of the squares of the timed calls while it is braked, in ticks².
    pub squares: f64,
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileThread {
    /// As the process sees it.
    pub tid: u32,
    /// The kernel's name for it.
    pub name: String,
    /// Ticks.
    pub begun: u64,
    /// Ticks; none while it runs.
    pub ended: Option<u64>,
    /// The number of its root node.
    pub root: usize,
    /// Open regions, the outermost first.
    pub open: Vec<OpenFrame>,
    /// Open regions that lie deeper than frames are kept.
    pub deeper: u64,
}

/// An open region of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFrame {
    /// Its node's number.
    pub node: usize,
    /// Ticks; none if this call is not timed.
    pub begun: Option<u64>,
    /// Ticks of regions inside that have ended.
    pub inside: u64,
}

/// A phase that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfilePhase {
    /// Its name's number.
    pub name: usize,
    /// Its thread's number.
    pub thread: usize,
    /// As the program numbers them.
    pub iteration: u64,
    /// Ticks.
    pub begun: u64,
    /// Ticks.
    pub ended: u64,
}

/// An event with a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfileEvent {
    /// Its name's number.
    pub name: usize,
    /// Its thread's number.
    pub thread: usize,
    /// Ticks.
    pub at: u64,
    /// The value.
    pub value: f64,
}
