//! System calls as `collect` hands them to `account`: a table of sums, and single calls.

mod numbers;
mod transfers;
mod waits;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::quality::Mechanism;
use crate::subsystem::{Account, LaterNumbers, PartCounts};
use crate::zero::is_zero;
pub use numbers::Numbers;
pub use transfers::{COMPATIBLE_NAME, TRANSFERS, moves_bytes};
use waits::is_mostly;
pub use waits::{OtherEnd, asked_to_wait, idle_wait, is_idle};

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
    /// Calls that are in the table, but were not told one by one, for nobody read fast enough.
    pub untold: u64,
    /// Bits of what came later of single calls that were not told, for the same reason.
    pub untold_later: u64,
    /// Calls of which what came later was told of another of their kind, for there was no room for each.
    pub merged_later: u64,
    /// Threads that were followed.
    pub threads: u64,
    /// Those of them that have not ended.
    pub living: u64,
}

/// What a job has had written to devices: pages that it made dirty, whatever submitted them,
/// and direct writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Bytes that are there.
    pub done: u64,
    /// Bytes of its pages that are dirty still, or on their way.
    pub to_come: u64,
}

impl Written {
    /// All of it: what is thrown away before it is written, as of a file that is deleted, is in
    /// neither.
    pub fn total(&self) -> u64 {
        self.done + self.to_come
    }
}

/// What one who follows that has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFound {
    /// None where the kernel does not tell.
    pub written: Option<Written>,
    /// What there was no room for.
    pub lost: u64,
    /// What could not be attached, and why.
    pub missing: Vec<String>,
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
    /// Of the waits that no part of the kernel asked for, those at a pipe: for who is at its other end.
    pub waits_at_pipes_ns: u64,
    /// Those at a socket.
    pub waits_at_sockets_ns: u64,
    /// The sums.
    pub account: Account,
    /// What the code of each part did itself, if that was asked for.
    pub by_part: Option<PartCounts>,
    /// How many took how long, in nanoseconds.
    pub times: TimeHistogram,
}

/// Times of calls, of which each doubling has 16 buckets.
pub type TimeHistogram = Histogram<TIME_BITS>;

/// See [`Histogram`].
pub const TIME_BITS: u32 = 4;

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
    /// The interval that its program has opened around it.
    pub interval: Option<Interval>,
    /// What it cost.
    pub account: Account,
    /// Who else was in its way, in the order of [`RIVALS`].
    pub rivals: [Option<Rival>; RIVAL_KINDS],
}

/// A bit of what a call caused that happened when it had returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateCost {
    /// Which of the job's calls it was.
    pub sequence: u64,
    /// How much its numbers have grown; what is pending may also become less.
    pub growth: LaterNumbers,
}

/// An interval of libweigh, from a thread's `weigh_begin()` to its `weigh_end()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Different from that of the thread's other intervals.
    pub number: u64,
    /// The program's own number for what it is about: a request.
    pub token: u64,
}

/// A process that was in a call's way: its longest such wait, if there were several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rival {
    /// The process.
    pub pid: u32,
    /// The kernel's name for it.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    pub name_base64: Option<String>,
    /// How long the call waited for it; 0 if that is not known.
    pub time_ns: u64,
}

/// A way to be in a call's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalKind {
    /// Its name in keys: `behind_pid`, `behind_name`.
    pub name: &'static str,
    /// Who that is.
    pub help: &'static str,
    /// What the wait was, before its name: "3 ms runnable, most behind ffmpeg".
    pub words: &'static str,
    /// What of calls that met one, after how many they are: "2 of 3 slow ones ran behind ffmpeg".
    pub happened: &'static str,
    /// The part of the kernel that the wait was in.
    pub subsystem: &'static str,
}

impl RivalKind {
    /// The columns of its process, its name, and the time of the wait.
    pub fn columns(&self) -> &'static [String; 4] {
        static COLUMNS: LazyLock<Vec<[String; 4]>> = LazyLock::new(|| {
            let columns = |kind: &RivalKind| {
                ["pid", "name", "name_base64", "seconds"]
                    .map(|what| format!("{}_{what}", kind.name))
            };
            RIVALS.iter().map(columns).collect()
        });
        let index = RIVALS.iter().position(|kind| kind.name == self.name);
        &COLUMNS[index.unwrap_or(0)]
    }
}

/// How many of [`RIVALS`] there are.
pub const RIVAL_KINDS: usize = 3;

/// Who can be in a call's way.
pub const RIVALS: [RivalKind; RIVAL_KINDS] = [
    RivalKind {
        name: "behind",
        help: "who had the CPU longest while the thread waited for it, at its longest such wait",
        words: "most behind",
        happened: "waited for a CPU behind",
        subsystem: "sched",
    },
    RivalKind {
        name: "lock_holder",
        help: "who held the mutex or semaphore that the call waited for longest",
        words: "most for",
        happened: "waited for a lock of",
        subsystem: "lock",
    },
    RivalKind {
        name: "disk_rival",
        help: "who else had requests in the disk's queue when one of the call's was issued",
        words: "beside requests of",
        happened: "had a request in the queue beside those of",
        subsystem: "block",
    },
];

/// The header that the BPF programs are compiled with: the buckets of times, and the kinds of rivals.
pub fn c_header() -> String {
    let mut header = String::from("/* Derived from crates/schema/src/call.rs. */\n");
    let _ = writeln!(header, "#define BUCKET_BITS {TIME_BITS}\n\nenum rival_kind {{");
    for rival in &RIVALS {
        let _ = writeln!(header, "\tRIVAL_{},", rival.name.to_uppercase());
    }
    header.push_str("\tRIVAL_KINDS,\n};\n");
    header
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

/// What `weigh calls` found: what other software builds on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallsReport {
    /// [`REPORT`].
    pub schema: String,
    /// What was followed: the command, or nothing if it ran already.
    pub command: Vec<String>,
    /// Its words as Base64, where one of them is no UTF-8: there `command` has U+FFFD for what is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_base64: Vec<String>,
    /// The process that was followed from the time it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How long it was followed.
    pub wall_seconds: f64,
    /// What has a row of its own.
    pub grouping: Grouping,
    /// How calls were bounded.
    pub mechanism: Mechanism,
    /// What that costs; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CallCost>,
    /// The parts of the kernel that were asked for.
    pub subsystems: Vec<SubsystemState>,
    /// The counters of the CPU that were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterState>,
    /// The kinds of calls, those that took most time first.
    pub calls: Vec<CallKind>,
    /// The slowest single calls, the slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SingleCall>,
    /// Calls that had not ended when they were not followed any more, the longest first: they are in no row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under_way: Vec<UnderWay>,
    /// Calls that ended while they were followed.
    pub calls_total: u64,
    /// Threads that were followed.
    pub threads_total: u64,
    /// Bytes that the calls, and stores to mapped files, had written to storage; absent where the
    /// page cache or block devices were not looked into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_written_bytes_total: Option<u64>,
    /// Of these, bytes that are in memory still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_to_come_bytes: Option<u64>,
    /// Calls, or what they left behind, for which there was no room.
    pub lost_total: u64,
    /// Returns of probed functions that the kernel did not tell of: what came after them in their
    /// callers may have gone to the functions' part.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed_returns_total: u64,
    /// Times that a thread came back to a CPU, and the kernel side was not told: what followed up to
    /// the next border is in the wait.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed_arrivals_total: u64,
    /// Calls that are counted, but came too fast to be told one by one.
    pub untold_total: u64,
    /// Probes of functions at the borders of parts, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<FunctionProbes>,
    /// What is not in the table, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A call that a thread was in when it was followed last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnderWay {
    /// Its name.
    pub call: String,
    /// The process.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// What the process is called.
    pub command: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_base64: Option<String>,
    /// How long it had lasted at least; absent where nobody saw it begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_seconds: Option<f64>,
}

fn is_no_time(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// A part of the kernel, as it could be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubsystemState {
    /// Its name.
    pub name: String,
    /// Probes attached for it.
    pub probes: usize,
    /// Of these, functions at its border.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<BorderProbes>,
    /// What this kernel lacks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A counter of the CPU, as it could be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterState {
    /// Its name.
    pub name: String,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// By whom the functions at a part's border were chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// The analysis of this kernel's image.
    Analysis,
    /// A list that weigh brings along.
    #[default]
    List,
}

/// The functions at the border of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BorderProbes {
    /// By whom they were chosen.
    pub chosen_by: ChosenBy,
    /// How many were.
    pub chosen: usize,
    /// Of these, how many are probed, at entry and return.
    pub probed: usize,
    /// How often those who were followed entered them.
    pub hits_total: u64,
}

/// How functions were probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbedBy {
    /// All at once.
    KprobeMulti,
    /// One after the other.
    Kprobe,
}

/// What a probe of a function costs, its entry and its return together, as measured here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeCost {
    /// A thread that is followed.
    pub followed_seconds: f64,
    /// Any other thread of the machine.
    pub others_seconds: f64,
}

/// What it costs that calls are followed, each of them beyond what it does itself, as measured here before the
/// first one: with a call that does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallCost {
    /// A thread that is followed.
    pub followed_seconds: f64,
    /// Any other thread of the machine.
    pub others_seconds: f64,
}

/// The probes of functions, all parts together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionProbes {
    /// How.
    pub by: ProbedBy,
    /// Why the functions were not chosen by the analysis of this kernel's image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How many functions are probed.
    pub probed: usize,
    /// How long it took to attach them all.
    pub attach_seconds: f64,
    /// How long it took to let go of them.
    pub detach_seconds: f64,
    /// What each costs; absent if it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ProbeCost>,
}

/// All calls of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallKind {
    /// The call's name.
    pub call: String,
    /// Whose they are, if not everybody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_base64: Option<String>,
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
    /// Of the scheduler's waits, those at a pipe: for who is at its other end.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub waiting_at_pipes_seconds: f64,
    /// Those at a socket.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub waiting_at_sockets_seconds: f64,
    /// What the CPU counted meanwhile, if that was asked for, and there is such a counter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: Numbers,
    /// Where the time went, and what was done, by part of the kernel; they add up to the time.
    pub parts: BTreeMap<String, Numbers>,
    /// What the code of each part did itself, if that was asked for; what is 0 is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_part: BTreeMap<String, Numbers>,
    /// What they caused that happened after they had returned.
    pub later: Numbers,
    /// Of their time and all time of what came later, the latter's part: how much of what they cost was asynchronous.
    /// Absent where they cost nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later_ratio: Option<f64>,
}

impl CallKind {
    /// All time of what came later: of devices, queues, softirqs, timers and work.
    pub fn later_seconds(&self) -> f64 {
        let times = self.later.iter().filter(|(key, _)| key.ends_with("_seconds"));
        times.fold(0.0, |sum, (_, number)| sum + number.as_f64())
    }

    /// Whether they waited for somebody else to do something, and did hardly anything else.
    pub fn is_idle(&self) -> bool {
        let end = OtherEnd::named(self.of.as_deref());
        let at_ends = self.waits_at_ends().into_iter().filter(|(end, _)| {
            // Of others it is known by their names.
            idle_wait(&self.call, None).is_none() && idle_wait(&self.call, Some(*end)).is_some()
        });
        let waited: f64 = at_ends.map(|(_, seconds)| seconds).sum();
        is_idle(&self.call, end, &self.parts, self.time_seconds)
            || is_mostly(waited, self.time_seconds)
    }

    /// How long they waited at each kind of thing that has another end.
    pub fn waits_at_ends(&self) -> [(OtherEnd, f64); 2] {
        [
            (OtherEnd::Pipe, self.waiting_at_pipes_seconds),
            (OtherEnd::Socket, self.waiting_at_sockets_seconds),
        ]
    }

    /// What they cost, at once and later.
    pub fn cost_seconds(&self) -> f64 {
        self.time_seconds + self.later_seconds()
    }
}

/// One call of many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SingleCall {
    /// The call's name.
    pub call: String,
    /// What it is about, by the grouping, if that is a file or a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_base64: Option<String>,
    /// Whether it waited at a pipe or a socket, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_at: Option<OtherEnd>,
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
    /// As of [`CallKind`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: Numbers,
    /// Where the time went, as of [`CallKind`].
    pub parts: BTreeMap<String, Numbers>,
    /// Who else was in its way, by the names of [`RIVALS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rivals: BTreeMap<String, RivalSeen>,
}

/// The process that was in the way of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RivalSeen {
    /// The process.
    pub pid: u32,
    /// The kernel's name for it.
    pub name: String,
    /// Its bytes in Base64, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// How long the call waited for it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}
