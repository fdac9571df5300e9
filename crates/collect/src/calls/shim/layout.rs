//! What weigh and the library of `libweigh/calls` share, declared once: the build script makes the
//! library's header of it.

use std::fmt::Write as _;

use weigh_schema::call::{TIME_BITS, TimeHistogram};

/// The variable that names the shared file.
pub const VARIABLE: &str = "WEIGH_CALLS";

/// The calls that the library has functions for, by the names of what they ask of the kernel. A
/// call's place is its number, and one less than the token of its account.
pub const CALLS: &[&str] = &[
    "accept",
    "accept4",
    "clock_nanosleep",
    "close",
    "close_range",
    "connect",
    "copy_file_range",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "fcntl",
    "fdatasync",
    "fstat",
    "fsync",
    "ftruncate",
    "ioctl",
    "lseek",
    "mkdir",
    "mmap",
    "msync",
    "munmap",
    "newfstatat",
    "openat",
    "poll",
    "ppoll",
    "pread64",
    "preadv",
    "preadv2",
    "pselect6",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "rename",
    "sched_yield",
    "select",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "socket",
    "splice",
    "statx",
    "syncfs",
    "tee",
    "unlink",
    "unlinkat",
    "vmsplice",
    "wait4",
    "waitid",
    "write",
    "writev",
];

/// Processes count in one of so many places: half of them are for one process each, the first ones
/// that come, the others are shared by the processes' numbers.
pub const STRIPES: usize = 64;

/// Buckets of times.
pub const BUCKETS: usize = TimeHistogram::BUCKETS as usize;

/// What is counted of a call, each a number of eight bytes; then follow its buckets, which add up to
/// how many calls there were. What most calls count is in one line of the cache.
pub const COUNTS: &[&str] = &[
    "time_ns",
    "bytes",
    "shortest_ns",
    "longest_ns",
    "socket_moves",
    "socket_sent",
    "socket_received",
    "errors",
    "not_split",
];

/// Numbers of a call: whole lines of the cache, the last of which has room left.
pub const NUMBERS: usize = (COUNTS.len() + BUCKETS).next_multiple_of(LINE / 8);

const LINE: usize = 64;

/// Bytes of a stripe: whole pages, for each process maps its own alone.
pub const STRIPE_BYTES: usize = (CALLS.len() * NUMBERS * 8).next_multiple_of(PAGE);

/// The largest page of the machines that weigh runs on.
const PAGE: usize = 65_536;

/// What the file begins with: nanoseconds for each 2^32 ticks of the processor's counter (0: the
/// library asks the kernel's clock), the calls that are asked for as a bit set, those of them that are only where
/// they are by a socket, whether what goes by sockets is asked for, and which stripes have been taken by a process
/// for itself alone.
pub const HEAD: &[(&str, usize)] = &[
    ("scale", 1),
    ("chosen", CHOSEN),
    ("only_by_sockets", CHOSEN),
    ("sockets", 1),
    ("taken", STRIPES),
    // Calls that found no room in the file.
    ("refused", 1),
];

/// Numbers of a set of calls.
pub const CHOSEN: usize = 2;

const _: () = assert!(CALLS.len() <= CHOSEN * 64 && CALLS.len() <= READY_CALLS);

/// Calls of which a process can remember that there is room for them: a number's bits.
const READY_CALLS: usize = 64;

/// The calls by which a server takes connections, receives and sends.
pub const NETWORK: &[&str] =
    &["accept", "accept4", "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto"];

/// Those by which it does other things, too: they are of the network where they are by a socket.
pub const NETWORK_BY_SOCKETS: &[&str] = &["read", "readv", "sendfile", "splice", "write", "writev"];

/// Bytes of it: whole pages.
pub const HEAD_BYTES: usize = PAGE;

/// Where a number of it lies, counted in numbers.
pub fn head_at(name: &str) -> Option<usize> {
    let at = HEAD.iter().position(|(field, _)| *field == name)?;
    Some(HEAD[..at].iter().map(|(_, numbers)| numbers).sum())
}

/// The same for the library.
pub fn c_header() -> String {
    let mut text = String::from("/* Derived from crates/collect/src/calls/shim/layout.rs. */\n");
    let _ = writeln!(text, "#include <stdint.h>");
    let _ = writeln!(text, "#define SHIM_VARIABLE \"{VARIABLE}\"");
    let _ = writeln!(text, "#define STRIPES {STRIPES}");
    let _ = writeln!(text, "#define BUCKET_BITS {TIME_BITS}\nenum call {{");
    for call in CALLS {
        let _ = writeln!(text, "\tCALL_{call},");
    }
    let _ = writeln!(text, "\tN_CALLS\n}};\nstruct shim_head {{");
    for (name, numbers) in HEAD {
        let array = if *numbers > 1 { format!("[{numbers}]") } else { String::new() };
        let _ = writeln!(text, "\tuint64_t {name}{array};");
    }
    let _ = writeln!(text, "}} __attribute__((aligned({PAGE})));\nstruct call_counts {{");
    for count in COUNTS {
        let _ = writeln!(text, "\tuint64_t {count};");
    }
    let _ = writeln!(text, "\tuint64_t times[{BUCKETS}];");
    let _ = writeln!(text, "}} __attribute__((aligned({LINE})));");
    let _ = writeln!(text, "struct stripe {{");
    let _ = writeln!(text, "\tstruct call_counts calls[N_CALLS];");
    let _ = writeln!(text, "}} __attribute__((aligned({PAGE})));");
    text
}
