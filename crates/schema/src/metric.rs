//! The metrics of the summary, declared once.
//!
//! Everything that names a metric is derived from [`METRICS`]: keys of `summary.json`, columns of
//! the Parquet files, `--limit` names, help, report, `docs/metrics.md`. To add a metric that is a
//! sum of counters, add one entry here; no other file changes.

use serde::{Deserialize, Serialize};

use crate::counter::Counter;
use crate::counter::Counter::*;
use crate::named::named;
use crate::unit::Unit;

named! {
    /// How a metric behaves over time.
    pub enum MetricKind {
        /// Only grows.
        Counter = "counter",
        /// The greatest value of something that goes up and down.
        Peak = "peak",
        /// The least value of something that goes up and down.
        Floor = "floor",
        /// Goes up and down, or is known only at the end.
        Gauge = "gauge",
    }
}

/// The headings under which people look for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Wall-clock time.
    Time,
    /// Processor.
    Cpu,
    /// Memory.
    Memory,
    /// I/O as the program asked for it.
    Io,
    /// I/O that reached a device.
    Storage,
    /// Files and directories.
    Files,
    /// Network.
    Network,
    /// Processes and threads.
    Processes,
    /// Scheduler and page faults.
    Scheduler,
    /// Time spent waiting.
    Waiting,
    /// Graphics processors.
    Gpu,
    /// Temperature, power and energy.
    Power,
}

impl Group {
    /// All groups of the summary, in the order they are shown; power is the node's alone.
    pub const ALL: &'static [Group] = &[
        Group::Time,
        Group::Cpu,
        Group::Memory,
        Group::Io,
        Group::Storage,
        Group::Files,
        Group::Network,
        Group::Processes,
        Group::Scheduler,
        Group::Waiting,
        Group::Gpu,
    ];

    /// The heading for people.
    pub const fn title(self) -> &'static str {
        match self {
            Group::Time => "Time",
            Group::Cpu => "CPU",
            Group::Memory => "Memory",
            Group::Io => "I/O by calls",
            Group::Storage => "Storage",
            Group::Files => "Files",
            Group::Network => "Network",
            Group::Processes => "Processes",
            Group::Scheduler => "Scheduler and faults",
            Group::Waiting => "Waiting",
            Group::Gpu => "GPU",
            Group::Power => "Temperature and power",
        }
    }
}

/// How a metric follows from what was collected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Formula {
    /// A sum of raw counters, times a factor; it holds for a process as for the job.
    Sum {
        /// Counters that are added.
        plus: &'static [Counter],
        /// Counters that are taken away.
        minus: &'static [Counter],
        /// What one raw unit is worth in the metric's unit.
        factor: f64,
    },
    /// Known for a process as for the job, by a rule in `account`.
    ProcessRule,
    /// Known for the job only, by a rule in `account`.
    JobRule,
    /// Declared in the contract, and not measured by any collector yet; why.
    NotMeasured(&'static str),
}

/// What the values of a metric are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricScope {
    /// The job, and its processes where the metric is per process.
    Job,
    /// The node as a whole.
    Node,
    /// One of the node's CPUs; beside it the node as a whole.
    Core,
    /// One disk.
    Disk,
    /// One network interface.
    Interface,
    /// One mount of a file system.
    Mount,
    /// One kind of operation on one mount of a network file system.
    Operation,
    /// One sensor of temperature or power.
    Sensor,
    /// One power zone of the CPUs.
    PowerZone,
    /// One GPU.
    Gpu,
    /// One control group that is a job, a unit or a container.
    ControlGroup,
}

impl MetricScope {
    /// Of a metric of the summary: those of the node begin with `node_`.
    const fn of_summary(name: &str) -> MetricScope {
        match name.as_bytes() {
            [b'n', b'o', b'd', b'e', b'_', ..] => MetricScope::Node,
            _ => MetricScope::Job,
        }
    }
}

/// The declaration of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The name users see everywhere.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its behaviour over time.
    pub kind: MetricKind,
    /// What its values are about.
    pub scope: MetricScope,
    /// Its heading.
    pub group: Group,
    /// One line for tables and help.
    pub help: &'static str,
    /// What exactly it counts, from which source, and what it leaves out.
    pub counts: &'static str,
    /// How it follows from what was collected.
    pub formula: Formula,
    /// Whether its development over time is kept in `series.parquet`, and under which name
    /// (a peak's series is the quantity it is the peak of).
    pub series: Option<&'static str>,
}

impl Metric {
    /// Whether a limit can be set on it: it is the job's own, and only grows, or is a peak or a floor.
    pub fn can_be_limited(&self) -> bool {
        !matches!(self.kind, MetricKind::Gauge) && !self.is_of_node()
    }

    /// Whether a value is past a limit: greater; of a floor, less.
    pub fn is_past(&self, value: f64, limit: f64) -> bool {
        match self.kind {
            MetricKind::Floor => value < limit,
            _ => value > limit,
        }
    }

    /// Whether it is about the whole machine, and so nothing that a mechanism knows of the job.
    pub fn is_of_node(&self) -> bool {
        self.scope != MetricScope::Job
    }

    /// Whether each process has its own value.
    pub fn is_per_process(&self) -> bool {
        matches!(self.formula, Formula::Sum { .. } | Formula::ProcessRule)
    }
}

/// The metric of the summary of that name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| m.name == name)
}

/// What people call a metric who have not looked its name up.
const COMMON_WORDS: &[(&str, &str)] = &[
    ("cpu", "cpu_seconds"),
    ("cputime", "cpu_seconds"),
    ("cpus", "cpu_cores_peak"),
    ("cores", "cpu_cores_peak"),
    ("disk", "disk_footprint_peak_bytes"),
    ("diskfree", "disk_free_least_bytes"),
    ("freespace", "disk_free_least_bytes"),
    ("inodes", "disk_free_inodes_least"),
    ("mem", "memory_peak_bytes"),
    ("memory", "memory_peak_bytes"),
    ("pids", "processes_peak"),
    ("procs", "processes_peak"),
    ("ram", "memory_peak_bytes"),
    ("rss", "memory_peak_bytes"),
    ("swap", "memory_peak_swap_bytes"),
    ("time", "wall_seconds"),
    ("timeout", "wall_seconds"),
    ("vmem", "memory_peak_virtual_bytes"),
    ("wall", "wall_seconds"),
    ("walltime", "wall_seconds"),
];

/// The metrics whose names are most like `name`, best first: for "did you mean".
pub fn nearest_metrics(name: &str) -> Vec<&'static str> {
    match metric_of_word(name) {
        Some(metric) => vec![metric],
        None => nearest(name, METRICS.iter().map(|metric| metric.name)),
    }
}

/// The metric that people mean by a common word, such as `mem` or `timeout`.
pub fn metric_of_word(word: &str) -> Option<&'static str> {
    let plain: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_ascii_lowercase();
    COMMON_WORDS.iter().find(|(word, _)| *word == plain).map(|(_, metric)| *metric)
}

/// The names that are most like `name`, best first, three at most: for "did you mean".
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(usize, &'a str)> = known
        .into_iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (name.len() / 3).max(1) || (name.len() >= 4 && candidate.contains(name))
        })
        .collect();
    scored.sort();
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Letters that are added, left out, replaced, or exchanged with their neighbour.
fn edit_distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.chars().take(128).collect::<Vec<char>>();
    let (a, b) = (letters(a), letters(b));
    let first: Vec<usize> = (0..=b.len()).collect();
    let mut rows = [first.clone(), first];
    for (i, letter) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let substituted = rows[1][j] + usize::from(letter != other);
            let mut least = substituted.min(row[j] + 1).min(rows[1][j + 1] + 1);
            if i > 0 && j > 0 && *letter == b[j - 1] && a[i - 1] == *other {
                least = least.min(rows[0][j - 1] + 1);
            }
            row.push(least);
        }
        rows.swap(0, 1);
        rows[1] = row;
    }
    rows[1][b.len()]
}

const NANOSECOND: f64 = 1e-9;

const NEEDS_PAGE_CACHE: Formula =
    Formula::NotMeasured("it needs probes in the page cache, which --io has");

const fn sum(plus: &'static [Counter], factor: f64) -> Formula {
    Formula::Sum { plus, minus: &[], factor }
}

macro_rules! metrics {
    ($( $name:ident : $kind:ident $unit:ident in $group:ident, $formula:expr
        $(, series $series:literal)? ; help $help:literal counts $counts:literal )+) => {
        /// Every metric of the summary, in the order it is shown.
        pub const METRICS: &[Metric] = &[$( Metric {
            name: stringify!($name),
            unit: Unit::$unit,
            kind: MetricKind::$kind,
            scope: MetricScope::of_summary(stringify!($name)),
            group: Group::$group,
            help: $help,
            counts: $counts,
            formula: $formula,
            series: metrics!(@series $($series)?),
        }, )+];

        /// The names of all metrics, each under itself: code that names one by it cannot mistype it.
        #[allow(non_upper_case_globals)]
        pub mod metric_name {
            $( #[doc = $help] pub const $name: &str = stringify!($name); )+
        }
    };
    (@series $series:literal) => { Some($series) };
    (@series) => { None };
}

metrics! {
    wall_seconds: Counter Seconds in Time, Formula::ProcessRule;
        help "time from start to end"
        counts "Monotonic time (running on while the machine sleeps) from the moment the command is executed until the last process of the job has ended, or until the main process has ended with `--wait-for main`."

    cpu_seconds: Counter Seconds in Cpu, sum(&[Runtime], NANOSECOND), series "cpu_seconds";
        help "CPU time of all threads"
        counts "Time on a CPU of every thread of the job, from the scheduler's nanosecond clock (`task->se.sum_exec_runtime`), read when the thread has been reaped, so that its own exit is included."
    cpu_user_seconds: Counter Seconds in Cpu, Formula::ProcessRule;
        help "CPU time in the program"
        counts "The part of `cpu_seconds` spent in user mode. Linux splits the two by what each timer tick meets (`task->utime`, `task->stime`), scaled to the exact total, as getrusage(2) does."
    cpu_system_seconds: Counter Seconds in Cpu, Formula::ProcessRule;
        help "CPU time in the kernel"
        counts "The part of `cpu_seconds` spent in the kernel; see `cpu_user_seconds`."
    cpu_cores_average: Gauge Cores in Cpu, Formula::ProcessRule;
        help "CPUs kept busy, on average"
        counts "`cpu_seconds` divided by `wall_seconds`."
    cpu_cores_peak: Peak Cores in Cpu, Formula::JobRule, series "cpu_cores";
        help "CPUs kept busy, at most"
        counts "The greatest `cpu_seconds` used in a window of 1 s, or of `--interval`, divided by the time. The last window is as long as the job went on; one shorter than 9 ms says nothing."
    cpu_instructions_total: Counter Count in Cpu, Formula::JobRule;
        help "instructions executed"
        counts "Instructions retired in user mode and the kernel, from the CPU's own counter, inherited by every thread of the job. Where the counter had to be shared, scaled, and then `estimated`."
    cpu_cycles_total: Counter Count in Cpu, Formula::JobRule;
        help "CPU cycles"
        counts "Core cycles in user mode and the kernel, from the CPU's own counter."
    cpu_cache_misses_total: Counter Count in Cpu, Formula::JobRule;
        help "last-level cache misses"
        counts "Cache misses as the CPU's generic cache-miss event defines them (usually the last level)."

    memory_peak_bytes: Peak Bytes in Memory, Formula::JobRule, series "memory_bytes";
        help "greatest memory held at one moment, shared pages counted once"
        counts "The greatest sum, at one moment, of the resident memory of all processes of the job, memory that they share counted once. Followed at every update of the kernel's own counters (`kmem:rss_stat`). Pages can only be shared through a file, through shared memory, or by a fork; the kernel side keeps a lower bound without any of these besides an upper bound with all. Where the two meet within 1 % the value is exact. Where they do not, the pages are looked at (`/proc/PID/pagemap`) when a new peak is reached, and the reason gives the bounds; without such a look near the peak, what a fork inherited is counted once, and the value is `estimated`. Processes that use one address space (after vfork, or clone with CLONE_VM) hold it once. What no process maps is in no resident size and not in it: files in memory (memfd, tmpfs, /dev/shm) that are written and read without a mapping, and page cache; `memory_peak_cgroup_bytes` has them. Nor are huge pages of hugetlbfs: see `memory_peak_hugetlb_bytes`; where there were any the value is not exact."
    memory_peak_anonymous_bytes: Gauge Bytes in Memory, Formula::JobRule;
        help "anonymous memory in the peak"
        counts "Of `memory_peak_bytes`, at the moment of the peak: heap, stacks and what else belongs to no file. With `memory_peak_shared_bytes` it is what the job cannot do without: the kernel can only swap it out. With fewer bytes (and no swap) the job would not have lived; how much more it needs depends on how often it comes back to its files. Exact where `memory_peak_bytes` is; else memory that was counted more than once is taken from what can be shared. Where the kernel does not follow the job, as it was at the look that found the greatest sum."
    memory_peak_shared_bytes: Gauge Bytes in Memory, Formula::JobRule;
        help "shared memory in the peak"
        counts "Of `memory_peak_bytes`, at the moment of the peak: mapped pages of shared anonymous memory, System V segments, memfd and tmpfs. See `memory_peak_anonymous_bytes`."
    memory_peak_file_bytes: Gauge Bytes in Memory, Formula::JobRule;
        help "file pages in the peak, which the kernel can take back"
        counts "Of `memory_peak_bytes`, at the moment of the peak: mapped pages of files on storage, programs and libraries included. The kernel can drop them, or write them back, and read them again when they are needed. See `memory_peak_anonymous_bytes`."
    memory_peak_hugetlb_bytes: Peak Bytes in Memory, Formula::JobRule;
        help "greatest sum of huge pages of hugetlbfs seen"
        counts "The greatest sum seen of the huge pages of hugetlbfs (MAP_HUGETLB, SHM_HUGETLB, files of a hugetlbfs) that the job's address spaces have mapped; a page that several map counts for each. They are in no resident size, so in no other value but that of a control group's own controller. Looked at (`mm->hugetlb_usage`) when a resident size changes, at each sample and when a process ends; without BPF in `/proc/PID/status` now and then. Transparent huge pages are ordinary memory, and in `memory_peak_bytes`."
    memory_peak_rss_sum_bytes: Peak Bytes in Memory, Formula::JobRule, series "memory_rss_sum_bytes";
        help "greatest sum of resident sizes at one moment"
        counts "The greatest sum, at one moment, of the resident sizes of all processes of the job; memory that n processes share is counted n times, but an address space that they share (vfork, CLONE_VM) once. Followed at every update of the kernel's own counters. On kernels from 6.2 on a counter is spread over the CPUs and an update is seen when a CPU's share passes its batch (max(32, 2 × CPUs) pages); it is then read exactly."
    memory_peak_process_rss_bytes: Peak Bytes in Memory, Formula::ProcessRule;
        help "greatest resident size of a single process"
        counts "The greatest resident size (file, anonymous and shared memory pages) that any one process of the job reached, in whatever program. Where the kernel does not follow the job it is the kernel's own mark (`ru_maxrss`, VmHWM). Since Linux 6.2 that is off by up to 3 × CPUs × (max(32, 2 × CPUs) - 1) pages, as each CPU adds to a resident size in batches, and before by 65 × 64 KiB a thread, for each keeps back what its last page faults added: where this is more than 1 %, or the number of threads is not known, the value is `estimated`, and its reason has the bytes; so are sums that are made of such marks. In the table of processes: that of the program that the process ended as; what it held before it executed that, such as the copy of the memory of who started it, is not in it, nor is memory that it only used as the guest of another process (after vfork, or clone with CLONE_VM): then it is null."
    memory_peak_cgroup_bytes: Peak Bytes in Memory, Formula::JobRule;
        help "greatest memory charged to the job's control group"
        counts "The peak that the memory controller recorded for a control group that holds the job and nothing else (`memory.peak`, or `memory.max_usage_in_bytes`); page cache and kernel memory included."
    memory_peak_virtual_bytes: Peak Bytes in Memory, Formula::ProcessRule, series "memory_virtual_bytes";
        help "greatest sum of virtual sizes seen"
        counts "For a process: the greatest size of its address space (the kernel's own high-water mark). For the job: the greatest sum, at one moment, of these sizes, looked at whenever a resident size changes."
    memory_peak_swap_bytes: Peak Bytes in Memory, Formula::ProcessRule, series "memory_swap_bytes";
        help "greatest sum of swapped-out memory at one moment"
        counts "The greatest sum, at one moment, of the swap entries of all processes of the job, from the same counter updates."

    oom_kills_total: Counter Count in Memory, Formula::JobRule;
        help "processes killed for want of memory"
        counts "Processes of the job that the kernel killed for want of memory, of the machine or of a control group, whether or not the job went on without them; the reason names them. Followed at each end: a process counts that had been chosen (`signal->oom_mm`) and died of SIGKILL. Without BPF: the count of the job's own control group (`--cgroup`), or none where the machine's own count (`oom_kill` in `/proc/vmstat`) has not changed meanwhile."

    io_read_bytes_total: Counter Bytes in Io, sum(&[ReadChars, SocketReadChars, UringReadChars, OtherReadChars], 1.0), series "io_read_bytes_total";
        help "bytes read by calls"
        counts "Bytes returned by read, pread, readv, preadv, sendfile, copy_file_range (the kernel's `rchar`), by recv, recvfrom, recvmsg and recvmmsg, by io_uring requests, and, where function probes work, by splice, tee, vmsplice and AIO. Where those cannot be counted it is `estimated`, unless `--io` by BPF, or a limit that is checked at each call, has seen that there were none. Of io_uring requests for which a program asks no completion (IOSQE_CQE_SKIP_SUCCESS) the kernel tells nothing: where there are any it is `estimated`. Files, pipes, terminals, sockets alike; reads through mmap are not calls and not in it."
    io_written_bytes_total: Counter Bytes in Io, sum(&[WriteChars, SocketWriteChars, UringWriteChars, OtherWriteChars], 1.0), series "io_written_bytes_total";
        help "bytes written by calls"
        counts "Bytes accepted by write, pwrite, writev, pwritev, sendfile, copy_file_range (the kernel's `wchar`), by send, sendto, sendmsg and sendmmsg, by io_uring requests, and, where function probes work, by splice, tee, vmsplice and AIO; `estimated` as `io_read_bytes_total`."
    io_read_calls_total: Counter Count in Io, sum(&[ReadCalls, SocketReadCalls, UringReadCalls, OtherReadCalls], 1.0);
        help "read calls"
        counts "Calls counted in `io_read_bytes_total`, whether or not they returned anything (the kernel's `syscr`), io_uring requests that read. A recv, recvfrom or recvmsg that fails on a socket is a call; of recvmmsg each message is one; a splice, tee or vmsplice that fails is none."
    io_write_calls_total: Counter Count in Io, sum(&[WriteCalls, SocketWriteCalls, UringWriteCalls, OtherWriteCalls], 1.0);
        help "write calls"
        counts "Calls counted in `io_written_bytes_total` (the kernel's `syscw`), io_uring requests that wrote; those of sockets and pipes as in `io_read_calls_total`."

    mmap_read_bytes_total: Counter Bytes in Io, NEEDS_PAGE_CACHE;
        help "bytes read through mmap"
        counts "Bytes of pages that came into the page cache because a mapping was touched, read-ahead included; what the cache had already is not in it. With `--io`, which follows the page cache."
    mmap_written_bytes_total: Counter Bytes in Io, NEEDS_PAGE_CACHE;
        help "bytes written through mmap"
        counts "Bytes of pages that became dirty because a mapping was written to; further stores into a page that is dirty are not in it. With `--io`, which follows the page cache."

    storage_read_bytes_total: Counter Bytes in Storage, sum(&[StorageRead], 1.0), series "storage_read_bytes_total";
        help "bytes fetched from storage"
        counts "Bytes of block I/O that the job's threads submitted to fetch data, read-ahead included (`task->ioac.read_bytes`)."
    storage_written_bytes_total: Counter Bytes in Storage, sum(&[StorageWritten], 1.0), series "storage_written_bytes_total";
        help "bytes caused to be written to storage, now or later"
        counts "Bytes of pages that the job made dirty on files with a backing store, and of direct writes (`task->ioac.write_bytes`). To the page; charged when the page becomes dirty, whatever writes it back. Journals and metadata of the file system are not in it. What is truncated or deleted before it is written does not reach storage, but the kernel charges that (`cancelled_write_bytes`) to who deletes, not to who wrote: it may be an earlier program's. So it is not taken away; where there is any, the value is `estimated`, and the reason says how much it is at most. With `--written` (root, or `weigh agent` running), each page of a file is followed until the device has it, by the accounts of `weigh calls`: then a page is counted each time that it is written, whatever has it written; what is deleted before is not counted; what is in memory still at the end is, and the reason says how much that is; what workers of io_uring write directly is not."

    files_opened_total: Counter Count in Files, sum(&[FilesOpened], 1.0), series "files_opened_total";
        help "files opened"
        counts "Successful opens of files, devices, and directories, by open-like calls and by executing a program. With function probes every open is counted; with fanotify the kernel may merge repeated opens of one file by one process while they wait to be read."
    disk_footprint_peak_bytes: Peak Bytes in Files, Formula::JobRule, series "disk_footprint_bytes";
        help "greatest space taken by files in the watched directories"
        counts "The greatest sum of allocated space (512-byte blocks, hard links once, mount points not crossed) of all files under the working directory, or under each `--watch DIR`, at one scan, without what weigh itself writes there. What was there before the command began is in it; the reason says how much that was. The first scan is made before the command begins; the next ones follow 5 to 100 ms apart and take at most 1 % of one CPU; with a limit at most 20 ms apart, if they take less than 20 % of one CPU for that."
    disk_growth_peak_bytes: Peak Bytes in Files, Formula::JobRule, series "disk_growth_bytes";
        help "greatest space taken beyond what was there before"
        counts "By how much the space of the watched directories (see `disk_footprint_peak_bytes`) was greater at one scan, at most, than at the scan before the command began. It is the growth of the directories: what others write there is in it, and what the job deletes of what was there makes room. Where there is too much to be scanned in 5 ms before the command begins, what was there before is what the file system says to be older. It is exact where `--io` has seen, by BPF or by ptrace, that no call of the job can have freed space, on ext2 to ext4 and tmpfs: then the scan after the job's end is the greatest. Else it is estimated: a file that comes and goes between two scans is not in it, for the kernel tells nobody of the space that file systems of every type allocate and free. What other programs change there meanwhile is not followed."
    disk_files_peak: Peak Count in Files, Formula::JobRule, series "disk_files";
        help "greatest number of files in the watched directories"
        counts "The greatest number of files and directories under the watched directories at one scan."

    disk_free_least_bytes: Floor Bytes in Files, Formula::JobRule, series "disk_free_bytes";
        help "least free space on a file system of the job"
        counts "The least space that ordinary users could have (statvfs(2): `f_bavail`) at one look on any of the file systems of the job: those of the working directory, of `TMPDIR` where that is set, of folders of `--watch`, of the recording, and with `--io` those that it wrote files on. The first look is made before the command begins; the next ones follow 5 to 250 ms apart, with a limit at most 20 ms; the last is made after its end. What others take there counts as well. A file system of another machine or of a program (FUSE) is looked at by a thread that nobody waits for. A limit on it is the least that is allowed. `file_systems` of the summary has each of them, at the start, at the least and at the end."
    disk_free_inodes_least: Floor Count in Files, Formula::JobRule;
        help "least free inodes on a file system of the job"
        counts "As `disk_free_least_bytes`, of inodes (`f_favail`): each file and directory takes one. File systems that make them as they are needed are not in it."

    net_sent_bytes_total: Counter Bytes in Network, sum(&[NetSent], 1.0), series "net_sent_bytes_total";
        help "bytes sent over the network"
        counts "Payload bytes that the job handed to IPv4 and IPv6 sockets, whatever call was used, loopback included; headers and retransmissions are not in it."
    net_received_bytes_total: Counter Bytes in Network, sum(&[NetReceived], 1.0), series "net_received_bytes_total";
        help "bytes received over the network"
        counts "Payload bytes that the job took from IPv4 and IPv6 sockets; bytes only peeked at are not in it, nor, by BPF, those that splice(2) and TCP_ZEROCOPY_RECEIVE take: where there are any it is `estimated`, and the reason says how many."
    net_connections_total: Counter Count in Network, sum(&[NetConnections], 1.0);
        help "TCP connections opened or accepted"
        counts "TCP connections that reached the established state, started by a thread of the job or come in on a port the job listens on."
    net_retransmits_total: Counter Count in Network, sum(&[NetRetransmits], 1.0);
        help "TCP segments sent again"
        counts "TCP segments retransmitted on sockets that the job has connected, accepted or sent on."

    processes_total: Counter Count in Processes, Formula::JobRule, series "processes_total";
        help "processes ever seen"
        counts "Processes of the job, the command itself included; a thread is not a process, an exec does not make a new one."
    processes_peak: Peak Count in Processes, Formula::JobRule, series "processes";
        help "processes alive at one moment, at most"
        counts "The greatest number of processes of the job alive at one moment, followed at every fork and exit."
    threads_peak: Peak Count in Processes, Formula::JobRule, series "threads";
        help "threads alive at one moment, at most"
        counts "The greatest number of threads of the job alive at one moment, followed at every clone and exit."

    context_switches_voluntary_total: Counter Count in Scheduler, sum(&[VoluntarySwitches], 1.0);
        help "times a thread gave up the CPU"
        counts "`task->nvcsw` of every thread."
    context_switches_involuntary_total: Counter Count in Scheduler, sum(&[InvoluntarySwitches], 1.0);
        help "times a thread lost the CPU"
        counts "`task->nivcsw` of every thread."
    page_faults_minor_total: Counter Count in Scheduler, sum(&[MinorFaults], 1.0);
        help "page faults without I/O"
        counts "`task->min_flt` of every thread."
    page_faults_major_total: Counter Count in Scheduler, sum(&[MajorFaults], 1.0);
        help "page faults with I/O"
        counts "`task->maj_flt` of every thread."

    delay_cpu_seconds: Counter Seconds in Waiting, sum(&[RunDelay], NANOSECOND);
        help "time runnable without a CPU"
        counts "Time that threads were ready to run and waited for a CPU (`task->sched_info.run_delay`), summed over threads. What a CPU quota of the job's own control group kept from them is in it: see `delay_cpu_throttled_seconds`."
    delay_cpu_throttled_seconds: Gauge Seconds in Waiting, Formula::JobRule;
        help "time runnable while a CPU quota was used up"
        counts "The part of `delay_cpu_seconds` for which a CPU quota of the control groups that the command began in was used up: on an otherwise idle machine all of it. The kernel counts (`cpu.stat`: `throttled_usec`, in version 1 `throttled_time`) for how long each CPU was kept from a group, not how many threads waited there: so it is `estimated`, and the reason states the interval; what else runs in the same group is in it. Exactly 0 where no group that can be seen was throttled."
    delay_cpu_own_seconds: Gauge Seconds in Waiting, Formula::JobRule;
        help "time runnable while the job's own threads had the CPU"
        counts "The part of `delay_cpu_seconds` for which threads of the job itself had the CPU that the thread was queued on. Needs BPF, root and `--delays`: a look at each switch between threads, for which every switch of the machine pays. `exact` where this part, that of others and the time for which nobody had the CPU add up to the kernel's own `delay_cpu_seconds` within 1 %."
    delay_cpu_others_seconds: Gauge Seconds in Waiting, Formula::JobRule;
        help "time runnable while others had the CPU"
        counts "The part of `delay_cpu_seconds` for which threads that are not of the job had the CPU that the thread was queued on; interrupts are in the time of the thread that they interrupt. Known where `delay_cpu_own_seconds` is. What is left of `delay_cpu_seconds` is time for which nobody had the CPU: a quota was used up, or an idle CPU was on its way to the thread; the reason states it. Where a quota was used up others may have had the CPU meanwhile: then it is `estimated`, and the reason states how much of it `delay_cpu_throttled_seconds` may have as well."
    delay_cpu_stolen_seconds: Gauge Seconds in Waiting, Formula::JobRule;
        help "time that the host kept from this virtual machine"
        counts "Time for which the host of this virtual machine ran something else on a CPU that the machine wanted (`steal` in `/proc/stat`), of all CPUs, while the job ran: what the job may have lost is at most that. It is in no other delay: the machine does not know that it waits."
    delay_block_seconds: Counter Seconds in Waiting, sum(&[BlockDelay], NANOSECOND);
        help "time waiting for block I/O"
        counts "Time that threads waited for block I/O (`task->delays->blkio_delay`), summed over threads. `estimated`: Linux 6.18 was seen to count some waits far too long, often as long as the machine was up, and `/proc/PID/stat` has the same; a sum beyond what all threads can have waited is `unavailable`. Needs the kernel's delay accounting (`sysctl kernel.task_delayacct=1`, or `--delays`)."
    delay_reclaim_seconds: Counter Seconds in Waiting, sum(&[ReclaimDelay], NANOSECOND);
        help "time reclaiming memory"
        counts "Time that threads had to free memory before they got any (`task->delays->freepages_delay`). Needs the kernel's delay accounting."
    delay_swapin_seconds: Counter Seconds in Waiting, sum(&[SwapinDelay], NANOSECOND);
        help "time waiting for swapped-out memory"
        counts "Time that threads waited for pages to come back from swap (`task->delays->swapin_delay`). Needs the kernel's delay accounting."

    node_pressure_cpu_some_seconds_total: Counter Seconds in Waiting, Formula::JobRule;
        help "time that something on the machine waited for a CPU"
        counts "Time, while the job ran, for which at least one thread of the whole machine was ready to run and waited for a CPU (`total` of the line `some` in `/proc/pressure/cpu`): other jobs and weigh itself are in it. The kernel keeps it for each CPU and weights CPUs by the time for which they were not idle. Read just before the command begins and just after the job has ended. Needs a kernel with CONFIG_PSI, on some started with psi=1."
    node_pressure_memory_some_seconds_total: Counter Seconds in Waiting, Formula::JobRule;
        help "time that something on the machine waited for memory"
        counts "As `node_pressure_cpu_some_seconds_total`, of waits for memory: reclaim, swap-in, and pages of files that were dropped and are read again (`/proc/pressure/memory`)."
    node_pressure_memory_full_seconds_total: Counter Seconds in Waiting, Formula::JobRule;
        help "time that all that ran on the machine waited for memory"
        counts "The part of `node_pressure_memory_some_seconds_total` for which no thread that was not idle did anything else (the line `full`)."
    node_pressure_io_some_seconds_total: Counter Seconds in Waiting, Formula::JobRule;
        help "time that something on the machine waited for I/O"
        counts "As `node_pressure_cpu_some_seconds_total`, of waits for block I/O (`/proc/pressure/io`)."
    node_pressure_io_full_seconds_total: Counter Seconds in Waiting, Formula::JobRule;
        help "time that all that ran on the machine waited for I/O"
        counts "The part of `node_pressure_io_some_seconds_total` for which no thread that was not idle did anything else (the line `full`)."

    gpu_memory_peak_bytes: Peak Bytes in Gpu, Formula::JobRule, series "gpu_memory_bytes";
        help "greatest GPU memory held"
        counts "The greatest sum of GPU memory that NVML reports for processes of the job, over all GPUs, at one sample. Checked on an H200: equal to what nvidia-smi says of one process, of two at once, and of an ordinary user's."
    gpu_seconds: Counter Seconds in Gpu, Formula::JobRule, series "gpu_seconds";
        help "time of GPUs"
        counts "Time for which GPUs worked for processes of the job, summed over processes and over engines. Of GPUs of the kernel's DRM what their drivers count for each client (`drm-engine-*` in `fdinfo`; `drm-cycles-*` of xe): `sampled`, for what a client did after the last look at it is not seen. Of NVIDIA's the utilization that NVML reports for each process, times the time between two looks: `estimated`. Where the driver keeps accounts (`nvidia-smi -am 1`), what these say of a process after its end. Not run on a real one."
    gpu_utilization_ratio: Gauge Ratio in Gpu, Formula::JobRule, series "gpu_utilization_ratio";
        help "GPU use while the job held one"
        counts "Average over the samples of the utilization that NVML reports for the GPUs on which the job has a process; other jobs on the same GPU are in it."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_metric::NODE_METRICS;

    #[test]
    fn names_are_unique_and_end_in_their_unit() {
        let mut seen = std::collections::HashSet::new();
        for m in METRICS.iter().chain(NODE_METRICS.iter().copied()) {
            assert!(seen.insert(m.name), "{} is declared twice", m.name);
            let stem = m.name.strip_suffix("_total").unwrap_or(m.name);
            match m.unit {
                Unit::Bytes => assert!(stem.ends_with("_bytes"), "{}", m.name),
                Unit::Seconds => assert!(stem.ends_with("_seconds"), "{}", m.name),
                Unit::Ratio => assert!(stem.ends_with("_ratio"), "{}", m.name),
                Unit::Celsius => assert!(stem.ends_with("_celsius"), "{}", m.name),
                Unit::Watts => assert!(stem.ends_with("_watts"), "{}", m.name),
                Unit::Joules => assert!(stem.ends_with("_joules"), "{}", m.name),
                Unit::Threads => assert!(stem.ends_with("_threads"), "{}", m.name),
                Unit::Cores | Unit::Count => {}
            }
        }
    }

    #[test]
    fn the_nodes_metrics_say_so() {
        for m in NODE_METRICS {
            assert!(m.is_of_node() && m.name.starts_with("node_"), "{}", m.name);
            assert!(!m.can_be_limited() && crate::metric(m.name).is_some(), "{}", m.name);
        }
    }

    #[test]
    fn a_total_is_a_counter() {
        for m in METRICS.iter().filter(|m| m.name.ends_with("_total")) {
            assert_eq!(m.kind, MetricKind::Counter, "{}", m.name);
        }
    }

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        assert_eq!(nearest_metrics("memory_peek_bytes")[0], "memory_peak_bytes");
        assert!(nearest_metrics("zzzzzzzz").is_empty());
    }

    #[test]
    fn exchanged_letters_are_one_mistake_and_short_words_bear_one() {
        assert_eq!(nearest("bfp", ["auto", "bpf", "poll"]), ["bpf"]);
        assert_eq!(nearest("rnu", ["io", "run", "top"]), ["run"]);
        assert!(nearest("foo", ["io", "kernel", "top"]).is_empty());
    }
}
