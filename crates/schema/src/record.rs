//! Records that the BPF programs write of a job, declared once: the header that the programs are compiled with is
//! derived from it, and user space reads records by the same fields.
//!
//! Fields lie one behind the other without gaps, and the compiler of the programs holds them to that. What is as
//! long as its record says (arguments, a path) stands last, and is what reading the fields before it leaves.

mod field;

use std::fmt::Write as _;

use crate::counter::{Counter, CounterValues};
pub use field::Field;

/// Room for the arguments of a program.
pub const MAX_ARGUMENT_BYTES: usize = 4096;
/// Room for the return addresses of a stack.
pub const MAX_STACK_FRAMES: usize = 48;
/// Room for a path.
pub const MAX_PATH_BYTES: usize = 4096;
/// Room for the kernel's name of a process.
pub const NAME_BYTES: usize = 16;

macro_rules! rust_type {
    (number32) => {
        u32
    };
    (number64) => {
        u64
    };
    (signed64) => {
        i64
    };
    (name) => {
        [u8; NAME_BYTES]
    };
    (counters) => {
        CounterValues
    };
    (stack) => {
        [u64; MAX_STACK_FRAMES]
    };
    (kind) => {
        u32
    };
    (limited) => {
        u32
    };
    (process) => {
        Process
    };
}

/// What stands before and behind a field's name in C.
fn c_type(kind: &str) -> (&'static str, String) {
    match kind {
        "number32" => ("__u32", String::new()),
        "number64" => ("__u64", String::new()),
        "signed64" => ("__s64", String::new()),
        "name" => ("char", format!("[{NAME_BYTES}]")),
        "counters" => ("__u64", format!("[{}]", Counter::COUNT)),
        "stack" => ("__u64", format!("[{MAX_STACK_FRAMES}]")),
        "kind" => ("enum event_kind", String::new()),
        "limited" => ("enum limited", String::new()),
        "process" => ("struct process", String::new()),
        other => unreachable!("{other} has no type in C"),
    }
}

macro_rules! records {
    ($( $(#[doc = $doc:literal])+ struct $name:ident as $c_name:literal {
        $( $(#[doc = $field_doc:literal])+ $field:ident : $kind:ident, )+
        $( ..$rest:ident[$room:ident] )?
    } )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name { $( $(#[doc = $field_doc])+ pub $field: rust_type!($kind), )+ }

            impl Field for $name {
                const BYTES: usize = 0 $( + <rust_type!($kind)>::BYTES )+;

                fn take(record: &mut &[u8]) -> Option<Self> {
                    Some($name { $( $field: Field::take(record)?, )+ })
                }
            }
        )+

        fn structures(header: &mut String) {
            $( structure(
                header,
                $c_name,
                &[$( (stringify!($field), stringify!($kind), <rust_type!($kind)>::BYTES), )+],
                None$( .or(Some((stringify!($rest), $room))) )?,
            ); )+
        }
    };
}

records! {
    /// A process, living or ended: what the kernel side keeps of it. Memory is in bytes, time in nanoseconds since boot.
    struct Process as "process" {
        /// Its counters.
        counters: counters,
        /// When it began.
        started: number64,
        /// When it ended; 0 while it lives.
        ended: number64,
        /// Its address space.
        mm: number64,
        /// The number of that among the job's.
        mm_id: number64,
        /// Greatest resident size.
        rss_peak: signed64,
        /// Greatest size of its address space.
        virtual_peak: signed64,
        /// Greatest size in swap.
        swap_peak: signed64,
        /// Its job.
        job: number32,
        /// Its number, as the PID namespace of the job's first process sees it.
        pid: number32,
        /// Its parent's.
        parent: number32,
        /// Its user.
        uid: number32,
        /// How it ended, as wait4(2) says it.
        wait_status: number32,
        /// Its living threads.
        threads: number32,
        /// Threads whose last accounting is still to come.
        unsettled: number32,
        /// How often it has executed a program.
        execs: number32,
        /// Whether it has executed a program that gained rights.
        is_apart: number32,
        /// Nothing.
        unused: number32,
        /// The kernel's name for it.
        name: name,
    }

    /// A process has ended.
    struct ProcessEnd as "process_end" {
        /// [`EventKind::ProcessEnd`].
        kind: kind,
        /// Nothing.
        unused: number32,
        /// Which.
        process: process,
    }

    /// A process executes a program. Its arguments follow.
    struct Exec as "exec" {
        /// [`EventKind::Exec`].
        kind: kind,
        /// The process.
        pid: number32,
        /// When.
        at: number64,
        /// Bytes of the arguments that could be read.
        length: number32,
        /// Bytes of all arguments.
        total: number32,
        ..arguments[MAX_ARGUMENT_BYTES]
    }

    /// A new peak of the job's memory, or how a limit was crossed.
    struct Crossing as "crossing" {
        /// [`EventKind::Peak`], [`EventKind::Limit`], [`EventKind::Warning`] or [`EventKind::Empty`].
        kind: kind,
        /// A [`Limited`].
        limited: limited,
        /// When.
        at: number64,
        /// The job's resident size.
        rss: signed64,
        /// The lower bound of its memory.
        floor: signed64,
        /// The value that was too great.
        observed: signed64,
        /// The process that made the last step; 0 if it was none of the job's.
        pid: number32,
        /// The thread.
        tid: number32,
        /// Whether it was stopped at that point.
        held: number32,
        /// How many addresses the stack has.
        frames: number32,
        /// Return addresses on its user stack, innermost first.
        stack: stack,
    }

    /// A process has opened a file for the first time. The path follows.
    struct FileOpened as "file_opened" {
        /// [`EventKind::File`].
        kind: kind,
        /// The process.
        pid: number32,
        /// The key of the process.
        process: number64,
        /// The file's inode.
        inode: number64,
        /// Its device.
        device: number64,
        /// Bytes of the path.
        length: number32,
        ..path[MAX_PATH_BYTES]
    }
}

macro_rules! numbered {
    ($( $(#[doc = $doc:literal])+ enum $name:ident as $c_name:literal {
        $( $(#[doc = $variant_doc:literal])+ $variant:ident as $c_variant:literal = $number:literal, )+
    } )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $name { $( $(#[doc = $variant_doc])+ $variant = $number, )+ }

            impl $name {
                /// All of them.
                pub const ALL: &'static [$name] = &[$( $name::$variant, )+];

                /// The one with that number.
                pub fn numbered(number: u32) -> Option<$name> {
                    Self::ALL.iter().copied().find(|known| *known as u32 == number)
                }
            }
        )+

        fn enumerations(header: &mut String) {
            $(
                let _ = writeln!(header, "enum {} {{", $c_name);
                $( let _ = writeln!(header, "\t{} = {},", $c_variant, $number); )+
                header.push_str("};\n");
            )+
        }
    };
}

numbered! {
    /// What a record tells.
    enum EventKind as "event_kind" {
        /// [`ProcessEnd`].
        ProcessEnd as "EVENT_PROCESS_END" = 1,
        /// [`Exec`].
        Exec as "EVENT_EXEC" = 2,
        /// A [`Crossing`]: memory has not been as great before.
        Peak as "EVENT_PEAK" = 3,
        /// A [`Crossing`]: a limit is.
        Limit as "EVENT_LIMIT" = 4,
        /// A [`Crossing`]: a limit is near.
        Warning as "EVENT_WARNING" = 5,
        /// A [`Crossing`]: the job has no process any more.
        Empty as "EVENT_EMPTY" = 6,
        /// [`FileOpened`].
        File as "EVENT_FILE" = 7,
    }

    /// What a limit can be set on with the check made in the kernel.
    enum Limited as "limited" {
        /// Nothing is.
        Nothing as "LIMITED_NOTHING" = 0,
        /// Memory.
        Memory as "LIMITED_MEMORY" = 1,
        /// The sum of resident sizes.
        RssSum as "LIMITED_RSS_SUM" = 2,
        /// The resident size of one process.
        ProcessRss as "LIMITED_PROCESS_RSS" = 3,
        /// What is in swap.
        Swap as "LIMITED_SWAP" = 4,
        /// Sizes of address spaces.
        Virtual as "LIMITED_VIRTUAL" = 5,
        /// Processes that ever were.
        ProcessesTotal as "LIMITED_PROCESSES_TOTAL" = 6,
        /// Processes at one moment.
        Processes as "LIMITED_PROCESSES" = 7,
        /// Threads at one moment.
        Threads as "LIMITED_THREADS" = 8,
        /// Bytes read by calls.
        ReadBytes as "LIMITED_READ_BYTES" = 9,
        /// Bytes written by calls.
        WrittenBytes as "LIMITED_WRITTEN_BYTES" = 10,
        /// Calls that read.
        ReadCalls as "LIMITED_READ_CALLS" = 11,
        /// Calls that write.
        WriteCalls as "LIMITED_WRITE_CALLS" = 12,
        /// Bytes fetched from storage.
        StorageRead as "LIMITED_STORAGE_READ" = 13,
        /// Bytes that go to storage.
        StorageWritten as "LIMITED_STORAGE_WRITTEN" = 14,
        /// Bytes sent over the network.
        NetSent as "LIMITED_NET_SENT" = 15,
        /// Bytes received over the network.
        NetReceived as "LIMITED_NET_RECEIVED" = 16,
    }
}

/// Of which metrics limits are checked in the kernel.
const OF_METRICS: [(&str, Limited); 16] = [
    ("memory_peak_bytes", Limited::Memory),
    ("memory_peak_rss_sum_bytes", Limited::RssSum),
    ("memory_peak_process_rss_bytes", Limited::ProcessRss),
    ("memory_peak_swap_bytes", Limited::Swap),
    ("memory_peak_virtual_bytes", Limited::Virtual),
    ("processes_total", Limited::ProcessesTotal),
    ("processes_peak", Limited::Processes),
    ("threads_peak", Limited::Threads),
    ("io_read_bytes_total", Limited::ReadBytes),
    ("io_written_bytes_total", Limited::WrittenBytes),
    ("io_read_calls_total", Limited::ReadCalls),
    ("io_write_calls_total", Limited::WriteCalls),
    ("storage_read_bytes_total", Limited::StorageRead),
    ("storage_written_bytes_total", Limited::StorageWritten),
    ("net_sent_bytes_total", Limited::NetSent),
    ("net_received_bytes_total", Limited::NetReceived),
];

impl Limited {
    /// What is limited by a metric, if the kernel side checks that.
    pub fn of_metric(metric: &str) -> Option<Limited> {
        OF_METRICS.iter().find(|(name, _)| *name == metric).map(|(_, limited)| *limited)
    }

    /// Whether the check is made at the end of each system call. What is moved without a call has to be looked for
    /// besides.
    pub fn is_of_calls(self) -> bool {
        self as u32 >= Limited::ReadBytes as u32
    }

    /// The metric.
    pub fn metric(self) -> Option<&'static str> {
        OF_METRICS.iter().find(|(_, limited)| *limited == self).map(|(name, _)| *name)
    }
}

/// The header of the BPF programs, which have `__u32` and its like from elsewhere.
pub fn c_header() -> String {
    let mut header = String::from("/* Derived from crates/schema/src/record.rs. */\n");
    for (name, value) in [
        ("MAX_ARGUMENT_BYTES", MAX_ARGUMENT_BYTES),
        ("MAX_STACK_FRAMES", MAX_STACK_FRAMES),
        ("MAX_PATH_BYTES", MAX_PATH_BYTES),
        ("N_LIMITED", Limited::ALL.len()),
    ] {
        let _ = writeln!(header, "#define {name} {value}");
    }
    enumerations(&mut header);
    structures(&mut header);
    header
}

/// One structure: its fields with their kinds and sizes, and what stands behind them.
fn structure(
    header: &mut String,
    name: &str,
    fields: &[(&str, &str, usize)],
    rest: Option<(&str, usize)>,
) {
    let _ = writeln!(header, "struct {name} {{");
    for (field, kind, _) in fields {
        let (before, behind) = c_type(kind);
        let _ = writeln!(header, "\t{before} {field}{behind};");
    }
    if let Some((field, room)) = rest {
        let _ = writeln!(header, "\tchar {field}[{room}];");
    }
    header.push_str("};\n");
    let mut offset = 0;
    let last = rest.map(|(field, _)| (field, 0));
    for (field, bytes) in fields.iter().map(|(field, _, bytes)| (*field, *bytes)).chain(last) {
        let _ = writeln!(
            header,
            "_Static_assert(__builtin_offsetof(struct {name}, {field}) == {offset}, \"{field}\");"
        );
        offset += bytes;
    }
    if rest.is_none() {
        let _ = writeln!(header, "_Static_assert(sizeof(struct {name}) == {offset}, \"size\");");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_one_behind_the_other() {
        let words = [EventKind::Exec as u32, 7, 9, 0, 3, 8];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(b"a\0b");
        let mut rest = bytes.as_slice();
        let exec = Exec::take(&mut rest).expect("it is whole");
        assert_eq!((exec.pid, exec.length, exec.total, rest), (7, 3, 8, &b"a\0b"[..]));
        assert_eq!(exec.at.to_ne_bytes(), bytes[8..16]);
        for length in 0..Exec::BYTES {
            assert_eq!(Exec::take(&mut &bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn a_limit_is_found_by_its_metric_and_its_number() {
        for limited in Limited::ALL {
            assert_eq!(Limited::numbered(*limited as u32), Some(*limited));
            assert_eq!(
                limited.metric().and_then(Limited::of_metric),
                match limited {
                    Limited::Nothing => None,
                    limited => Some(*limited),
                }
            );
        }
        assert_eq!(Limited::numbered(Limited::ALL.len() as u32), None);
        assert_eq!(Limited::of_metric("wall_seconds"), None);
    }

    #[test]
    fn metrics_that_the_kernel_limits_are_metrics() {
        assert!(OF_METRICS.iter().all(|(name, _)| crate::metric(name).is_some()));
    }
}
