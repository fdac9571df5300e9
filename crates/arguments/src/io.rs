//! What `weigh io` is told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use weigh_collect::io::RowScope;
use weigh_schema::amount::parse_duration;
use weigh_session::products::io::IoMechanism;
use weigh_session::products::io::mount::MountMechanism;

use super::choice::{Choice, choice};
use super::numbers::pid;
use super::status::StatusArguments;

const IO_EXAMPLES: &str = "\
Levels, and what they cost (weigh doctor io tries each here, and says what a call takes more by it):
  totals     weigh run, which takes the kernel's own counters: nothing for each call
  per file   weigh io: two probes at each system call of the machine while it runs, and more at those
             that are about files; the page `io` has what that cost where it was measured
  each call  weigh io --calls FILE: beside that a row for each call, some 50 ns more at each of the job's,
             and weigh's own work for the rows. Where in the kernel their time went says
             weigh calls --per-call FILE --by file

Exit status:
  the command's own; if a signal ended the command, weigh ends by the same signal
  125  weigh itself failed before the command began, or, with --require-recording, could not write all
  126  the command was found but cannot be executed
  127  the command was not found

Examples:
  weigh io -- make -j4
  weigh io --live -- ./simulate input.nc
  weigh io --rows 5 --details -- ./simulate input.nc
  weigh io --pid 4711 --for 10s --json -
  weigh io --mount /scratch --for 1m --live
  weigh io -q --parquet files.parquet -- python train.py
  weigh io --calls calls.parquet -- ./simulate input.nc
  weigh io --mechanism preload+ptrace -- ./script-of-static-programs
  weigh io mount --exact data seen -- python train.py seen/input

See also: the page `io` of weigh's documentation (each number, what advice follows from what, what cannot be seen).";

/// Options of `weigh io`.
#[derive(Args, Debug)]
#[command(after_help = IO_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct IoArguments {
    /// What to do instead.
    #[command(subcommand)]
    pub subject: Option<IoSubject>,

    /// The command and its arguments.
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Follow a process that runs, all of its threads, and what it starts from now on.
    #[arg(long, value_name = "PID", value_parser = pid, conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Follow the file system that this folder lies on, whatever uses it: its files, by all processes, until Ctrl-C or for
    /// --for. It takes root. (`weigh io mount` serves a folder at another place instead, and needs no root.)
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with_all = ["command", "pid"])]
    pub mount: Option<PathBuf>,

    /// How reads and writes are seen.
    #[arg(long, default_value = "auto", value_parser = choice(IO_MECHANISMS))]
    pub mechanism: IoMechanism,

    /// Whose numbers are kept apart: a row for each file and process, or for each file and thread. Threads take
    /// --mechanism bpf or ptrace.
    #[arg(long, default_value = "process", value_parser = choice(ROW_SCOPES))]
    pub by: RowScope,

    /// With --mechanism ptrace: let only reads, writes and their like stop, by a seccomp filter in the job. Nearly
    /// halves the price, but the filter stays in the job: if weigh is killed, these calls fail there with ENOSYS.
    /// Not with --pid and --for.
    #[arg(long, conflicts_with_all = ["pid", "duration"])]
    pub seccomp: bool,

    /// As without --seccomp: no filter in the job. Older weighs put one there by themselves.
    #[arg(long, hide = true, conflicts_with = "seccomp")]
    pub no_seccomp: bool,

    /// Stop following after this time [default: when the last thread has ended, or Ctrl-C]. A command goes on, and
    /// weigh ends when it does.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// What is told, and where.
    #[command(flatten)]
    pub telling: IoTelling,

    /// Write a row for each call to a Parquet file: when, how long, who, which file, where in it, bytes asked
    /// for and moved, error. It takes root, a `weigh agent` that runs, or --mechanism ptrace.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub calls: Option<PathBuf>,
}

/// What is told of files, and where: the same however it was seen.
#[derive(Args, Debug)]
pub struct IoTelling {
    /// Show the table on the terminal while it goes on, anew four times a second.
    #[arg(long)]
    pub live: bool,

    /// Show so many files [default: as many as fit on 24 lines].
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,

    /// Show system files, libraries and bytecode, pipes, sockets and terminals each in a row of its own, and all that
    /// is told below the rows.
    #[arg(long)]
    pub all: bool,

    /// Below each file in the table, what else is known of it: sizes, order and strides of its reads and writes, what
    /// was read or written again, what the page cache had and what devices did, who had it written, the slowest call.
    #[arg(long)]
    pub details: bool,

    /// Print no table.
    #[arg(short, long)]
    pub quiet: bool,

    /// Write what was found as JSON to a file, to `-` (standard output), or to `fd:N`.
    #[arg(long, value_name = "DEST")]
    pub json: Option<String>,

    /// Write a row for each file and process to a Parquet file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub parquet: Option<PathBuf>,

    /// What its status tells of.
    #[command(flatten)]
    pub status: StatusArguments,
}

impl IoArguments {
    /// Whether nothing is started: who is followed runs already.
    pub fn runs_already(&self) -> bool {
        self.pid.is_some() || self.mount.is_some()
    }
}

/// How `weigh io` sees reads and writes.
pub const IO_MECHANISMS: &[Choice<IoMechanism>] = &[
    (
        IoMechanism::Auto,
        "auto",
        "bpf where that is allowed, or where an agent does it for the user, else preload",
    ),
    (
        IoMechanism::Bpf,
        "bpf",
        "The kernel's own tracepoints: all calls of all programs, io_uring, mapped memory. It takes root, or a \
         `weigh agent` that runs",
    ),
    (
        IoMechanism::Preload,
        "preload",
        "A library in dynamic programs: calls of the C library, without any rights. What it cannot see is named",
    ),
    (IoMechanism::PreloadBpf, "preload+bpf", ""),
    (
        IoMechanism::PreloadPtrace,
        "preload+ptrace",
        "Both in one job: the library counts the calls of dynamic programs, and a tracer those of programs that it \
         cannot be in (static ones, other C libraries), without any rights. What that costs is told",
    ),
    (
        IoMechanism::Ptrace,
        "ptrace",
        "A tracer that stops each call on files: all programs, static ones too, without any rights. What it costs is \
         told",
    ),
];

/// How `weigh io mount` counts what is read and written.
const MOUNT_MECHANISMS: &[Choice<MountMechanism>] = &[
    (
        MountMechanism::Auto,
        "auto",
        "bpf where the kernel passes reads and writes through and weigh may use BPF, else fuse",
    ),
    (
        MountMechanism::Bpf,
        "bpf",
        "The kernel's own tracepoints, as `weigh io --mount` does: each call on files of the mount. It takes root, \
         and costs calls on files all over the machine a fraction of a microsecond",
    ),
    (
        MountMechanism::Fuse,
        "fuse",
        "Requests that come to weigh: what the kernel answers by itself is not seen",
    ),
];

/// How `weigh run --io` sees them, beside the job's mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunIoMechanism {
    /// bpf where that is allowed, or where an agent does it for the user, else by who follows the job (--mechanism
    /// preload or ptrace).
    Auto,
    /// The kernel's own tracepoints: all calls of all programs, io_uring, mapped memory. It takes root, or a
    /// `weigh agent` that runs.
    Bpf,
    /// As bpf: once both counted in one job.
    #[value(name = "preload+bpf", hide = true)]
    PreloadBpf,
    /// The library counts the calls of dynamic programs, and a tracer those of programs that it cannot be in (static
    /// ones, other C libraries), without any rights. The tracer follows the job as well: with --mechanism ptrace, which
    /// is taken unless another one is asked for. What that costs is told.
    #[value(name = "preload+ptrace")]
    PreloadPtrace,
    /// The tracer that follows the job (--mechanism ptrace, which is taken unless another one is asked for) stops each
    /// call on files, too: all programs, static ones too, without any rights. What it costs is told.
    Ptrace,
    /// Refused, with what does it: the library counts where it follows the job.
    #[value(hide = true)]
    Preload,
}

/// Whose numbers are kept apart.
pub(super) const ROW_SCOPES: &[Choice<RowScope>] = &[
    (RowScope::Processes, "process", "Each process's"),
    (
        RowScope::Threads,
        "thread",
        "Each thread's; the order of its reads and writes is its own, too",
    ),
];

/// Other ways to see what is read and written.
#[derive(Subcommand, Debug)]
pub enum IoSubject {
    /// Serve a folder at another place, as a file system, and say what is done with its files there.
    Mount(MountArguments),
}

const MOUNT_EXAMPLES: &str = "\
How much is seen, and what it costs:
  passthrough  the kernel reads and writes by itself (Linux 6.9, root), and BPF counts each call;
               where weigh may not use BPF, bytes are not seen
  plain        writes are seen call by call, reads where the page cache
               lacks them (--no-passthrough)
  exact        every read and write is seen, nothing is cached (--exact)

Exit status:
  the command's own; if a signal ended the command, weigh ends by the same signal; without a command
  0 when it was interrupted or unmounted
  125  weigh itself failed before the command began, or the folders cannot be used; with --require-recording,
       not all could be written
  126  the command was found but cannot be executed
  127  the command was not found

Examples:
  weigh io mount data seen                      until Ctrl-C, or umount seen
  weigh io mount --live data seen               with a table meanwhile
  weigh io mount data seen -- sort seen/names -o seen/sorted
  weigh io mount --exact --json - -q data seen -- ./simulate seen/input.nc
  weigh io mount --exact --calls calls.parquet data seen -- ./simulate seen/input.nc
  weigh io mount --for 10m --by thread data seen
  weigh run --io --io-mount data seen --io-exact -- ./simulate seen/input.nc   a recording, with its page

See also: the page `mount` of weigh's documentation (what is seen in which way, where the mount differs).";

/// Options of `weigh io mount`.
#[derive(Args, Debug)]
#[command(after_help = MOUNT_EXAMPLES)]
pub struct MountArguments {
    /// The folder that has the files.
    #[arg(value_hint = ValueHint::DirPath)]
    pub source: PathBuf,

    /// Where they appear: an empty folder.
    #[arg(value_hint = ValueHint::DirPath)]
    pub mountpoint: PathBuf,

    /// The command and its arguments: mounted for as long as it runs [default: until Ctrl-C, or until
    /// somebody unmounts it].
    #[arg(last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Have every read and write come to weigh: nothing is cached.
    #[arg(long)]
    pub exact: bool,

    /// Do not let the kernel read and write by itself, where it could: writes are seen then.
    #[arg(long, conflicts_with = "exact")]
    pub no_passthrough: bool,

    /// How reads and writes are counted.
    #[arg(long, default_value = "auto", value_parser = choice(MOUNT_MECHANISMS))]
    pub mechanism: MountMechanism,

    /// Whose numbers are kept apart: a row for each file and process, or for each file and thread.
    #[arg(long, default_value = "process", value_parser = choice(ROW_SCOPES))]
    pub by: RowScope,

    /// End after this time as by Ctrl-C. With a command it stays mounted until that has ended, and what is done
    /// after this time is not counted.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// What is told, and where.
    #[command(flatten)]
    pub telling: IoTelling,

    /// Write a row for each call that is seen to a Parquet file, as `weigh io --calls` does. By --mechanism bpf and
    /// with --exact each has one. Else what the kernel does by itself has none: with passthrough no read and no write,
    /// without it no read.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub calls: Option<PathBuf>,
}
