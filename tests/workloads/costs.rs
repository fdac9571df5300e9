//! What `weigh calls` has to say of the workload `costs`, and who else knows it: one declaration for
//! the tests and for the table of docs/measurements/accuracy.md. Pure.
//!
//! Reads a report and the program's truth; emits, for each row, both figures and whether they agree.
//! Refuses a truth that lacks what a row needs.

use weigh_schema::Mechanism;
use weigh_schema::call::{CallKind, CallsReport};

/// All kinds of calls.
const ALL: &str = "*";

/// Nobody needs to tell it: there has to be none.
const NONE: &str = "none";

/// Time on a CPU, whatever part it was in.
const ON: &[&str] = &["parts.*.time_seconds"];
/// Time off it.
const OFF: &[&str] = &["parts.*.waiting_seconds", "parts.sched.run_queue_seconds"];

/// How far a figure may lie from the truth.
#[derive(Clone, Copy, Debug)]
pub enum Allowed {
    /// Not at all.
    Nothing,
    /// By such a part of the truth.
    Percent(f64),
    /// By so many seconds.
    Seconds(f64),
}

/// A figure of `weigh calls`, and who else knows it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What it is.
    pub what: &'static str,
    /// The call that does nothing else in this program.
    pub call: &'static str,
    /// What is added up: `parts.PART.KEY` or `later.KEY`.
    pub keys: &'static [&'static str],
    /// What one of it is in units of the truth.
    each: f64,
    /// The key of the truth; those that end with `_ns` are seconds.
    truth: &'static str,
    /// The witness of the truth.
    pub witness: &'static str,
    /// How far it may be off.
    pub allowed: Allowed,
}

/// A kernel may pass over a program in an interrupt that comes while another one runs.
const PASSED_OVER: Allowed = Allowed::Percent(15.0);
const PAGE: f64 = 4096.0;
const CLOCK: &str = "its own clocks";
const KNOWN: &str = "what it did";
const USAGE: &str = "getrusage";
const IO: &str = "/proc/self/io";
const DEVICE: &str = "/proc/net/dev";

const fn row(
    what: &'static str,
    call: &'static str,
    keys: &'static [&'static str],
    truth: &'static str,
    witness: &'static str,
) -> Row {
    Row { what, call, keys, each: 1.0, truth, witness, allowed: Allowed::Nothing }
}

impl Row {
    const fn within(self, allowed: Allowed) -> Row {
        Row { allowed, ..self }
    }

    const fn each(self, each: f64) -> Row {
        Row { each, ..self }
    }
}

/// All of them, in the order of the program.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row("23 sleeps of 37 ms: off the CPU", "clock_nanosleep", OFF, "sleep_off_ns", CLOCK)
        .within(Allowed::Percent(0.5)),
    row("times it left the CPU", "clock_nanosleep", &["parts.sched.switches_total"], "sleep_switches", USAGE),
    row("timers started, the scheduler's own included", "clock_nanosleep", &["parts.timer.started_total"], "sleeps", KNOWN)
        .within(PASSED_OVER),
    row("timers that ran", "clock_nanosleep", &["later.timers_total"], "sleeps", KNOWN).within(PASSED_OVER),
    row("50 lseeks, each after 10 ms of computing: on a CPU", "lseek", ON, "seek_cpu_ns", CLOCK)
        .within(Allowed::Seconds(0.001)),
    row("800 MB read from /dev/zero: on a CPU", "preadv", ON, "zeros_cpu_ns", CLOCK)
        .within(Allowed::Percent(2.0)),
    row("a read into 1,024 new pages: faults", "preadv2", &["parts.fault.kernel_total"], "faults_kernel", USAGE),
    row("pages taken, and page tables", "preadv2", &["parts.memory.pages_total"], "pages_taken", "VmPTE")
        .within(Allowed::Percent(1.0)),
    row("700 pages touched between calls: faults in calls", ALL, &["parts.fault.user_total"], NONE, KNOWN),
    row("1 MB written: bytes made dirty", "pwrite64", &["parts.pagecache.dirtied_pages_total"], "dirtied_bytes", IO)
        .each(PAGE),
    row("bytes of it written to the device, later", "pwrite64", &["later.block_bytes_total"], "written_bytes", KNOWN),
    row("fsync: earlier calls' bytes that it writes", "fsync", &["parts.block.carried_bytes_total"], "written_bytes", KNOWN),
    row("8 MiB read cold: bytes from the device", "pread64",
        &["parts.block.transferred_bytes_total", "later.block_bytes_total"], "cold_device_bytes", IO),
    row("pages put into the page cache", "pread64", &["parts.pagecache.added_pages_total"], "cold_pages", KNOWN),
    row("8 MiB read warm: bytes from the device", "readv",
        &["parts.block.transferred_bytes_total", "later.block_bytes_total"], "warm_device_bytes", IO),
    row("pages put into the page cache", "readv", &["parts.pagecache.added_pages_total"], NONE, KNOWN),
    row("1 MB by TCP: payload sent", "sendto", &["parts.socket.sent_bytes_total"], "tcp_bytes", KNOWN),
    row("payload received", "recvfrom", &["parts.socket.received_bytes_total"], "tcp_bytes", KNOWN),
    row("handed to the network, repeats included", "sendto",
        &["parts.tcp.transmitted_bytes_total", "later.tcp_transmitted_bytes_total"], "tcp_sent_bytes", "TCP_INFO"),
    row("97 datagrams by UDP: payload sent", "sendmsg", &["parts.socket.sent_bytes_total"], "udp_bytes", KNOWN),
    row("payload received", "recvmsg", &["parts.socket.received_bytes_total"], "udp_bytes", KNOWN),
    row("packets", "sendmsg", &["parts.net.packets_total"], "udp_packets", DEVICE),
    row("bytes of them, headers included", "sendmsg", &["parts.net.transmitted_bytes_total"], "udp_device_bytes", DEVICE),
    row("11 waits of 29 ms for a pipe: off the CPU", "epoll_wait", OFF, "pipe_off_ns", CLOCK)
        .within(Allowed::Percent(1.0)),
    row("7 waits of 31 ms for a mutex: off the CPU", "futex", OFF, "mutex_off_ns", CLOCK)
        .within(Allowed::Percent(1.0)),
    row("19 timers of 3 ms: started", "timerfd_settime", &["parts.timer.started_total"], "timers", KNOWN),
    row("those that ran", "timerfd_settime", &["later.timers_total"], "timers", KNOWN).within(PASSED_OVER),
    row("13 writes to a terminal: work items", "writev", &["parts.workqueue.queued_total"], "works", KNOWN),
    row("those that ran", "writev", &["later.work_items_total"], "works", KNOWN),
];

/// A figure, and the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Both {
    pub said: f64,
    pub truth: f64,
}

impl Row {
    /// Both figures; none where the report cannot have it: the library does not see the call, or
    /// this kernel lacks a probe.
    pub fn both(&self, report: &CallsReport, truth: &str) -> Option<Both> {
        let calls: Vec<&CallKind> =
            report.calls.iter().filter(|kind| self.call == ALL || kind.call == self.call).collect();
        let is_unseen = calls.is_empty() && report.mechanism == Mechanism::Preload;
        if is_unseen || self.keys.iter().any(|key| is_missing(report, key)) {
            return None;
        }
        let keys = self.keys.iter().flat_map(|key| calls.iter().map(move |kind| sum(kind, key)));
        let said = keys.sum::<f64>() * self.each;
        let truth = if self.truth == NONE { 0.0 } else { told(truth, self.truth) };
        let unit = if self.is_time() { 1e-9 } else { 1.0 };
        Some(Both { said, truth: truth * unit })
    }

    /// Whether it is in seconds.
    pub fn is_time(&self) -> bool {
        self.truth.ends_with("_ns")
    }

    /// Whether a figure is as near as it has to be, on a machine that is so many times slower.
    pub fn holds(&self, both: Both, slowness: f64) -> bool {
        let off = (both.said - both.truth).abs();
        match self.allowed {
            Allowed::Nothing => off == 0.0,
            Allowed::Percent(percent) => off <= both.truth * percent / 100.0 * slowness,
            Allowed::Seconds(seconds) => off <= seconds * slowness,
        }
    }
}

/// A number of the truth.
fn told(truth: &str, key: &str) -> f64 {
    let line = truth.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {key} in {truth}"))
}

fn part_of(key: &str) -> Option<&str> {
    key.strip_prefix("parts.")?.split('.').next()
}

fn is_missing(report: &CallsReport, key: &str) -> bool {
    let part = part_of(key);
    report.subsystems.iter().any(|s| Some(s.name.as_str()) == part && !s.missing.is_empty())
}

fn sum(kind: &CallKind, key: &str) -> f64 {
    let (_, name) = key.rsplit_once('.').unwrap_or_default();
    let number = |numbers: &weigh_schema::call::Numbers| {
        numbers.get(name).map_or(0.0, |number| number.as_f64())
    };
    let Some(part) = part_of(key) else { return number(&kind.later) };
    let parts = kind.parts.iter().filter(|(known, _)| part == ALL || *known == part);
    parts.map(|(_, numbers)| number(numbers)).sum()
}

/// By how many percent the parts of a kind of call differ from its time: the worst of all kinds, and
/// how many there are.
pub fn worst_sum(report: &CallsReport) -> (f64, usize) {
    let off = |kind: &CallKind| {
        let parts: f64 = ON.iter().chain(OFF).map(|key| sum(kind, key)).sum();
        (parts / kind.time_seconds - 1.0).abs() * 100.0
    };
    let taken = report.calls.iter().filter(|kind| kind.time_seconds > 0.0);
    (taken.clone().map(off).fold(0.0, f64::max), taken.count())
}
