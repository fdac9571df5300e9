//! What `weigh calls` and `weigh explain` are told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use weigh_schema::amount::parse_duration;
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::explain::{AskedToken, Of, SlowRule};
use weigh_schema::subsystem::{CPU_COUNTERS, CpuCounter};

use super::choice::{Choice, choice};
use super::numbers::pid;
use super::status::StatusArguments;
use super::token::token;

const CALLS_EXAMPLES: &str = "\
Exit status:
  the command's own; if a signal ended the command, weigh ends by the same signal
  125  weigh itself failed before the command began, or, with --require-recording, could not write all
  126  the command was found but cannot be executed
  127  the command was not found

Examples:
  weigh calls -- dd if=/dev/zero of=file bs=64k count=1000 conv=fsync
  weigh calls --slowest 20 -- ./server --once
  weigh calls --per-call calls.parquet -- ./server --once; weigh explain calls.parquet
  weigh calls --counters cycles,instructions -- ./server --once
  weigh calls --by-part --counters cycles -s memory,fs,block -- ./server --once
  weigh calls --pid 4711 --for 10s --subsystems block,fs,lock --json -

See also: the page `calls` of weigh's documentation (each part of the kernel, each number, what it costs).";

/// Options of `weigh calls`.
#[derive(Args, Debug)]
#[command(after_help = CALLS_EXAMPLES)]
pub struct CallsArguments {
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Follow a process that runs, all of its threads, and what it starts from now on.
    #[arg(long, value_name = "PID", value_parser = pid, conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Stop following after this time [default: when the last thread has ended, or Ctrl-C]. A command goes on, and
    /// weigh ends when it does.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// How calls are bounded [default: auto, which the page `calls` explains].
    #[arg(long, value_enum, default_value_t = CallsMechanism::Auto, hide_default_value = true)]
    pub mechanism: CallsMechanism,

    /// The parts of the kernel to look into: the fewer, the less it costs.
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "all")]
    pub subsystems: Vec<String>,

    /// Count with counters of the CPU what each call's thread does on it: `cycles`, `instructions`. They are
    /// read at both ends of a call and of each wait, which can take 3 microseconds each in a virtual
    /// machine. With --mechanism bpf.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = counter)]
    pub counters: Vec<&'static CpuCounter>,

    /// Tell of each part of the kernel what its own code did, too: the allocations that it made (with the part
    /// `memory`) and, of --counters, what the CPU counted there. Counters are then read wherever a call comes into a part
    /// or leaves it. With --mechanism bpf.
    #[arg(long)]
    pub by_part: bool,

    /// Mark these calls only, by their names in the table, or `network`: accept, receive and send in all their
    /// forms, and read, write, sendfile and splice by sockets. The others cost nothing. With --mechanism preload.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Leave out parts of the kernel, or define others by the functions at their borders, as this
    /// file says: see the page `subsystems`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Probe the functions at the borders of parts, where the kernel allows it: of the parts that
    /// --subsystems names, else of the VFS and the socket layer. Which these are the analysis of the
    /// kernel's image says (`weigh doctor kernel`), else a short list.
    #[arg(long)]
    pub functions: bool,

    /// Of the functions at borders only those that these system calls can reach.
    #[arg(long, value_name = "CALL,...", value_delimiter = ',', requires = "functions")]
    pub reached_by: Vec<String>,

    /// What has a row of its own in the table.
    #[arg(long, default_value = "call", value_parser = choice(GROUPINGS))]
    pub by: Grouping,

    /// How those who wrote to one page share what it costs to write it to the device.
    #[arg(long, default_value = "bytes", value_parser = choice(SHARINGS))]
    pub share: Sharing,

    /// Tell for each of the N slowest calls where its time went.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub slowest: usize,

    /// List calls that only waited for somebody else (polls, accept, receiving, reading from a pipe or socket), too,
    /// and among the slowest.
    #[arg(long)]
    pub idle: bool,

    /// Write a row for each call to a Parquet file, which `weigh explain` reads.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub per_call: Option<PathBuf>,

    /// Show so many rows of the table [default: as many as fit on 24 lines].
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,

    /// Show all kinds of calls, with what they left for later, what it costs to follow them, and what is less than
    /// exact.
    #[arg(long)]
    pub all: bool,

    /// Print no table.
    #[arg(short, long)]
    pub quiet: bool,

    /// Write what was found as JSON to a file, to `-` (standard output), or to `fd:N`.
    #[arg(long, value_name = "DEST")]
    pub json: Option<String>,

    /// What its status tells of.
    #[command(flatten)]
    pub status: StatusArguments,
}

/// How `weigh calls` learns where calls begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CallsMechanism {
    /// bpf, for it misses nothing; it says what that costs.
    Auto,
    /// The kernel's own tracepoints: every call of every program, and a price for all on the machine.
    Bpf,
    /// A library in dynamic programs: functions of the C library alone; nobody else pays.
    Preload,
}

/// What has a row of its own in the table of calls.
const GROUPINGS: &[Choice<Grouping>] = &[
    (Grouping::Call, "call", "Each kind of call"),
    (Grouping::Thread, "thread", "Each kind of call of each thread"),
    (
        Grouping::File,
        "file",
        "Each kind of call on each file, or whatever else a descriptor refers to",
    ),
    (Grouping::Connection, "connection", "Each kind of call on each socket"),
];

/// How several who wrote to one page share its cost.
pub(super) const SHARINGS: &[Choice<Sharing>] = &[
    (Sharing::Bytes, "bytes", "By the bytes each wrote"),
    (Sharing::Equal, "equal", "All the same"),
    (Sharing::Last, "last", "All to who wrote last"),
];

fn counter(text: &str) -> Result<&'static CpuCounter, String> {
    CpuCounter::named(text).ok_or_else(|| {
        let known: Vec<&str> = CPU_COUNTERS.iter().map(|counter| counter.name).collect();
        format!("there is no counter named '{text}'; there are {}", known.join(", "))
    })
}

const EXPLAIN_EXAMPLES: &str = "\
The slow calls of a kind are compared with its ordinary ones, those between the quartiles: what they
have more of, the greatest first, and who was in their way.

Examples:
  weigh calls --per-call calls.parquet --by file -- ./server --once
  weigh explain calls.parquet
  weigh explain calls.parquet --call fsync --slow 10ms --page explain.html
  weigh explain calls.parquet --by interval
  weigh explain calls.parquet --token req-17 --token 4711
  weigh explain --phase checkpoint RECORDING";

/// Options of `weigh explain`.
#[derive(Args, Debug)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArguments {
    /// What `weigh calls --per-call` wrote; with --phase, a recording.
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub file: PathBuf,

    /// Say which resource moves with this phase of a recording's programs: what was used and held while they were in it,
    /// beside the rest of the run.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["calls", "by", "tokens", "slow", "page"])]
    pub phase: Option<String>,

    /// Look at this call alone; can be given several times.
    #[arg(long = "call", value_name = "NAME")]
    pub calls: Vec<String>,

    /// What is compared: each call with others of its kind; each interval of libweigh (a request)
    /// with all others; or with those of its token [default: call; with --token, interval].
    #[arg(long, value_name = "WHAT", value_parser = choice(COMPARISONS))]
    pub by: Option<Of>,

    /// Compare the intervals of this token with the ordinary ones of all others, however long they took;
    /// can be given several times. A number, or a text, of which a number is made as libweigh for
    /// Python does it.
    #[arg(long = "token", value_name = "TOKEN", value_parser = token, conflicts_with_all = ["slow", "calls"])]
    pub tokens: Vec<AskedToken>,

    /// Which calls are slow: the slowest share of a kind, if they took twice the median; or all
    /// that took so long.
    #[arg(long, value_name = "SHARE|DURATION", default_value = "1%")]
    pub slow: SlowRule,

    /// Tell of so many kinds of calls.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rows: usize,

    /// Print nothing.
    #[arg(short, long)]
    pub quiet: bool,

    /// Write a page with a histogram of each kind of calls, and where the time of each bar went.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub page: Option<PathBuf>,

    /// Write what was found as JSON to a file, to `-` (standard output), or to `fd:N`.
    #[arg(long, value_name = "DEST")]
    pub json: Option<String>,
}

/// What `weigh explain` compares.
const COMPARISONS: &[Choice<Of>] = &[
    (Of::Call, "call", "Calls"),
    (Of::Interval, "interval", "Intervals of libweigh"),
    (Of::Token, "token", "Intervals of libweigh, by their tokens"),
];
