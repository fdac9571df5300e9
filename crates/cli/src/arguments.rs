//! The command line, declared once: parser, help, man pages and completions are derived from it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use weigh_schema::amount::parse_duration;
use weigh_schema::call::{Grouping, Sharing};
use weigh_schema::explain::{Of, SlowRule};
use weigh_schema::following::{FOLLOWINGS, Level};
use weigh_schema::limit::{Limit, OnLimit};
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use crate::run::watched;

/// Accounts for every resource a program uses, while it runs, exactly, and at next to no cost.
#[derive(Parser, Debug)]
#[command(
    name = "weigh",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Begin with:\n  weigh run -- COMMAND      measure a command and everything it starts\n  weigh doctor              what can be measured here, and what is missing"
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What weigh can do.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Run a command and account for everything it and its descendants use.
    Run(Box<RunArguments>),
    /// Say what each system call of a command or process costs in each part of the kernel.
    Calls(Box<CallsArguments>),
    /// Show events of the kernel as they happen, filtered and sampled there, or write them to a file.
    Trace(Box<TraceArguments>),
    /// Say what a command or process reads and writes, by file: by calls, io_uring and mapped memory.
    Io(Box<IoArguments>),
    /// Say what made the slow calls slow, of those that `weigh calls --per-call` kept.
    Explain(ExplainArguments),
    /// Show a recording as a table, or its summary as JSON.
    Show(ShowArguments),
    /// Make the page of a recording again, or of one that was cut short.
    Report(ReportArguments),
    /// Say which mechanisms work here, which do not, why, and what each costs or loses.
    Doctor(DoctorArguments),
    /// Serve users without rights: measure programs that use libweigh, follow jobs of `weigh run`.
    Agent(AgentArguments),
}

const RUN_EXAMPLES: &str = "\
Exit status:
  the command's own; if a signal ended the command, weigh ends by the same signal
  124  a limit ended the job (unless --preserve-status)
  125  weigh itself failed
  126  the command was found but can not be executed
  127  the command was not found

Examples:
  weigh run -- make -j4
  weigh run -o build.weigh --interval 100ms --progress -- ./simulate input.nc
  weigh run --limit memory_peak_bytes=2GiB --limit wall_seconds=1h -- python train.py
  weigh run --quiet --json - -- true | jq .metrics.cpu_seconds

docs/metrics.md says exactly what each metric counts, docs/mechanisms.md what each mechanism sees and loses.";

/// Options of `weigh run`.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArguments {
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Leave the recording in DIR [default: a new directory under $XDG_STATE_HOME/weigh].
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Print no table.
    #[arg(short, long)]
    pub quiet: bool,

    /// Write the summary as JSON to a file, to `-` (standard output), or to `fd:N`.
    #[arg(long, value_name = "DEST")]
    pub json: Option<String>,

    /// Show a live status line on the terminal.
    #[arg(long)]
    pub progress: bool,

    /// Time between samples, from 10ms.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Duration,

    /// When the job ends: with its last process, or with the command itself.
    #[arg(long, value_enum, default_value_t = WaitFor::All)]
    pub wait_for: WaitFor,

    /// Do not let METRIC grow past VALUE (sizes as 2GiB or 500MB, durations as 90s or 1h30m).
    #[arg(long = "limit", value_name = "METRIC=VALUE", help_heading = "Limits")]
    pub limits: Vec<Limit>,

    /// Read limits from a TOML file: lines of `METRIC = VALUE`, on_limit and grace.
    #[arg(long = "limits", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Limits")]
    pub limits_file: Option<PathBuf>,

    /// What to do when a limit is crossed [default: kill].
    #[arg(long, value_name = "ACTION", value_parser = on_limit, help_heading = "Limits")]
    pub on_limit: Option<OnLimit>,

    /// Time between TERM and KILL when a limit ends the job [default: 5s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Limits")]
    pub grace: Option<Duration>,

    /// When a limit ended the job, exit with the command's status instead of 124.
    #[arg(long, help_heading = "Limits")]
    pub preserve_status: bool,

    /// Note all metrics each time a line of FILE matches the regular expression PATTERN; without
    /// PATTERN, when FILE is created.
    #[arg(long = "snapshot", value_name = "LABEL=FILE[:PATTERN]", value_parser = watched::parse, help_heading = "Events")]
    pub snapshots: Vec<watched::Watched>,

    /// Read from a JSON file, in resource_monitor's format, which files to watch for snapshots.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Events")]
    pub snapshot_events: Option<PathBuf>,

    /// Run COMMAND (by sh -c) at each snapshot, warning, crossed limit, and at the end, with
    /// WEIGH_EVENT, WEIGH_NAME, WEIGH_RECORDING and WEIGH_JOB in its environment and the whole as
    /// JSON on its standard input. What it writes goes to standard error.
    #[arg(long, value_name = "COMMAND", help_heading = "Events")]
    pub on_event: Option<OsString>,

    /// Follow the disk footprint of DIR [default: the working directory].
    #[arg(long = "watch", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub watch: Vec<PathBuf>,

    /// Say what kind of job this is.
    #[arg(long, value_name = "NAME")]
    pub category: Option<String>,

    /// Attach a label to the recording.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,

    /// How to follow the job; `auto` takes the best that works here and says which.
    #[arg(long, value_name = "MECHANISM", default_value = AUTO, value_parser = mechanisms(), help_heading = "Mechanisms")]
    pub mechanism: String,

    /// How deep to look: 1 polls, 2 is told of each process, 3 sees calls and files too [default:
    /// the deepest that the mechanism can, but 2 by ptrace].
    #[arg(long, value_name = "LEVEL", value_parser = level, help_heading = "Mechanisms")]
    pub level: Option<Level>,

    /// With --mechanism ptrace --level 3: let only the calls of interest stop, by a seccomp filter
    /// in the job. Cheaper, but the filter stays in the job: if weigh is killed, these calls fail
    /// there with ENOSYS; programs that trace others fail; set-user-ID programs get no rights.
    #[arg(long, help_heading = "Mechanisms")]
    pub seccomp: bool,

    /// Do without a collector.
    #[arg(long = "without", value_enum, value_name = "COLLECTOR")]
    pub without: Vec<Collector>,

    /// Follow opened files by fanotify where functions can not be probed; every process of the
    /// machine pays about a microsecond an open for it.
    #[arg(long)]
    pub files: bool,

    /// Put the job into a control group of its own, for the peak that its memory controller records.
    /// The job can see that; with control groups of version 1 all forks of the machine wait some
    /// milliseconds for the move. Without BPF this is done unasked in a group delegated to the user.
    #[arg(long)]
    pub cgroup: bool,

    /// Turn the kernel's delay accounting on for the time of the run (needs root).
    #[arg(long)]
    pub delays: bool,

    /// Follow each page that the job makes dirty until it is on the device, whoever writes it there,
    /// for storage_written_bytes_total (needs root); each write and each request to a device on the
    /// machine pays for that meanwhile.
    #[arg(long)]
    pub written: bool,
}

const CALLS_EXAMPLES: &str = "\
Exit status:
  the command's own; if a signal ended the command, weigh ends by the same signal
  125  weigh itself failed
  126  the command was found but can not be executed
  127  the command was not found

Examples:
  weigh calls -- dd if=/dev/zero of=file bs=64k count=1000 conv=fsync
  weigh calls --slowest 20 -- ./server --once
  weigh calls --per-call calls.parquet -- ./server --once; weigh explain calls.parquet
  weigh calls --pid 4711 --for 10s --subsystems block,fs,lock --json -

docs/calls.md says what each part of the kernel and each number is, and what following calls costs.";

/// Options of `weigh calls`.
#[derive(Args, Debug)]
#[command(after_help = CALLS_EXAMPLES)]
pub struct CallsArguments {
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Follow a process that runs, all of its threads, and what it starts from now on.
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Stop following after this time [default: when the last thread has ended, or Ctrl-C].
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// How calls are bounded [default: auto, which docs/calls.md explains].
    #[arg(long, value_enum, default_value_t = CallsMechanism::Auto, hide_default_value = true)]
    pub mechanism: CallsMechanism,

    /// The parts of the kernel to look into: the fewer, the less it costs.
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', default_value = "all")]
    pub subsystems: Vec<String>,

    /// Mark these calls only, by their names in the table, or `network`: accept, receive, send, read
    /// and write in all their forms. The others cost nothing. With --mechanism preload.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Leave out parts of the kernel, or define others by the functions at their borders, as this
    /// file says: see docs/subsystems.md.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Tell the VFS and the socket layer from the rest, where the kernel lets functions be probed:
    /// two probes at each of some thirty functions that calls begin with.
    #[arg(long)]
    pub functions: bool,

    /// What has a row of its own in the table.
    #[arg(long, value_enum, default_value_t = By::Call)]
    pub by: By,

    /// How those who wrote to one page share what it costs to write it to the device.
    #[arg(long, value_enum, default_value_t = Share::Bytes)]
    pub share: Share,

    /// Tell for each of the N slowest calls where its time went.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub slowest: usize,

    /// Write a row for each call to a Parquet file, which `weigh explain` reads.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub per_call: Option<PathBuf>,

    /// Show so many rows of the table.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,

    /// Print no table.
    #[arg(short, long)]
    pub quiet: bool,

    /// Write what was found as JSON to a file, to `-` (standard output), or to `fd:N`.
    #[arg(long, value_name = "DEST")]
    pub json: Option<String>,
}

const IO_EXAMPLES: &str = "\
Levels, and what they cost:
  totals     weigh run, which takes the kernel's own counters: nothing
  per file   weigh io: two probes at each system call of the machine while it runs, and more at those
             that are about files; docs/io.md has what that cost where it was measured
  each call  weigh calls --per-call FILE --by file

Exit status:
  the command's own; if a signal ended the command, weigh ends by the same signal
  125  weigh itself failed
  126  the command was found but can not be executed
  127  the command was not found

Examples:
  weigh io -- make -j4
  weigh io --live -- ./simulate input.nc
  weigh io --pid 4711 --for 10s --json -
  weigh io -q --parquet files.parquet -- python train.py

docs/io.md says what each number is, what advice follows from what, and what can not be seen.";

/// Options of `weigh io`.
#[derive(Args, Debug)]
#[command(after_help = IO_EXAMPLES)]
pub struct IoArguments {
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Follow a process that runs, all of its threads, and what it starts from now on.
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Stop following after this time [default: when the last thread has ended, or Ctrl-C].
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Show the table on the terminal while the command runs, anew four times a second.
    #[arg(long)]
    pub live: bool,

    /// Show so many files.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,

    /// Print no table.
    #[arg(short, long)]
    pub quiet: bool,

    /// Write what was found as JSON to a file, to `-` (standard output), or to `fd:N`.
    #[arg(long, value_name = "DEST")]
    pub json: Option<String>,

    /// Write a row for each file and process to a Parquet file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub parquet: Option<PathBuf>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Each kind of call.
    Call,
    /// Each kind of call of each thread.
    Thread,
    /// Each kind of call on each file, or whatever else a descriptor refers to.
    File,
    /// Each kind of call on each socket.
    Connection,
}

/// How several who wrote to one page share its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Share {
    /// By the bytes each wrote.
    Bytes,
    /// All the same.
    Equal,
    /// All to who wrote last.
    Last,
}

impl From<Share> for Sharing {
    fn from(share: Share) -> Sharing {
        match share {
            Share::Bytes => Sharing::Bytes,
            Share::Equal => Sharing::Equal,
            Share::Last => Sharing::Last,
        }
    }
}

impl From<By> for Grouping {
    fn from(by: By) -> Grouping {
        match by {
            By::Call => Grouping::Call,
            By::Thread => Grouping::Thread,
            By::File => Grouping::File,
            By::Connection => Grouping::Connection,
        }
    }
}

/// When a job is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WaitFor {
    /// When the command itself has ended.
    Main,
    /// When the last of its descendants has ended, however it was started.
    All,
}

/// The collectors that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Collector {
    /// The BPF programs: everything that follows the job in the kernel.
    Bpf,
    /// Hardware counters.
    Hardware,
    /// Sockets.
    Network,
    /// Opened files.
    Files,
    /// Disk footprint.
    Footprint,
    /// Control group of the job.
    Cgroup,
    /// Graphics processors.
    Gpu,
    /// Looks at shared pages.
    Pages,
    /// The kernel's delay accounting.
    Delays,
}

impl Collector {
    /// Its name in the summary.
    pub fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_string()).unwrap_or_default()
    }
}

const TRACE_EXAMPLES: &str = "\
Exit status:
  the command's own; if a signal ended the command, weigh ends by the same signal
  125  weigh itself failed, or not all events could be written
  126  the command was found but can not be executed
  127  the command was not found

Examples:
  weigh trace list 'net:*'
  weigh trace -e net -- curl -s http://127.0.0.1/
  weigh trace -e 'net:net_dev_queue{len=skb->len, dev=skb->dev->name} if skb->len > 1000' --for 10s
  weigh trace -e sched:sched_switch --sampling 'sample 1/100' --system --for 1m -o switches.parquet

docs/trace.md has the language of events and filters, what a record is, and what it costs.";

/// Options of `weigh trace`.
#[derive(Args, Debug)]
#[command(after_help = TRACE_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct TraceArguments {
    /// What to do instead.
    #[command(subcommand)]
    pub subject: Option<TraceSubject>,

    /// The command and its arguments: its events alone are followed, and of all that it starts.
    #[arg(last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// An event, GROUP:TRACEPOINT{FIELDS} or fn:FUNCTION{FIELDS}, or a named set; can be given
    /// several times.
    #[arg(short = 'e', long = "event", value_name = "EVENT")]
    pub events: Vec<String>,

    /// Take only events for which this holds, as `tgid == 42 && cpu in 0..3`; holds for all events,
    /// beside what they say themselves.
    #[arg(short = 'f', long = "filter", value_name = "FILTER")]
    pub filters: Vec<String>,

    /// Take not every one: 'sample 1/100', 'at most 1000/s' or 'every 10ms', of each event that does
    /// not say otherwise itself.
    #[arg(long, value_name = "RULE")]
    pub sampling: Option<String>,

    /// Write to FILE, whose name says the format (.parquet, .jsonl), or JSON lines to `-` [default:
    /// lines on the terminal].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Follow a process that runs, all of its threads, and what it starts from now on.
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Follow everybody, also while a command runs [default where neither a command nor a PID is
    /// given].
    #[arg(long, conflicts_with = "pid")]
    pub system: bool,

    /// Stop after this time [default: when the last thread has ended, or Ctrl-C].
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// How large the ring is, a power of 2: what comes while it is full is lost, and counted.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = ring_size, help_heading = "Buffers")]
    pub buffer: usize,

    /// A ring for each CPU: CPUs do not wait for each other, but events of different CPUs may come in
    /// another order than they happened.
    #[arg(long, help_heading = "Buffers")]
    pub per_cpu: bool,

    /// Wake weigh when a CPU has written so much; 0: for each event [default: an eighth of the ring].
    #[arg(long, value_name = "SIZE", value_parser = weigh_schema::amount::parse_size, help_heading = "Buffers")]
    pub wake: Option<u64>,

    /// Do not tell in the end what was counted.
    #[arg(short, long)]
    pub quiet: bool,
}

/// What `weigh trace` can do other than follow.
#[derive(Subcommand, Debug)]
pub enum TraceSubject {
    /// Say which events this kernel has, with their arguments and types.
    List(TraceListArguments),
}

/// Options of `weigh trace list`.
#[derive(Args, Debug)]
pub struct TraceListArguments {
    /// Those whose name holds this; `*` stands for anything, `fn:` before it for functions.
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,
}

const EXPLAIN_EXAMPLES: &str = "\
The slow calls of a kind are compared with its ordinary ones, those between the quartiles: what they
have more of, the greatest first, and who was in their way.

Examples:
  weigh calls --per-call calls.parquet --by file -- ./server --once
  weigh explain calls.parquet
  weigh explain calls.parquet --call fsync --slow 10ms --page explain.html
  weigh explain calls.parquet --by interval";

/// What `weigh explain` compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareBy {
    /// Calls.
    #[default]
    Call,
    /// Intervals of libweigh.
    Interval,
    /// Intervals of libweigh, by their tokens.
    Token,
}

impl From<CompareBy> for Of {
    fn from(by: CompareBy) -> Of {
        match by {
            CompareBy::Call => Of::Call,
            CompareBy::Interval => Of::Interval,
            CompareBy::Token => Of::Token,
        }
    }
}

/// Options of `weigh explain`.
#[derive(Args, Debug)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArguments {
    /// What `weigh calls --per-call` wrote.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Look at this call alone; can be given several times.
    #[arg(long = "call", value_name = "NAME")]
    pub calls: Vec<String>,

    /// What is compared: each call with others of its kind; each interval of libweigh (a request)
    /// with all others; or with those of its token.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub by: CompareBy,

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

    /// Write a page with a histogram of each kind of calls, coloured by where the time went.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub page: Option<PathBuf>,

    /// Write what was found as JSON to a file, to `-` (standard output), or to `fd:N`.
    #[arg(long, value_name = "DEST")]
    pub json: Option<String>,
}

/// Options of `weigh show`.
#[derive(Args, Debug)]
pub struct ShowArguments {
    /// The recording.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `weigh report`.
#[derive(Args, Debug)]
pub struct ReportArguments {
    /// The recording.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// Where to write the page [default: report.html in the recording].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Options of `weigh doctor`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DoctorArguments {
    /// What to look at instead.
    #[command(subcommand)]
    pub subject: Option<DoctorSubject>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What the doctor can look at, other than weigh itself.
#[derive(Subcommand, Debug)]
pub enum DoctorSubject {
    /// Analyse the kernel's image: where calls cross from one part of the kernel to another, and
    /// which functions have to be probed to see it.
    Kernel(KernelArguments),
}

const KERNEL_EXAMPLES: &str = "\
Without --image the running kernel's own is looked for: its -dbg package's vmlinux, /boot/vmlinuz-RELEASE,
/lib/modules/RELEASE. Its analysis is kept, by the kernel's build id, in /var/cache/weigh (root) or
$XDG_CACHE_HOME/weigh.

Examples:
  weigh doctor kernel
  weigh doctor kernel --calls read,write,fsync --probes
  weigh doctor kernel --image vmlinuz --symbols System.map --json

docs/kernel.md says what is read, how probes are chosen, and what can not be seen.";

/// Options of `weigh doctor kernel`.
#[derive(Args, Debug)]
#[command(after_help = KERNEL_EXAMPLES)]
pub struct KernelArguments {
    /// Analyse this image, a vmlinuz or a vmlinux, instead of the running kernel's.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub image: Option<PathBuf>,

    /// Take the names from this file, in the form of /proc/kallsyms or System.map [default: the
    /// image's own].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "image")]
    pub symbols: Option<PathBuf>,

    /// Begin from these system calls only.
    #[arg(long, value_name = "CALL,...", value_delimiter = ',')]
    pub calls: Vec<String>,

    /// List each probe.
    #[arg(long)]
    pub probes: bool,

    /// Analyse again, even if an analysis is kept.
    #[arg(long, conflicts_with = "image")]
    pub fresh: bool,

    /// Print the analysis as JSON.
    #[arg(long)]
    pub json: bool,
}

const AGENT_EXAMPLES: &str = "\
It runs until TERM or INT. While no program uses it, nothing is attached to the kernel.

Examples:
  weigh agent
  weigh agent --subsystems block,sched,socket
  weigh agent --socket /tmp/weigh.sock & WEIGH_SOCKET=/tmp/weigh.sock ./server

docs/libweigh.md has libweigh, and what the agent gives to whom.";

/// Options of `weigh agent`.
#[derive(Args, Debug)]
#[command(after_help = AGENT_EXAMPLES)]
pub struct AgentArguments {
    /// Where programs find it.
    #[arg(long, value_name = "PATH", default_value = weigh_schema::library::SOCKET, value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,
    /// The parts of the kernel that programs may ask for [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = subsystem)]
    pub subsystems: Vec<&'static Subsystem>,
    /// Follow every system call, which makes weigh_next() exact; every process of the machine pays
    /// for it at each of its calls.
    #[arg(long)]
    pub every_call: bool,
    /// How many programs of a user, root apart, are served at once.
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    pub per_user: usize,
}

/// Writes man pages, completions, and the references that follow from declarations.
///
/// Not one of [`Verb`]: it is for whoever builds weigh, and completions would offer it.
#[derive(Parser, Debug)]
#[command(name = "weigh generate")]
pub struct GenerateArguments {
    /// Where to write to; man/ and completions/ are made there.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|e| e.to_string())?;
    if interval < Duration::from_millis(10) {
        return Err(format!("'{text}' is too short: an interval is at least 10ms"));
    }
    Ok(interval)
}

/// Reads an action by its name in the schema.
pub fn on_limit(text: &str) -> Result<OnLimit, String> {
    serde_json::from_value(serde_json::Value::String(text.to_string()))
        .map_err(|_| format!("'{text}' is no action; expected kill, warn or stop"))
}

/// The mechanism that is none: the best that works.
pub const AUTO: &str = "auto";

/// Rings are a power of 2, of whole pages, below what the kernel can address in one.
fn ring_size(text: &str) -> Result<usize, String> {
    let bytes = weigh_schema::amount::parse_size(text).map_err(|error| error.to_string())?;
    match usize::try_from(bytes) {
        Ok(size) if size.is_power_of_two() && (4096..=1 << 30).contains(&size) => Ok(size),
        _ => Err(format!("'{text}' is no size of a ring; expected a power of 2, 4KiB to 1GiB")),
    }
}

fn mechanisms() -> PossibleValuesParser {
    let names = FOLLOWINGS.iter().map(|following| following.name);
    PossibleValuesParser::new(std::iter::once(AUTO).chain(names))
}

fn level(text: &str) -> Result<Level, String> {
    let found = Level::ALL.into_iter().find(|level| level.number().to_string() == text);
    found.ok_or_else(|| format!("'{text}' is no level; expected 1, 2 or 3"))
}

fn subsystem(text: &str) -> Result<&'static Subsystem, String> {
    Subsystem::named(text).ok_or_else(|| {
        let known: Vec<&str> = SUBSYSTEMS.iter().map(|subsystem| subsystem.name).collect();
        format!("'{text}' is no part of the kernel; expected {}", known.join(", "))
    })
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err(format!("'{text}' is no label; expected KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declarations_hold_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_of_the_command_are_its_own() {
        let parsed = Arguments::try_parse_from(["weigh", "run", "--", "ls", "--quiet", "-o"])
            .expect("parses");
        let Verb::Run(run) = parsed.verb else { panic!("a run") };
        assert_eq!(run.command, ["ls", "--quiet", "-o"]);
        assert!(!run.quiet);
    }
}
