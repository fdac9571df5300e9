//! Parsers of what the kernel says of the whole machine: `/proc/stat`, `meminfo`, `vmstat`, `diskstats`, `net/dev`,
//! `loadavg`, pressure, attributes of hwmon and powercap, statistics of NFS and Lustre mounts.
//!
//! Each walks the text once, allocates nothing and hands out what it finds. A line that it does not understand, or that
//! is cut off, is left out: never a guessed 0.

mod cgroup;
mod drm;
mod group;
mod mounts;
#[cfg(test)]
mod tests;
mod text;

pub use cgroup::{IoBytes, first_number, io_bytes};
pub use drm::{DrmLine, each_drm_line};
pub use group::{ControlGroup, GroupKind, control_group};
pub use mounts::{LustreLine, LustreUnit, NfsLine, each_lustre_line, each_nfs_line};
pub use text::number;
use text::{decimal, lines, numbers, words};

/// A decimal number with a sign, alone on its line: an attribute of sysfs.
pub fn attribute(text: &[u8]) -> Option<i64> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let (is_negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let size = i64::try_from(number(digits)?).ok()?;
    Some(if is_negative { -size } else { size })
}

/// Times of a CPU in ticks: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
pub type CpuTicks = [Option<u64>; 10];

/// One line of `/proc/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatLine<'a> {
    /// Times of all CPUs together (`None`) or of one.
    Cpu(Option<u32>, CpuTicks),
    /// Another line's name and first number, which is the sum where there are several.
    Total(&'a [u8], u64),
}

/// Walks through `/proc/stat`.
pub fn each_stat_line<'a>(text: &'a [u8], mut take: impl FnMut(StatLine<'a>)) {
    for line in lines(text) {
        let mut words = words(line);
        let Some(name) = words.next() else { continue };
        match name.strip_prefix(b"cpu") {
            Some(b"") => take(StatLine::Cpu(None, numbers(&mut words))),
            Some(core) => {
                if let Some(core) = number(core).and_then(|core| u32::try_from(core).ok()) {
                    take(StatLine::Cpu(Some(core), numbers(&mut words)));
                }
            }
            None => {
                if let Some(value) = words.next().and_then(number) {
                    take(StatLine::Total(name, value));
                }
            }
        }
    }
}

/// Walks through lines of a name and a number, as in `/proc/meminfo` and `/proc/vmstat`; with the number of the line.
/// Lines that nobody wants are not looked into.
pub fn each_pair<'a>(
    text: &'a [u8],
    mut is_wanted: impl FnMut(usize) -> bool,
    mut take: impl FnMut(usize, &'a [u8], u64),
) {
    for (at, line) in lines(text).enumerate().filter(move |(at, _)| is_wanted(*at)) {
        let mut words = words(line);
        let (Some(name), Some(value)) = (words.next(), words.next().and_then(number)) else {
            continue;
        };
        take(at, name.strip_suffix(b":").unwrap_or(name), value);
    }
}

/// Reads, merged, sectors, ms; writes, merged, sectors, ms; outstanding, busy ms, weighted ms; discards, merged, sectors, ms;
/// flushes, ms. Old kernels have fewer.
pub type DiskFields = [Option<u64>; 17];

/// A disk or partition, and its counters as the kernel's `Documentation/admin-guide/iostats.rst` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLine<'a> {
    /// The kernel's name.
    pub name: &'a [u8],
    /// Its counters.
    pub fields: DiskFields,
}

/// Parses `/sys/block/DISK/stat`: the counters of one disk, as in its line of `/proc/diskstats`.
pub fn disk_fields(text: &[u8]) -> DiskFields {
    lines(text).next().map_or([None; 17], |line| numbers(&mut words(line)))
}

/// Walks through `/proc/diskstats`.
pub fn each_disk<'a>(text: &'a [u8], mut take: impl FnMut(DiskLine<'a>)) {
    for line in lines(text) {
        let mut words = words(line).skip(2);
        let Some(name) = words.next() else { continue };
        take(DiskLine { name, fields: numbers(&mut words) });
    }
}

/// A network interface and its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceLine<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Bytes, packets, errors, drops, and four more that were received; the same that were sent.
    pub fields: [Option<u64>; 16],
}

/// Walks through `/proc/net/dev`, whose two head lines have no colon before a number.
pub fn each_interface<'a>(text: &'a [u8], mut take: impl FnMut(InterfaceLine<'a>)) {
    for line in lines(text) {
        // A name may hold a colon in old kernels; a number does not.
        let Some(colon) = line.iter().rposition(|byte| *byte == b':') else { continue };
        let name = line[..colon].trim_ascii_start();
        let fields = numbers(&mut words(&line[colon + 1..]));
        take(InterfaceLine { name, fields });
    }
}

/// `/proc/loadavg`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadAverages {
    /// Of 1, 5 and 15 minutes.
    pub averages: [f64; 3],
    /// Threads that run or are ready to run.
    pub running: u64,
    /// Threads on the machine.
    pub threads: u64,
}

/// Parses `/proc/loadavg`: `0.20 0.18 0.12 1/345 11206`.
pub fn load_averages(text: &[u8]) -> Option<LoadAverages> {
    let mut words = words(text.strip_suffix(b"\n")?);
    let mut average = || decimal(words.next()?);
    let averages = [average()?, average()?, average()?];
    let of_threads = words.next()?;
    let slash = of_threads.iter().position(|byte| *byte == b'/')?;
    let (running, threads) = (number(&of_threads[..slash])?, number(&of_threads[slash + 1..])?);
    Some(LoadAverages { averages, running, threads })
}

/// Parses `/proc/sys/fs/file-nr`: open files, and the limit.
pub fn open_files(text: &[u8]) -> Option<(u64, u64)> {
    let [open, _, limit] = numbers(&mut words(text.strip_suffix(b"\n")?));
    Some((open?, limit?))
}

/// The totals of a pressure file in microseconds: of `some` and of `full`.
pub fn pressure_totals(text: &[u8]) -> [Option<u64>; 2] {
    let mut totals = [None; 2];
    for line in lines(text) {
        let mut words = words(line);
        let total = match words.next() {
            Some(b"some") => &mut totals[0],
            Some(b"full") => &mut totals[1],
            _ => continue,
        };
        *total = words.find_map(|word| word.strip_prefix(b"total=")).and_then(number);
    }
    totals
}
