//! System calls as `collect` hands them to `account`: a table of sums, and single calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::subsystem::Account;

/// What has a row of its own in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Each kind of call.
    Call,
    /// Each kind of call of each thread.
    Thread,
}

/// How those who wrote to one page share what its way to the device costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// By the bytes that each wrote.
    #[default]
    Bytes,
    /// The same for each.
    Equal,
    /// All to the last.
    Last,
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
}

/// The calls of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The call's number.
    pub number: u64,
    /// Whose they are: process and thread.
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
