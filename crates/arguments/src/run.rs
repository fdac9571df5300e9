//! What `weigh run` is told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use weigh_account::WatchSpec;
use weigh_collect::io::RowScope;
use weigh_schema::amount::parse_duration;
use weigh_schema::following::{FOLLOWINGS, Level};
use weigh_schema::limit::{Limit, OnLimit};

use super::choice::{Choice, choice};
use super::io::{ROW_SCOPES, RunIoMechanism};
use super::numbers::pid;
use super::status::StatusArguments;
use weigh_session::products::run::{Collector, Conventions, WaitFor, watch_spec};

const RUN_EXAMPLES: &str = "\
Exit status:
  the command's own; if a signal ended the command, weigh ends by the same signal; with --pid 0
  124  a limit ended the job (unless --preserve-status)
  125  weigh itself failed before the command began, or, with --require-recording, could not write all
  126  the command was found but cannot be executed
  127  the command was not found

Examples:
  weigh run -- make -j4
  weigh run -o build.weigh --interval 100ms --live -- ./simulate input.nc
  weigh run --limit memory_peak_bytes=2GiB --limit wall_seconds=1h -- python train.py
  weigh run --quiet --json - -- true | jq .metrics.cpu_seconds
  weigh run --pid 4711 --for 10s

See also: the pages `metrics` (what each counts) and `mechanisms` (what each sees and loses) of weigh's documentation.";

/// Options of `weigh run`.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArguments {
    /// The command and its arguments.
    #[arg(required_unless_present = "pid", trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Follow a process that runs, all of its threads, and what it starts from now on. What it has used before is in no
    /// value. Without root: processes of one's own, by ptrace.
    #[arg(long, value_name = "PID", value_parser = pid,
          conflicts_with_all = ["command", "cgroup", "delays", "written", "seccomp", "mount_place"])]
    pub pid: Option<u32>,

    /// With --pid: stop after this time [default: when its last process has ended, or Ctrl-C]. The process goes on.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Leave the recording in DIR [default: a new directory under $XDG_STATE_HOME/weigh].
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Replace the recording that DIR holds, if its job has ended. Other files there stay.
    #[arg(long, requires = "output")]
    pub replace: bool,

    /// Print no table, no notice, and no live line: errors, and what limits do, are told.
    #[arg(short, long)]
    pub quiet: bool,

    /// Print all metrics with their keys, and why a value is less than exact, instead of twelve lines.
    #[arg(long)]
    pub details: bool,

    /// Print a line for each metric instead: its key, value in base units, unit and quality.
    #[arg(long, conflicts_with = "details")]
    pub keys: bool,

    /// Write the summary as JSON to a file, to `-` (standard output), or to `fd:N`.
    #[arg(long, value_name = "DEST")]
    pub json: Option<String>,

    /// What its status tells of.
    #[command(flatten)]
    pub status: StatusArguments,

    /// Show a live line on the terminal from the start. After two seconds it comes by itself where the command leaves
    /// the terminal alone; WEIGH_LIVE=never and -q turn that off.
    #[arg(long, visible_alias = "progress")]
    pub live: bool,

    /// Time between samples, from 10ms, and the window of cpu_cores_peak [default: by BPF 10ms at first, else
    /// 100ms, which doubles up to 1s; windows of 1s].
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    pub interval: Option<Duration>,

    /// When the job ends: with its last process, or with the command itself.
    #[arg(long, default_value = "all", value_parser = choice(WAIT_FOR))]
    pub wait_for: WaitFor,

    /// Do not let METRIC grow past VALUE (sizes as 2GiB or 500MB, durations as 90s or 1h30m).
    #[arg(long = "limit", value_name = "METRIC=VALUE", help_heading = "Limits")]
    pub limits: Vec<Limit>,

    /// Read limits from a TOML file: lines of `METRIC = VALUE`, on_limit and grace.
    #[arg(long = "limits", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Limits")]
    pub limits_file: Option<PathBuf>,

    /// What to do when a limit is crossed [default: kill].
    #[arg(long, value_name = "ACTION", help_heading = "Limits")]
    pub on_limit: Option<OnLimit>,

    /// Time between TERM and KILL when a limit ends the job [default: 5s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Limits")]
    pub grace: Option<Duration>,

    /// When a limit ended the job, exit with the command's status instead of 124.
    #[arg(long, help_heading = "Limits")]
    pub preserve_status: bool,

    /// Note all metrics each time a line of FILE matches the regular expression PATTERN; without
    /// PATTERN, when FILE is created.
    #[arg(long = "snapshot", value_name = "LABEL=FILE[:PATTERN]", value_parser = watch_spec::parse, help_heading = "Events")]
    pub snapshots: Vec<WatchSpec>,

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

    /// With --mechanism ptrace and --level 3 or --io: let only the calls of interest stop, by a seccomp filter
    /// in the job. Cheaper, but the filter stays in the job: if weigh is killed, these calls fail
    /// there with ENOSYS; programs that trace others fail; set-user-ID programs get no rights.
    #[arg(long, help_heading = "Mechanisms")]
    pub seccomp: bool,

    /// Do without a collector.
    #[arg(long = "without", value_name = "COLLECTOR", value_parser = choice(COLLECTORS))]
    pub without: Vec<Collector>,

    /// Follow opened files by fanotify where functions cannot be probed; every process of the
    /// machine pays about a microsecond an open for it.
    #[arg(long)]
    pub files: bool,

    /// Put the job into a control group of its own, for the peak that its memory controller records.
    /// The job can see that; with control groups of version 1 all forks of the machine wait some
    /// milliseconds for the move. Without BPF this is done unasked in a group delegated to the user.
    #[arg(long)]
    pub cgroup: bool,

    /// Turn the kernel's delay accounting on for the time of the run, and split the wait for a CPU by who had it,
    /// the job itself or others (needs root); each switch between threads of the machine takes up to 0.3 µs longer
    /// meanwhile. Afterwards kernel.task_delayacct is what it was, unless somebody else has written it during the run;
    /// a write through another mount of procfs (a container's, say) is not noticed.
    #[arg(long)]
    pub delays: bool,

    /// Follow each page that the job makes dirty until it is on the device, whatever writes it there,
    /// for storage_written_bytes_total (needs root, or an agent); each write and each request to a device on the
    /// machine pays for that meanwhile.
    #[arg(long)]
    pub written: bool,

    /// Account for all that is read and written by file and process, as `weigh io` does: order, strides, what
    /// is read again, time, mapped memory, advice; each call of the machine pays for that meanwhile. Without
    /// root --mechanism preload is taken before others. The page `io` says what is seen, and what it costs.
    #[arg(long)]
    pub io: bool,

    /// With --io: keep a row for each call that is about a file, in io_calls.parquet. It takes root, or an agent;
    /// the page `io` says what it costs.
    #[arg(long, requires = "io")]
    pub io_calls: bool,

    /// With --io: whose numbers are kept apart, a row for each file and process, or for each file and thread.
    /// Threads take root.
    #[arg(long, default_value = "process", value_parser = choice(ROW_SCOPES), requires = "io")]
    pub io_by: RowScope,

    /// With --io: how reads and writes are seen.
    #[arg(long, value_enum, default_value_t = RunIoMechanism::Auto, requires = "io", conflicts_with = "mount_place")]
    pub io_mechanism: RunIoMechanism,

    /// With --io: serve the folder SOURCE at the empty folder MOUNTPOINT while the job runs, as `weigh io mount` does,
    /// and account for what is done there, by whomever. It takes no root; the page `mount` says what is seen in which way.
    #[arg(long, num_args = 2, value_names = ["SOURCE", "MOUNTPOINT"], value_hint = ValueHint::DirPath, requires = "io",
          group = "mount_place")]
    pub io_mount: Vec<PathBuf>,

    /// As --io-mount, over the folder DIR itself, for the job alone: it has a mount namespace of its own, and no path of it
    /// changes. It takes root, or --userns.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "io", group = "mount_place")]
    pub io_mount_over: Option<PathBuf>,

    /// With --io-mount-over: without root, give the job a user namespace of its own besides, in which it gains no rights.
    #[arg(long, requires = "io_mount_over")]
    pub userns: bool,

    /// Account for what system calls cost in each part of the kernel, as `weigh calls` does, in calls.json: all parts, or
    /// those that are named (as block,fs,lock). It takes root; each call of the machine pays for it meanwhile, as the
    /// page `calls` says.
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true, value_delimiter = ',',
          default_missing_value = "all")]
    pub calls: Option<Vec<String>>,

    /// Hear what annotated programs, unchanged, tell of their regions, by CONVENTION: nvtx, itt, kokkos, ompt, mpi,
    /// likwid, papi, roctx, otlp; where they are named perfstubs, gomp, python:MODULE, too; several with commas. `auto`,
    /// which is meant without a list, is the first nine, `all` all but Python's. `costs:PATTERN` has regions of such names
    /// account for what their system calls cost in the kernel (root, or an agent).
    #[arg(long, value_name = "CONVENTION", num_args = 0..=1, require_equals = true, default_missing_value = "auto",
          value_parser = Conventions::parse, conflicts_with = "pid")]
    pub regions: Option<Conventions>,

    /// With --io-mount: have every read and write come to weigh.
    #[arg(long, requires = "mount_place")]
    pub io_exact: bool,

    /// With --io-mount: do not let the kernel read and write by itself, where it could.
    #[arg(long, requires = "mount_place", conflicts_with = "io_exact")]
    pub io_no_passthrough: bool,
}

/// When a job is over.
const WAIT_FOR: &[Choice<WaitFor>] = &[
    (WaitFor::Main, "main", "When the command itself has ended"),
    (WaitFor::All, "all", "When the last of its descendants has ended, however it was started"),
];

/// The collectors that can be left out.
pub const COLLECTORS: &[Choice<Collector>] = &[
    (Collector::Bpf, "bpf", "The BPF programs: everything that follows the job in the kernel"),
    (Collector::Hardware, "hardware", "Hardware counters"),
    (Collector::Network, "network", "Sockets"),
    (Collector::Files, "files", "Opened files"),
    (Collector::Footprint, "footprint", "Disk footprint"),
    (Collector::Cgroup, "cgroup", "Control group of the job"),
    (Collector::Gpu, "gpu", "Graphics processors"),
    (Collector::Pages, "pages", "Looks at shared pages"),
    (Collector::Delays, "delays", "The kernel's delay accounting"),
];

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|e| e.to_string())?;
    if interval < Duration::from_millis(10) {
        return Err(format!("'{text}' is too short: an interval is at least 10ms"));
    }
    Ok(interval)
}

/// The mechanism that is none: the best that works.
const AUTO: &str = "auto";

fn mechanisms() -> PossibleValuesParser {
    let names = FOLLOWINGS.iter().map(|following| following.name);
    PossibleValuesParser::new(std::iter::once(AUTO).chain(names))
}

fn level(text: &str) -> Result<Level, String> {
    let found = Level::ALL.into_iter().find(|level| level.number().to_string() == text);
    found.ok_or_else(|| format!("'{text}' is no level; expected 1, 2 or 3"))
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err(format!("'{text}' is no label; expected KEY=VALUE")),
    }
}
