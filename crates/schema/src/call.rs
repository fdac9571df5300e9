//! System calls as `collect` hands them to `account`: a table of sums, and single calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quality::{Mechanism, Number};
use crate::subsystem::Account;

/// What has a row of its own in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Each kind of call.
    Call,
    /// Each kind of call of each thread.
    Thread,
    /// Each kind of call on each file: whatever a descriptor refers to.
    File,
    /// Each kind of call on each socket.
    Connection,
}

/// How much the kernel side saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cells of the table that are taken.
    pub cells: u64,
    /// Calls that began.
    pub calls: u64,
    /// What there was no room for.
    pub lost: u64,
    /// Threads that were followed.
    pub threads: u64,
    /// Those of them that have not ended.
    pub living: u64,
}

/// The calls of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The call's number.
    pub number: u64,
    /// Whose they are: process and thread; or on what: device and inode.
    pub of: [u64; 2],
    /// Those that failed.
    pub errors: u64,
    /// Bytes that they moved, as they returned them.
    pub bytes: u64,
    /// The shortest.
    pub shortest_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// The sums.
    pub account: Account,
    /// How many took how long: bucket and count; see [`bucket_start`].
    pub times: BTreeMap<u32, u64>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Which of the job's calls it was.
    pub sequence: u64,
    /// Its number.
    pub number: u64,
    /// What it returned.
    pub result: i64,
    /// When it began: nanoseconds of the monotonic clock.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// Whose it is.
    pub of: [u64; 2],
    /// What it cost.
    pub account: Account,
}

/// Each doubling of time has 1 << this many buckets; shorter times have one each.
const BUCKET_BITS: u32 = 4;

/// The shortest time, in nanoseconds, that is counted in a bucket.
pub fn bucket_start(bucket: u32) -> u64 {
    let small = 1 << BUCKET_BITS;
    if bucket < small {
        return u64::from(bucket);
    }
    let doubling = (bucket >> BUCKET_BITS) - 1;
    let within = u64::from(bucket & (small - 1));
    (u64::from(small) + within).checked_shl(doubling).unwrap_or(u64::MAX)
}

/// A file or socket, by device and inode, and what people call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Device and inode.
    pub of: [u64; 2],
    /// Path, or addresses.
    pub name: String,
}

/// The schema of a report.
pub const REPORT: &str = "weigh.calls/1";

/// Numbers of one part of the kernel, by their names in base units.
pub type Numbers = BTreeMap<String, Number>;

/// What `weigh calls` found: what other software builds on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallsReport {
    /// [`REPORT`].
    pub schema: String,
    /// What was followed: the command, or nothing if it ran already.
    pub command: Vec<String>,
    /// The process that was followed from the time it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How long it was followed.
    pub wall_seconds: f64,
    /// What has a row of its own.
    pub grouping: Grouping,
    /// How calls were bounded.
    pub mechanism: Mechanism,
    /// The parts of the kernel that were asked for.
    pub subsystems: Vec<SubsystemState>,
    /// The kinds of calls, those that took most time first.
    pub calls: Vec<CallKind>,
    /// The slowest single calls, the slowest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SingleCall>,
    /// Calls that ended while they were followed.
    pub calls_total: u64,
    /// Threads that were followed.
    pub threads_total: u64,
    /// Calls, or what they left behind, for which there was no room.
    pub lost_total: u64,
    /// What is not in the table, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A part of the kernel, as it could be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubsystemState {
    /// Its name.
    pub name: String,
    /// Probes attached for it.
    pub probes: usize,
    /// What this kernel lacks for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// All calls of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallKind {
    /// The call's name.
    pub call: String,
    /// Whose they are, if not everybody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// How many.
    pub calls_total: u64,
    /// Those that failed.
    pub errors_total: u64,
    /// Bytes they moved, as they returned them.
    pub bytes_total: u64,
    /// Their time, all together.
    pub time_seconds: f64,
    /// Half of them took no longer; to a sixteenth.
    pub time_p50_seconds: f64,
    /// 99 of 100 took no longer; to a sixteenth.
    pub time_p99_seconds: f64,
    /// The longest.
    pub time_max_seconds: f64,
    /// Where the time went, and what was done, by part of the kernel; they add up to the time.
    pub parts: BTreeMap<String, Numbers>,
    /// What they caused that happened after they had returned.
    pub later: Numbers,
}

/// One call of many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SingleCall {
    /// The call's name.
    pub call: String,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When it began, in seconds since the following began.
    pub at_seconds: f64,
    /// How long it took.
    pub time_seconds: f64,
    /// What it returned.
    pub result: i64,
    /// Where the time went, as of [`CallKind`].
    pub parts: BTreeMap<String, Numbers>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!(bucket_start(15), 15);
        assert_eq!(bucket_start(16), 16);
        assert_eq!(bucket_start(31), 31);
        assert_eq!(bucket_start(32), 32);
        assert_eq!(bucket_start(33), 34);
        assert_eq!(bucket_start(48), 64);
        for bucket in 0..900 {
            let (low, high) = (bucket_start(bucket), bucket_start(bucket + 1));
            assert!(low < high && (high - low) * 16 <= low.max(16), "{bucket}: {low} {high}");
        }
    }
}
