//! Parsers of the text under `/proc`.
//!
//! They accept whatever a process can put into its name, arguments and paths (spaces, newlines, brackets,
//! bytes that are not UTF-8). What they do not understand they leave out or answer with `None`; they never panic
//! and never guess a 0.

mod maps;
mod text;

use std::path::PathBuf;

use weigh_schema::Counter;
use weigh_schema::byte_text;

pub use maps::{MapEntry, parse_map_line, parse_maps, parse_smaps, parse_smaps_rollup};
use text::split_once;

/// One line of `/proc/PID/stat`, as far as it is used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Process (or thread) number.
    pub pid: u32,
    /// The kernel's name for it.
    pub name: String,
    /// `R`, `S`, `D`, `Z`, …
    pub state: char,
    /// Its parent.
    pub parent_pid: u32,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults without I/O of children that it has waited for.
    pub child_minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Page faults with I/O of children that it has waited for.
    pub child_major_faults: u64,
    /// Clock ticks in user mode.
    pub user_ticks: u64,
    /// Clock ticks in the kernel.
    pub system_ticks: u64,
    /// Clock ticks in user mode of children that it has waited for.
    pub child_user_ticks: u64,
    /// Clock ticks in the kernel of children that it has waited for.
    pub child_system_ticks: u64,
    /// Threads.
    pub threads: u64,
    /// When it was started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Size of the address space.
    pub virtual_bytes: u64,
    /// Resident pages.
    pub rss_pages: u64,
    /// Where its program was put at its last exec (`startstack` and `arg_start`): what differs here is another address
    /// space. None for users without the right to know, and for a process without memory.
    pub image: Option<[u64; 2]>,
    /// Whether its memory holds a program, with its arguments and its environment: not so while it is executed, nor in a
    /// kernel thread. None for users without the right to know.
    pub is_laid_out: Option<bool>,
    /// How it ended, if it has; 0 for users without the right to know.
    pub exit_code: Option<i32>,
}

/// Parses `/proc/PID/stat`. The name may hold anything, closing brackets too: what follows the
/// last one is numbers only.
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    if close < open {
        return None;
    }
    let pid = std::str::from_utf8(&text[..open]).ok()?.trim().parse().ok()?;
    let name = byte_text::keep(&text[open + 1..close]);
    let rest: Vec<&str> =
        std::str::from_utf8(&text[close + 1..]).ok()?.split_ascii_whitespace().collect();
    // `rest[0]` is field 3 of proc(5).
    let number = |field: usize| rest.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        name,
        state: rest.first()?.chars().next()?,
        parent_pid: rest.get(1)?.parse().ok()?,
        minor_faults: number(10)?,
        child_minor_faults: number(11)?,
        major_faults: number(12)?,
        child_major_faults: number(13)?,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        child_user_ticks: number(16)?,
        child_system_ticks: number(17)?,
        threads: number(20)?,
        start_ticks: number(22)?,
        virtual_bytes: number(23)?,
        rss_pages: number(24)?,
        image: number(28).zip(number(48)).map(Into::into).filter(|image| *image != [0, 0]),
        // `startcode`, which the kernel sets last; 1 stands for what the reader may not know.
        is_laid_out: number(26).filter(|code| *code != 1).map(|code| code != 0),
        exit_code: rest.get(52 - 3).and_then(|t| t.parse().ok()),
    })
}

/// The lines of `/proc/PID/status` that are used here; what a kernel thread, a zombie or an old
/// kernel leaves out is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The kernel's name for it.
    pub name: String,
    /// Real user.
    pub uid: Option<u32>,
    /// Effective user.
    pub effective_uid: Option<u32>,
    /// Process the thread belongs to.
    pub process: Option<u32>,
    /// Its tracer; 0 if it has none.
    pub tracer: Option<u32>,
    /// Parent.
    pub parent_pid: Option<u32>,
    /// Resident size.
    pub rss_bytes: Option<u64>,
    /// Of the resident size, what is no part of a file and not shared memory.
    pub anonymous_bytes: Option<u64>,
    /// Of the resident size, shared memory and tmpfs.
    pub shared_bytes: Option<u64>,
    /// Huge pages of hugetlbfs, which are in no resident size.
    pub hugetlb_bytes: Option<u64>,
    /// Greatest resident size.
    pub rss_peak_bytes: Option<u64>,
    /// Virtual size.
    pub virtual_bytes: Option<u64>,
    /// Greatest virtual size.
    pub virtual_peak_bytes: Option<u64>,
    /// Swapped-out size.
    pub swap_bytes: Option<u64>,
    /// Whether it ignores SIGCHLD, so that its children end without being waited for.
    pub ignores_child_ends: bool,
    /// Times it gave up the CPU (this thread only).
    pub voluntary_switches: Option<u64>,
    /// Times it lost the CPU (this thread only).
    pub involuntary_switches: Option<u64>,
}

/// What a parent is told that a child has ended by, on all machines that Linux shares its numbers with: x86, ARM.
pub const SIGCHLD: u32 = 17;

/// Parses `/proc/PID/status`.
pub fn parse_status(text: &[u8]) -> Status {
    let mut status = Status::default();
    for line in text.split(|b| *b == b'\n') {
        let Some((key, value)) = split_once(line, b':') else { continue };
        // Most lines are none of these: a status is read at the end of each traced thread.
        if !matches!(
            key.first(),
            Some(b'N' | b'U' | b'T' | b'P' | b'R' | b'V' | b'H' | b'S' | b'v' | b'n')
        ) {
            continue;
        }
        if key == b"Name" {
            status.name = unescaped(value.strip_prefix(b"\t").unwrap_or(value));
            continue;
        }
        let Ok(value) = std::str::from_utf8(value) else { continue };
        let mut words = value.split_ascii_whitespace();
        let first = words.next();
        let number = first.and_then(|t| t.parse::<u64>().ok());
        let small = first.and_then(|t| t.parse::<u32>().ok());
        let kilobytes = number.and_then(|n| n.checked_mul(1024));
        match key {
            b"Uid" => {
                status.uid = small;
                status.effective_uid = words.next().and_then(|t| t.parse().ok());
            }
            b"TracerPid" => status.tracer = small,
            b"Tgid" => status.process = small,
            b"PPid" => status.parent_pid = small,
            b"VmRSS" => status.rss_bytes = kilobytes,
            b"RssAnon" => status.anonymous_bytes = kilobytes,
            b"RssShmem" => status.shared_bytes = kilobytes,
            b"HugetlbPages" => status.hugetlb_bytes = kilobytes,
            b"VmSize" => status.virtual_bytes = kilobytes,
            b"VmHWM" => status.rss_peak_bytes = kilobytes,
            b"VmPeak" => status.virtual_peak_bytes = kilobytes,
            b"VmSwap" => status.swap_bytes = kilobytes,
            b"SigIgn" => {
                let mask = first.and_then(|t| u64::from_str_radix(t, 16).ok()).unwrap_or_default();
                status.ignores_child_ends = mask & (1 << (SIGCHLD - 1)) != 0;
            }
            b"voluntary_ctxt_switches" => status.voluntary_switches = number,
            b"nonvoluntary_ctxt_switches" => status.involuntary_switches = number,
            _ => {}
        }
    }
    status
}

/// The number that follows `key` at the beginning of a line, as in `/proc/vmstat` and `memory.events`.
pub fn number_after(text: &[u8], key: &[u8]) -> Option<u64> {
    let value = text.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(key))?;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// A name as `/proc/PID/status` has it: line ends and backslashes are written as in C there.
fn unescaped(name: &[u8]) -> String {
    let name = byte_text::keep(name);
    if !name.contains('\\') {
        return name;
    }
    let mut plain = String::with_capacity(name.len());
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        match (letter, letters.as_str().chars().next()) {
            ('\\', Some(next @ ('n' | '\\'))) => {
                letters.next();
                plain.push(if next == 'n' { '\n' } else { next });
            }
            _ => plain.push(letter),
        }
    }
    plain
}

/// `/proc/PID/io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Bytes returned by read-like calls.
    pub read_chars: u64,
    /// Bytes accepted by write-like calls.
    pub write_chars: u64,
    /// Read-like calls.
    pub read_calls: u64,
    /// Write-like calls.
    pub write_calls: u64,
    /// Bytes fetched from storage.
    pub storage_read: u64,
    /// Bytes sent to storage, now or later.
    pub storage_written: u64,
    /// Of these, bytes thrown away before they were written.
    pub storage_cancelled: u64,
}

/// Counters of `/proc/PID/io`, for the same user only.
pub const IO_COUNTERS: &[Counter] = &[
    Counter::ReadChars,
    Counter::WriteChars,
    Counter::ReadCalls,
    Counter::WriteCalls,
    Counter::StorageRead,
    Counter::StorageWritten,
    Counter::StorageCancelled,
];

/// What `/proc/PID/io` says, by counter.
pub fn io_values(io: &Io) -> [(Counter, u64); 7] {
    [
        (Counter::ReadChars, io.read_chars),
        (Counter::WriteChars, io.write_chars),
        (Counter::ReadCalls, io.read_calls),
        (Counter::WriteCalls, io.write_calls),
        (Counter::StorageRead, io.storage_read),
        (Counter::StorageWritten, io.storage_written),
        (Counter::StorageCancelled, io.storage_cancelled),
    ]
}

/// Parses `/proc/PID/io`; `None` unless every line is there.
pub fn parse_io(text: &[u8]) -> Option<Io> {
    let text = std::str::from_utf8(text).ok()?;
    let field = |name: &str| {
        text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
    };
    Some(Io {
        read_chars: field("rchar")?,
        write_chars: field("wchar")?,
        read_calls: field("syscr")?,
        write_calls: field("syscw")?,
        storage_read: field("read_bytes")?,
        storage_written: field("write_bytes")?,
        storage_cancelled: field("cancelled_write_bytes")?,
    })
}

/// Parses `/proc/PID/cmdline`. Empty for kernel threads and zombies. A program that has
/// overwritten its arguments with a title yields that title as one argument. They keep all bytes.
pub fn parse_cmdline(text: &[u8]) -> Vec<String> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|b| *b == 0).map(byte_text::keep).collect()
}

/// The total of `/proc/meminfo`, in bytes.
pub fn parse_mem_total(text: &[u8]) -> Option<u64> {
    let line = text.split(|b| *b == b'\n').find_map(|l| l.strip_prefix(b"MemTotal:"))?;
    let kb: u64 = std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse().ok()?;
    kb.checked_mul(1024)
}

/// Counts the members of a list such as `0-3,5,8-9`.
pub fn parse_cpu_list(text: &str) -> Option<u32> {
    text.trim().split(',').try_fold(0u32, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// The name that `/etc/passwd` gives a UID.
pub fn parse_passwd(text: &[u8], uid: u32) -> Option<String> {
    text.split(|b| *b == b'\n').find_map(|line| {
        let mut fields = line.split(|b| *b == b':');
        let name = fields.next()?;
        let number: u32 = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
        (number == uid && !name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    })
}

/// UID and GID that `/etc/passwd` gives a name.
pub fn parse_account(text: &[u8], name: &str) -> Option<(u32, u32)> {
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    text.split(|b| *b == b'\n').find_map(|line| {
        let mut fields = line.split(|b| *b == b':');
        let is_named = fields.next()? == name.as_bytes() && !name.is_empty();
        let (uid, gid) = (number(fields.nth(1)?)?, number(fields.next()?)?);
        is_named.then_some((uid, gid))
    })
}

/// One line of `/proc/PID/cgroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupLine {
    /// Number of the hierarchy; 0 for version 2.
    pub hierarchy: u32,
    /// Controllers of the hierarchy; empty for version 2.
    pub controllers: Vec<String>,
    /// The group, seen from the root of the hierarchy.
    pub path: PathBuf,
}

/// Parses `/proc/PID/cgroup`.
pub fn parse_cgroup(text: &[u8]) -> Vec<CgroupLine> {
    text.split(|b| *b == b'\n').filter_map(parse_cgroup_line).collect()
}

fn parse_cgroup_line(line: &[u8]) -> Option<CgroupLine> {
    let (hierarchy, rest) = split_once(line, b':')?;
    let (controllers, path) = split_once(rest, b':')?;
    let controllers = std::str::from_utf8(controllers).ok()?;
    Some(CgroupLine {
        hierarchy: std::str::from_utf8(hierarchy).ok()?.parse().ok()?,
        controllers: controllers.split(',').filter(|c| !c.is_empty()).map(str::to_owned).collect(),
        path: path_of(path.to_vec()),
    })
}

/// One line of `/proc/PID/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Device number, major and minor.
    pub device: (u32, u32),
    /// The part of the file system that is mounted.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// Its type.
    pub kind: String,
    /// Options of the file system.
    pub options: String,
}

/// Parses `/proc/PID/mountinfo`.
pub fn parse_mountinfo(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n').filter_map(parse_mount_line).collect()
}

fn parse_mount_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let device = std::str::from_utf8(fields.get(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    // Optional fields end with a lone dash.
    let dash = 6 + fields.get(6..)?.iter().position(|f| *f == b"-")?;
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: path_of(unescape_octal(fields.get(3)?)),
        point: path_of(unescape_octal(fields.get(4)?)),
        kind: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
        options: String::from_utf8_lossy(fields.get(dash + 3)?).into_owned(),
    })
}

/// A path of arbitrary bytes.
pub fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Replaces `\ooo` by the byte it stands for.
pub fn unescape_octal(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'\\'
            && let Some([a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7']) = after.get(..3)
        {
            plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = &after[3..];
        } else {
            plain.push(byte);
            rest = after;
        }
    }
    plain
}

#[cfg(test)]
mod tests;
