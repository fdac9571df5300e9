//! What `collect` hands to `account`: readings, events, and how the collectors fared.
//!
//! Everything here can be written down and read again, so that the accounting can be tested on
//! recorded input. Times are nanoseconds since the job's start on the monotonic clock.

use serde::{Deserialize, Serialize};

use crate::counter::CounterValues;
use crate::printable::in_words;
use crate::quality::{Mechanism, Quality};

/// One look at the job as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobReading {
    /// When it was taken.
    pub at_ns: u64,
    /// Raw counters of all threads, alive and ended.
    pub counters: CounterValues,
    /// Processes and threads.
    pub population: Population,
    /// Memory, in bytes.
    pub memory: MemoryReading,
}

/// How many processes and threads there are and were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Population {
    /// Processes alive.
    pub processes: u64,
    /// The most that were alive at one moment.
    pub processes_peak: u64,
    /// All there ever were.
    pub processes_total: u64,
    /// Threads alive.
    pub threads: u64,
    /// The most that were alive at one moment.
    pub threads_peak: u64,
}

/// Memory of the job as the kernel side followed it, in bytes. Processes of one address space hold
/// what it holds once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryReading {
    /// Address spaces now.
    pub spaces: u64,
    /// Sum of their resident sizes now.
    pub rss_sum: u64,
    /// Its greatest value so far.
    pub rss_sum_peak: u64,
    /// When that was reached.
    pub rss_sum_peak_at_ns: u64,
    /// How many address spaces there were then.
    pub spaces_at_peak: u64,
    /// Of what the sum was made then, if that is known.
    pub parts_at_peak: Option<MemoryParts>,
    /// Lower bound of the memory held now, sharing counted once.
    pub floor: u64,
    /// The greatest value of that bound so far.
    pub floor_peak: u64,
    /// The greatest memory held so far, sharing counted once, if what was inherited by forks has been shared since: an
    /// estimate.
    pub likely_peak: u64,
    /// The greatest resident size of one process.
    pub process_peak: u64,
    /// Sum of swapped-out memory now.
    pub swap: u64,
    /// Its greatest value so far.
    pub swap_peak: u64,
    /// Sum of virtual sizes now.
    pub virtual_size: u64,
    /// Its greatest value so far.
    pub virtual_peak: u64,
    /// The greatest sum of huge pages of hugetlbfs that was seen: no resident size has them.
    pub hugetlb_peak: u64,
    /// How much of the sums is certain, where address spaces could not be told apart; none: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certain: Option<CertainMemory>,
}

/// Lower bounds of sums over address spaces: what processes may share by CLONE_VM counts once. In bytes; limits are
/// held against them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertainMemory {
    /// Of the sum of resident sizes.
    pub rss_sum_peak: u64,
    /// Of swapped-out memory.
    pub swap_peak: u64,
    /// Of virtual sizes.
    pub virtual_peak: u64,
    /// Of huge pages of hugetlbfs.
    pub hugetlb_peak: u64,
}

/// A sum of resident sizes by what its pages are, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryParts {
    /// Anonymous pages.
    pub anonymous: u64,
    /// Of these, pages that no process has got from another by a fork.
    pub unshared: u64,
    /// Shared memory and tmpfs, as far as they are mapped.
    pub shared: u64,
    /// Pages of files, which the kernel can drop or write back.
    pub file: u64,
}

/// The pages of a job's processes, looked at one by one at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedMemoryReading {
    /// When it was begun.
    pub at_ns: u64,
    /// Bytes held, each page counted once.
    pub union_bytes: u64,
    /// Sum of resident sizes that the same look found.
    pub rss_sum_bytes: u64,
    /// Address spaces that it found.
    #[serde(default)]
    pub spaces: u64,
    /// So much of `union_bytes` is certain, where address spaces could not be told apart; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certain_bytes: Option<u64>,
}

/// A process that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// Its PID in the initial PID namespace.
    pub pid: u32,
    /// The PID of the process that started it.
    pub parent_pid: u32,
    /// When it was started.
    pub started_ns: u64,
    /// When it ended; none while it runs.
    pub ended_ns: Option<u64>,
    /// Its status word as wait(2) gives it; none while it runs.
    pub wait_status: Option<u32>,
    /// The user it belonged to at its end.
    pub uid: u32,
    /// The kernel's name for it (15 bytes).
    pub name: String,
    /// The arguments of its last exec; empty if it never called exec or they were lost.
    pub command: Vec<String>,
    /// Raw counters of all its threads.
    pub counters: CounterValues,
    /// Whether what it read and wrote is not in the counters, or not all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_io_lost: bool,
    /// The greatest resident size of the address space that it owned at its end, in bytes; 0 if that is not known, or
    /// if it only ever used another's.
    pub rss_peak_bytes: u64,
    /// The greatest virtual size of the same, in bytes; 0 if that is not known.
    pub virtual_peak_bytes: u64,
    /// The greatest swapped-out size of the same, in bytes; not known where the virtual size is not.
    pub swap_peak_bytes: u64,
}

/// The state of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectorState {
    /// It works.
    Active,
    /// It works in part; the reason says what is missing.
    Degraded,
    /// It does not work here; the reason says why.
    Unavailable,
    /// The user turned it off.
    Disabled,
}

/// How a collector fared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorStatus {
    /// Its name.
    pub name: String,
    /// The mechanism it uses.
    pub mechanism: Mechanism,
    /// Whether it works.
    pub status: CollectorState,
    /// Why it does not, or not fully.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Events it could not keep.
    pub lost: u64,
}

impl CollectorStatus {
    /// Of one that has lost nothing.
    pub fn new(
        name: &str,
        mechanism: Mechanism,
        status: CollectorState,
        reason: Option<String>,
    ) -> CollectorStatus {
        CollectorStatus { name: name.to_string(), mechanism, status, reason, lost: 0 }
    }

    /// It works, but for these reasons not fully, if there are any.
    pub fn of_reasons(name: &str, mechanism: Mechanism, reasons: &[String]) -> CollectorStatus {
        match reasons {
            [] => CollectorStatus::new(name, mechanism, CollectorState::Active, None),
            reasons => {
                let reason = Some(reasons.join("; "));
                CollectorStatus::new(name, mechanism, CollectorState::Degraded, reason)
            }
        }
    }

    /// By what trying it has come to.
    pub fn of_trial<E: std::fmt::Display>(
        name: &str,
        mechanism: Mechanism,
        trial: Result<(), E>,
    ) -> CollectorStatus {
        let reason = trial.err().map(|error| in_words(error.to_string()));
        let status = match &reason {
            None => CollectorState::Active,
            Some(_) => CollectorState::Unavailable,
        };
        CollectorStatus::new(name, mechanism, status, reason)
    }
}

/// Something a collector has to say about a metric whose value follows from a reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// The metric.
    pub metric: String,
    /// `Unavailable` takes the value away; the others qualify it.
    pub quality: Quality,
    /// Where the value comes from, if not from what most do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Mechanism>,
    /// What is missing, and why.
    pub reason: String,
}

/// How reasons begin where calls that move bytes are counted by nobody.
const UNCOUNTED: &str = "without splice, tee, vmsplice and AIO";

impl Note {
    /// Of a value from what most come from.
    pub fn new(metric: &str, quality: Quality, reason: impl Into<String>) -> Note {
        Note { metric: metric.to_string(), quality, source: None, reason: reason.into() }
    }

    /// Calls of splice, tee, vmsplice and AIO are counted by nobody, and whether there were any is not known.
    pub fn uncounted(why: &str) -> String {
        format!("{UNCOUNTED}: {why}")
    }

    /// The same where it is known how many there were.
    pub fn uncounted_calls(calls: u64) -> String {
        format!("{UNCOUNTED}, of which there were {calls} calls")
    }

    /// Whether it says so.
    pub fn is_of_uncounted(&self) -> bool {
        self.reason.starts_with(UNCOUNTED)
    }
}

/// A sum of hardware events over all threads of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HardwareCount {
    /// The metric it is for.
    pub metric: String,
    /// The count, scaled up if the counter was shared.
    pub count: u64,
    /// The part of the time in which it really counted, 1 if it was never shared.
    pub running_ratio: f64,
}

/// What happened to the job, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A process began to execute a program.
    Exec {
        /// The process.
        pid: u32,
        /// When.
        at_ns: u64,
        /// The arguments.
        command: Vec<String>,
        /// Whether there were more than could be kept.
        cut: bool,
    },
    /// A process has ended and been reaped.
    ProcessEnd(Box<ProcessEnd>),
    /// The sum of resident sizes is noticeably higher than ever before.
    Peak {
        /// When.
        at_ns: u64,
        /// The sum.
        rss_sum: u64,
        /// The lower bound with sharing counted once.
        floor: u64,
    },
    /// A value passed its limit.
    Limit(Crossing),
    /// A value passed the mark at which to warn of its limit.
    Warning(Crossing),
    /// No process of the job is left, or none that is still to be accounted for.
    Empty,
    /// A process opened a file it had not opened before.
    File {
        /// The process; 0 for the command itself while it is being executed.
        pid: u32,
        /// The path, as the process saw it.
        path: String,
        /// Identifies process and file until the count is asked for.
        key: FileKey,
    },
}

/// A file as one process has opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileKey {
    /// The process, unique while it is kept.
    pub process: u64,
    /// The inode number.
    pub inode: u64,
    /// The device of its file system, and the inode's generation.
    pub device: u64,
}

/// How a limit was crossed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// The name of the metric.
    pub metric: String,
    /// When.
    pub at_ns: u64,
    /// The value that was too great, in the metric's unit.
    pub observed: f64,
    /// The process that made the last step; none if it was not one of the job's.
    pub pid: Option<u32>,
    /// The thread.
    pub tid: u32,
    /// Whether the process was stopped at that point.
    pub held: bool,
    /// Return addresses on its user stack, innermost first.
    pub stack: Vec<u64>,
}
