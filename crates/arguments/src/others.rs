//! What the verbs are told that measure no command.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use weigh_export::recording::{self, FORMATS, RecordingFormat};
use weigh_schema::call::Sharing;

use super::agent::AgentVerb;
use super::calls::SHARINGS;
use super::choice::choice;
use super::numbers::{interval, pid, programs};
use super::serve::{TlsArguments, address};

/// Options of `weigh show`.
#[derive(Args, Debug)]
pub struct ShowArguments {
    /// The recording; of weigh trace, its .parquet file, as `weigh trace read` shows it; with --regions also a profile that
    /// a program has kept (WEIGH_PROFILE).
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub recording: PathBuf,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// Show all metrics with their keys, and why a value is less than exact; below each file, where reads and writes
    /// were followed (weigh run --io), what else is known of it, as `weigh io --details` has it.
    #[arg(long, conflicts_with = "json")]
    pub details: bool,
    /// Print a line for each metric: its key, value in base units, unit and quality.
    #[arg(long, conflicts_with_all = ["json", "details"])]
    pub keys: bool,
    /// Show the times of regions that programs name, as a tree: calls, inclusive and exclusive time.
    #[arg(long, conflicts_with_all = ["details", "keys"])]
    pub regions: bool,
    /// Add the regions up by name, wherever they were called.
    #[arg(long, requires = "regions")]
    pub flat: bool,
    /// Tell threads apart, each with its wall time and what lies outside of regions.
    #[arg(long, requires = "regions")]
    pub threads: bool,
}

/// Options of `weigh report`.
#[derive(Args, Debug)]
pub struct ReportArguments {
    /// The recording; of weigh trace, its .parquet file.
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub recording: PathBuf,
    /// Where to write the page, `-` for standard output [default: report.html in the recording; beside a file, with its name].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Options of `weigh export`.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// The recording: for otlp any; for speedscope and chrome of programs that name regions; else made with `weigh run --io`.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// In which form, on standard output. What is left out is said in it.
    #[arg(long, value_parser = recording_format(), required_unless_present = "to")]
    pub format: Option<&'static RecordingFormat>,
    /// Send the job, its processes and phases as spans of OpenTelemetry to a collector: otlp=http://HOST:PORT.
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["format", "under"])]
    pub to: Option<String>,
    /// Only files below this folder (several times for several): without the libraries, for instance, that every
    /// program reads. Pipes and sockets are not left out by it.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub under: Vec<PathBuf>,
}

/// A form of `weigh export`, by its name.
fn recording_format() -> impl TypedValueParser<Value = &'static RecordingFormat> {
    let known = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.help));
    PossibleValuesParser::new(known)
        .try_map(|name| recording::format(&name).ok_or("there is no such form"))
}

const DOCTOR_STATUS: &str = "\
Exit status:
  0    the kernel follows jobs here, exactly
  1    jobs are followed by another mechanism, which sees less
  125  no job can be measured";

/// Options of `weigh doctor`.
#[derive(Args, Debug)]
#[command(after_help = DOCTOR_STATUS, args_conflicts_with_subcommands = true)]
pub struct DoctorArguments {
    /// What to look at instead.
    #[command(subcommand)]
    pub subject: Option<DoctorSubject>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,
    /// Say all that was tried, with what each takes and loses.
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
}

/// What the doctor can look at, other than weigh itself.
#[derive(Subcommand, Debug)]
pub enum DoctorSubject {
    /// Analyse the kernel's image: where calls cross from one part of the kernel to another, and
    /// which functions have to be probed to see it.
    Kernel(KernelArguments),
    /// Try each way in which `weigh io` sees reads and writes, and say what a call takes more by it on this machine.
    Io(DoctorIoArguments),
}

/// Options of `weigh doctor io`.
#[derive(Args, Debug)]
pub struct DoctorIoArguments {
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,
}

const KERNEL_EXAMPLES: &str = "\
Without --image the running kernel's own is looked for: its -dbg package's vmlinux, /boot/vmlinuz-RELEASE,
/lib/modules/RELEASE. Its analysis is kept, by the kernel's build id, in /var/cache/weigh (root) or
$XDG_CACHE_HOME/weigh.

Examples:
  weigh doctor kernel
  weigh doctor kernel --calls read,write,fsync --probes
  weigh doctor kernel --image vmlinuz --symbols System.map --json

See also: the page `kernel` of weigh's documentation (what is read, how probes are chosen, what cannot be seen).";

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

    /// Tell these parts apart only: what belongs to another is taken for its caller's.
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    pub parts: Vec<String>,

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
It runs until TERM or INT. While no program uses it, nothing is attached to the kernel. Without the rights to load programs
into the kernel it serves streams of what the node does alone, and says so.

Examples:
  weigh agent
  weigh agent --subsystems block,sched,socket
  weigh agent --config /etc/weigh/parts.toml
  weigh agent --socket /tmp/weigh.sock & WEIGH_SOCKET=/tmp/weigh.sock ./server
  weigh agent status
  weigh agent set --interval 0.5s
  weigh agent --http 8080 & weigh agent url

See also: the pages `libweigh` (what the agent gives to whom), `agent` (its streams), `subsystems` (the file of --config) and
`without-root` of weigh's documentation.";

/// Options of `weigh agent`.
#[derive(Args, Debug)]
#[command(after_help = AGENT_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct AgentArguments {
    /// What to tell an agent that runs [default: be one].
    #[command(subcommand)]
    pub request: Option<AgentVerb>,
    /// Where programs find it.
    #[arg(long, value_name = "PATH", default_value = weigh_schema::library::SOCKET, value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,
    /// The parts of the kernel that programs may ask for, built-in ones or those of --config [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub subsystems: Vec<String>,
    /// Leave out parts of the kernel, or define others by the functions at their borders, as this file says, for
    /// all programs that are served: see the page `subsystems`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Probe functions at the borders of these parts while a program wants them, where the kernel allows it: `vfs`,
    /// `socket`, for which no kernel has tracepoints. Every process pays for it at each call of these functions; what one
    /// costs here the agent says when it starts.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub functions: Vec<String>,
    /// Follow every system call, which makes weigh_next() exact; every process of the machine pays
    /// for it at each of its calls.
    #[arg(long)]
    pub every_call: bool,
    /// How those who wrote to one page share what it costs to write it to the device, in all accounts.
    #[arg(long, default_value = "bytes", value_parser = choice(SHARINGS))]
    pub share: Sharing,
    /// How many programs of a user, root apart, are served at once.
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = programs)]
    pub per_user: usize,
    /// How often to read the node, while no reader wants it more often.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Keep the streams in this file while the agent is stopped: the next one goes on from it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
    /// Take datagrams of StatsD at this address of the machine itself, as 127.0.0.1:8125.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub statsd: Option<SocketAddr>,
    /// Take metrics and spans of OpenTelemetry (OTLP/HTTP) at this address of the machine itself, as 127.0.0.1:4318.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub otlp: Option<SocketAddr>,
    /// Serve the page of the node there: a port, or an address of this machine's loopback with a port, with --tls-cert any
    /// address of it. A process without rights does it; `weigh agent url` says its URL, with a token of yours.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// How the page is served over TLS.
    #[command(flatten)]
    pub tls: TlsArguments,
    /// The user of that process, where the agent is root's [default: nobody].
    #[arg(long, value_name = "USER", requires = "http")]
    pub http_user: Option<String>,
    /// Somebody else serves the page at the address of --http (weigh serve --agent --for-users), as another unit does.
    #[arg(long, requires = "http", conflicts_with = "http_user")]
    pub http_apart: bool,
    /// Let programs collect /metrics of the page with the token in this file (mode 0600), which stays the same; it is
    /// made if it is not there.
    #[arg(long, value_name = "FILE", requires = "http", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Judge by the rules of this file (TOML), beside the shipped ones or in their place, and run their commands: then
    /// nobody else may be able to change it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: Option<PathBuf>,
    /// A process apart runs the commands of rules (weigh agent commands), as another unit does.
    #[arg(long)]
    pub commands_apart: bool,
}

const TOP_EXAMPLES: &str = "\
Keys: q quits; Enter opens a job or a process, Esc goes back; c, m, t, p sort by CPU, memory, threads, PID; / filters by a
text, Esc shows all; a lists everybody's processes; s lists the collectors of the node, r the rules; arrows and pages scroll.

Examples:
  weigh top
  weigh top --rules my-rules.toml
  weigh top --once --json --job 4711
  weigh top --once --json | jq '.metrics.node.node_memory_available_bytes.value'

See also: the pages `top` (what is shown, the JSON, what is missing where) and `rules` (the shipped rules, the form of
the file) of weigh's documentation.";

/// Options of `weigh top`.
#[derive(Args, Debug)]
#[command(after_help = TOP_EXAMPLES)]
pub struct TopArguments {
    /// How often to look.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// List all users' processes.
    #[arg(short, long)]
    pub all: bool,
    /// Print two looks' result, one interval apart, and end: it needs no terminal.
    #[arg(long)]
    pub once: bool,
    /// Print it as JSON.
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Print one job in detail, by the PID of its `weigh run`, or one process.
    #[arg(long, value_name = "PID", requires = "once", value_parser = pid)]
    pub job: Option<u32>,
    /// Judge by the rules of this file (TOML), beside the shipped ones or in their place.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: Option<PathBuf>,
}

/// Writes man pages, completions, and the references that follow from declarations.
///
/// Not one of [`Verb`]: it is for builds of weigh, and completions would offer it.
#[derive(Parser, Debug)]
#[command(name = "weigh generate")]
pub struct GenerateArguments {
    /// Where to write to; man/ and completions/ are made there.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}
