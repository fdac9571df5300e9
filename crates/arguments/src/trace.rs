//! What `weigh trace` is told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use weigh_schema::amount::parse_duration;
use weigh_schema::ring;

use super::live_values::LiveValueArguments;
use super::numbers::{interval, pid};
use super::status::StatusArguments;

const TRACE_EXAMPLES: &str = "\
Exit status:
  the command's own; if a signal ended the command, weigh ends by the same signal
  125  weigh itself failed before the command began, or, with --require-recording, could not write all;
       where no command is given, also if not all events could be written
  126  the command was found but cannot be executed
  127  the command was not found

Examples:
  weigh trace -e openat -- cat /etc/hostname
  weigh trace -e 'openat if ret == -ENOENT' -- make
  weigh trace list 'net:*'
  weigh trace -e net -- curl -s http://127.0.0.1/
  weigh trace -e 'net:net_dev_queue{len=skb->len, dev=skb->dev->name} if skb->len > 1000' --for 10s
  weigh trace -e 'user:libc.so.6:malloc{bytes=arg0} if arg0 > 4096' -- ls
  weigh trace packets -o web.pcapng -- curl -s http://127.0.0.1/
  weigh trace ctl filter 0 'skb->len > 500'
  weigh trace --latency 'raw_syscalls:sys_enter -> raw_syscalls:sys_exit by tid' -- ls
  weigh trace --top '10 of net:net_dev_queue by comm' --rate 'of net:net_dev_queue by cpu' --for 10s
  weigh trace -e block:block_rq_issue --when 'rate of block_rq_issue > 5000 for 2s: sample 1/100' -o io.parquet
  weigh trace -e 'openat if ret == -EMFILE' --on-event 'logger -t weigh out of descriptors' -q
  weigh trace --latency 'sys_enter_fsync -> sys_exit_fsync by tid' --metrics ./fsync.sock -q
  weigh trace -e sched:sched_switch --sampling 'sample 1/100' --system --for 1m -o switches.parquet

See also: the page `trace` of weigh's documentation (the language of events and filters, records, costs).";

const READ_EXAMPLES: &str = "\
Examples:
  weigh trace read switches.parquet
  weigh trace read calls.parquet -f 'tgid == 42' --latency 'sys_enter -> sys_exit by tid'
  weigh trace read packets.parquet -o packets.perfetto-trace
  weigh trace read calls.parquet -o calls.html";

/// Options of `weigh trace`.
#[derive(Args, Debug, Default)]
#[command(after_help = TRACE_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct TraceArguments {
    /// What to do instead.
    #[command(subcommand)]
    pub subject: Option<TraceSubject>,

    /// The command and its arguments: its events alone are followed, and of all that it starts.
    #[arg(last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// An event: a system call (openat, syscalls:sys_enter_openat), GROUP:TRACEPOINT{FIELDS}, fn:FUNCTION{FIELDS},
    /// user:FILE:FUNCTION{FIELDS}, usdt:FILE:PROVIDER:NAME{FIELDS}, a pattern (sched:sched_process_*) or a named set;
    /// can be given several times.
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

    /// Write to FILE, whose name says the format (.parquet, .jsonl, .perfetto-trace, .chrome.json,
    /// .firefox.json, .html, .ctf), or JSON lines to `-` [default:
    /// lines on the terminal].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// In a .perfetto-trace, draw the fields of this name as counters; can be given several times.
    #[arg(long = "counter", value_name = "FIELD")]
    pub counters: Vec<String>,

    /// Follow a process that runs, all of its threads, and what it starts from now on.
    #[arg(long, value_name = "PID", value_parser = pid, conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Follow everybody, also while a command runs [default where neither a command nor a PID is
    /// given].
    #[arg(long, conflicts_with = "pid")]
    pub system: bool,

    /// Stop following after this time [default: when the last thread has ended, or Ctrl-C]. A command goes on, and
    /// weigh ends when it does.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// How large a ring is, a power of 2: what comes while it is full is lost, and counted [default: 1MiB to 8MiB for
    /// each CPU, or 8MiB for all].
    #[arg(long, value_name = "SIZE", value_parser = ring_size, help_heading = "Buffers")]
    pub buffer: Option<usize>,

    /// A ring for each CPU: CPUs do not wait for each other, and events are put into the order of their times when
    /// they are taken in [default, unless stacks of programs are wanted].
    #[arg(long, help_heading = "Buffers", conflicts_with = "total_order")]
    pub per_cpu: bool,

    /// One ring for all CPUs: events stay in the order in which they were written.
    #[arg(long, help_heading = "Buffers")]
    pub total_order: bool,

    /// Wake weigh when a CPU has written so much; 0: for each event [default: an eighth of what it can write, 4KiB
    /// where stacks of programs are wanted].
    #[arg(long, value_name = "SIZE", value_parser = weigh_schema::amount::parse_size, help_heading = "Buffers")]
    pub wake: Option<u64>,

    /// Another buffer beside or instead of the one of -o: 'NAME: CLAUSE, ... if PREDICATE', as 'slow: of block_rq_issue |
    /// block_rq_complete, deliver 10ms, to slow.parquet if tgid == 42'; can be given several times.
    #[arg(long = "into", value_name = "BUFFER", help_heading = "Buffers")]
    pub into: Vec<String>,

    /// Do not tell in the end what was counted, nor what several events said together.
    #[arg(short, long)]
    pub quiet: bool,

    /// What its status tells of.
    #[command(flatten)]
    pub status: StatusArguments,

    /// Change the stream while a condition holds: 'rate of EVENT > N for 5s: sample 1/100', 'lost > 0: sample 1/10 of EVENT',
    /// '...: filter of EVENT if FILTER' or '...: add EVENT{FIELDS}'. It is said when that is on and off, on standard error,
    /// in reports, and by weigh trace ctl. Can be given several times.
    #[arg(long, value_name = "CONDITION: CHANGE", help_heading = "While it runs")]
    pub when: Vec<String>,

    /// What programs have of it while it runs.
    #[command(flatten)]
    pub live_values: LiveValueArguments,

    /// What several events say together. The last: its heading holds for all that follow.
    #[command(flatten)]
    pub synthesis: SynthesisArguments,
}

/// So many keys are kept unless somebody says otherwise.
pub const KEYS: u32 = 65_536;

/// What is wanted of several events together.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Several events together")]
pub struct SynthesisArguments {
    /// The time between two events of the same key: 'A -> B by KEY [within 1ms]', as 'sched_wakeup -> sched_switch by
    /// p->pid == next->pid'. Events that no -e names are followed as well. All of these can be given several times.
    #[arg(long, value_name = "PAIR")]
    pub latency: Vec<String>,

    /// Pass on only pairs: 'A followed by B by KEY within 1ms', or events that nothing follows: 'A not followed by B by
    /// KEY within 1ms'.
    #[arg(long, value_name = "PAIR")]
    pub sequence: Vec<String>,

    /// How many events there are in a second: '[of EVENT, ...] by KEY', as 'by event' or 'of net_dev_queue by comm'.
    #[arg(long, value_name = "KEYS")]
    pub rate: Vec<String>,

    /// The keys with most events: 'N [of EVENT, ...] by KEY', as '10 by comm'.
    #[arg(long, value_name = "KEYS")]
    pub top: Vec<String>,

    /// How the values of a field are spread: 'FIELD [of EVENT, ...] by KEY', as 'skb->len by cpu'.
    #[arg(long, value_name = "FIELD")]
    pub histogram: Vec<String>,

    /// Keep so many keys of each of them, and so many first events that wait; what comes beyond is counted.
    #[arg(long, value_name = "N", default_value_t = KEYS, value_parser = keys)]
    pub keys: u32,

    /// Draw what was found on the terminal while it runs [default where no command is given].
    #[arg(long)]
    pub live: bool,

    /// Write what was found to FILE as JSON; `-` is standard output, `fd:N` a descriptor.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<String>,

    /// Write what was found so far as a line of JSON now and then, 100 ms apart at least, for programs that read along.
    /// A reader who is too slow misses lines, and is told how many.
    #[arg(long, value_name = "DURATION", value_parser = interval, requires = "json")]
    pub every: Option<Duration>,
}

/// What `weigh trace` can do other than follow.
#[derive(Subcommand, Debug)]
pub enum TraceSubject {
    /// Say which events this kernel has, with their arguments and types.
    List(TraceListArguments),
    /// Read along with a stream that another `weigh trace` of this user runs: the same events, to other places.
    Attach(Box<TraceAttachArguments>),
    /// Change what a stream follows while it runs, or say what it does.
    Ctl(TraceCtlArguments),
    /// Show a recording again, say what its events say together, or write it in another form.
    Read(Box<TraceReadArguments>),
    /// Write packets, as they leave and come in, to a .pcapng file that Wireshark and tcpdump read, with
    /// the thread, process and CPU of each.
    Packets(Box<TracePacketsArguments>),
}

/// Options of `weigh trace read`.
#[derive(Args, Debug, Default)]
#[command(after_help = READ_EXAMPLES)]
pub struct TraceReadArguments {
    /// The recording: a .parquet file of weigh trace.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Take only events for which this holds, by the fields that are in the recording, as `len > 1000 && cpu in
    /// 0..3`; `event == "net:netif_rx"` takes those of a name.
    #[arg(short = 'f', long = "filter", value_name = "FILTER")]
    pub filters: Vec<String>,

    /// Write to FILE, whose name says the format, as for weigh trace [default: lines on the terminal].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// In a .perfetto-trace, draw the fields of this name as counters; can be given several times.
    #[arg(long = "counter", value_name = "FIELD")]
    pub counters: Vec<String>,

    /// Do not tell in the end what was counted.
    #[arg(short, long)]
    pub quiet: bool,

    /// What several events say together.
    #[command(flatten)]
    pub synthesis: SynthesisArguments,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PacketDirection {
    /// They leave through a device.
    Out,
    /// They come in by one.
    In,
}

/// Options of `weigh trace packets`.
#[derive(Args, Debug)]
pub struct TracePacketsArguments {
    /// The command and its arguments: only packets that its threads send, or that come in while one of
    /// them runs, are taken.
    #[arg(last = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Take only packets for which this holds, as `udp.dport == 53 && ip.dst == 10.0.0.0/8` or `tgid == 42`; in tcpdump's
    /// syntax, too: `udp dst port 53 and net 10.0.0.0/8`.
    #[arg(short = 'f', long = "filter", value_name = "FILTER")]
    pub filters: Vec<String>,

    /// Print the filters in weigh's own words, and end.
    #[arg(long, requires = "filters")]
    pub explain: bool,

    /// Take not every one, as --sampling of weigh trace.
    #[arg(long, value_name = "RULE")]
    pub sampling: Option<String>,

    /// The file, whose name ends in .pcapng, in .pcap (without process and direction) or as those of weigh trace do; with
    /// --journey one of the latter.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present_any = ["journey", "explain"])]
    pub output: Option<PathBuf>,

    /// Tell how long packets are in each layer, from one event to the next: before the device, in the device's
    /// driver, in the queue of what has come in, on the way up to the reader.
    #[arg(long)]
    pub journey: bool,

    /// Draw the journey on the terminal while it goes on [default where no command is given].
    #[arg(long, requires = "journey")]
    pub live: bool,

    /// Write the journey to FILE as JSON; `-` is standard output, `fd:N` a descriptor.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "journey")]
    pub json: Option<String>,

    /// Keep so many bytes of each packet.
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(14..=4096))]
    pub snap: u32,

    /// Take the packets of a process that runs, all of its threads, and what it starts from now on.
    #[arg(long, value_name = "PID", value_parser = pid, conflicts_with = "command")]
    pub pid: Option<u32>,

    /// Take everybody's, also while a command runs [default where neither a command nor a PID is given].
    #[arg(long, conflicts_with = "pid")]
    pub system: bool,

    /// Stop following after this time [default: when the last thread has ended, or Ctrl-C]. A command goes on, and
    /// weigh ends when it does.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Only packets that leave through a device, or that come in by one; over loopback each does both [default: both].
    #[arg(long, value_name = "WAY", conflicts_with = "journey")]
    pub direction: Option<PacketDirection>,

    /// Do not write which process, thread and CPU each packet is of, which is its comment.
    #[arg(long, conflicts_with = "journey")]
    pub no_comments: bool,

    /// How large the ring of a CPU is, a power of 2: what comes while it is full is lost, and counted [default: what
    /// 16,384 packets of --snap take, for other files than .pcapng and .pcap 32,768, 4MiB to 64MiB, all rings together an eighth
    /// of the memory that is available, or that the control group may have].
    #[arg(long, value_name = "SIZE", value_parser = ring_size)]
    pub buffer: Option<usize>,

    /// Do not tell in the end what was counted.
    #[arg(short, long)]
    pub quiet: bool,

    /// What its status tells of.
    #[command(flatten)]
    pub status: StatusArguments,
}

/// Options of `weigh trace attach`.
#[derive(Args, Debug)]
pub struct TraceAttachArguments {
    /// The stream: the PID of its `weigh trace`; can be left out where only one runs.
    #[arg(value_name = "PID", value_parser = pid)]
    pub stream: Option<u32>,

    /// The buffer to read, by its name [default: the stream's first]; `weigh trace ctl buffers` names them.
    #[arg(long, value_name = "BUFFER")]
    pub from: Option<String>,

    /// Take only events for which this holds, of those that the stream has, by the fields that they have there, as
    /// `len > 1000 && cpu in 0..3`; looked at as they are read.
    #[arg(short = 'f', long = "filter", value_name = "FILTER")]
    pub filters: Vec<String>,

    /// Write to FILE, as -o of weigh trace [default: lines on the terminal].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// In a .perfetto-trace, draw the fields of this name as counters; can be given several times.
    #[arg(long = "counter", value_name = "FIELD")]
    pub counters: Vec<String>,

    /// Stop after this time [default: when the stream ends, or Ctrl-C].
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Print what several events say together there, as the stream itself finds it: a line of JSON (`weigh.synthesis/1`)
    /// every so often, and a last one when it ends. No event is read.
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "1s", require_equals = true,
        value_parser = interval, conflicts_with_all = ["from", "filters", "output", "counters", "wake", "latency",
        "sequence", "rate", "top", "histogram", "live", "json", "on_event", "metrics", "publish"])]
    pub reports: Option<Duration>,

    /// Be waked when so much has come [default: 64KiB, or after 100 ms].
    #[arg(long, value_name = "SIZE", value_parser = weigh_schema::amount::parse_size)]
    pub wake: Option<u64>,

    /// Do not tell in the end what was counted.
    #[arg(short, long)]
    pub quiet: bool,

    /// What programs have of it while it runs.
    #[command(flatten)]
    pub live_values: LiveValueArguments,

    /// What several events say together, of those that the stream has, with the fields that they have.
    #[command(flatten)]
    pub synthesis: SynthesisArguments,
}

/// Options of `weigh trace ctl`.
#[derive(Args, Debug)]
pub struct TraceCtlArguments {
    /// The stream: the PID of its `weigh trace`; can be left out where only one runs.
    #[arg(long, value_name = "PID", value_parser = pid, global = true)]
    pub stream: Option<u32>,

    /// What to do [default: list].
    #[command(subcommand)]
    pub ask: Option<TraceCtl>,
}

/// What can be asked of a stream.
#[derive(Subcommand, Debug)]
pub enum TraceCtl {
    /// Say what is followed: probes, filters, sampling, buffers, what was counted and lost.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Follow another event, or set, from now on.
    Add {
        /// As for -e.
        event: String,
    },
    /// Do not follow an event any more.
    Remove {
        /// Its number in `list`.
        id: usize,
    },
    /// Do not follow an event for now; it keeps its number.
    Pause {
        /// Its number in `list`.
        id: usize,
    },
    /// Follow an event again that was paused.
    Resume {
        /// Its number in `list`.
        id: usize,
    },
    /// Take only events of a probe for which this holds, instead of what held until now.
    Filter {
        /// Its number in `list`.
        id: usize,
        /// As for -f [default: take all].
        filter: Option<String>,
    },
    /// Take not every event of a probe.
    Sample {
        /// Its number in `list`.
        id: usize,
        /// As for --sampling [default: take all].
        rule: Option<String>,
    },
    /// Say which buffers there are: rings, predicates, delivery, what was taken, passed over and lost.
    Buffers {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add, change or remove a buffer.
    #[command(subcommand)]
    Buffer(TraceCtlBuffer),
    /// Wake the stream when a CPU has written so much; 0: for each event.
    Wake {
        /// How much.
        #[arg(value_name = "SIZE", value_parser = weigh_schema::amount::parse_size)]
        bytes: u64,
    },
}

/// What can be done with a buffer.
#[derive(Subcommand, Debug)]
pub enum TraceCtlBuffer {
    /// Another buffer from now on.
    Add {
        /// As for --into.
        buffer: String,
    },
    /// Change what is said of a buffer, and nothing else of it: 'size 4MiB', 'deliver 10ms if cpu == 3'; `if` with nothing
    /// behind it lets all in.
    Set {
        /// Its name in `buffers`.
        name: String,
        /// As for --into, without the name.
        clauses: String,
    },
    /// A buffer less; its file is written whole.
    Remove {
        /// Its name in `buffers`.
        name: String,
    },
}

/// Options of `weigh trace list`.
#[derive(Args, Debug)]
pub struct TraceListArguments {
    /// Those whose name holds this; `*` stands for anything, `fn:` before it for functions, `user:FILE:`
    /// for those of a program or library, `usdt:FILE:` for the points that were compiled into it.
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,

    /// Their names alone, a line for each, as shells complete them.
    #[arg(long)]
    pub names: bool,
}

fn keys(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(keys) if (1..=1 << 24).contains(&keys) => Ok(keys),
        _ => Err(format!("'{text}' is no number of keys; expected 1 to {}", 1 << 24)),
    }
}

/// Rings are a power of 2.
fn ring_size(text: &str) -> Result<usize, String> {
    let bytes = weigh_schema::amount::parse_size(text).map_err(|error| error.to_string())?;
    match usize::try_from(bytes) {
        Ok(size)
            if size.is_power_of_two() && (ring::LEAST_BYTES..=ring::MOST_BYTES).contains(&size) =>
        {
            Ok(size)
        }
        _ => Err(format!("'{text}' is no size of a ring; expected a power of 2, 4KiB to 256MiB")),
    }
}
