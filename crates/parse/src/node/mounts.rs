//! Statistics of mounts of network file systems.

use super::text::{lines, number, numbers, words};

/// One thing that `/proc/self/mountstats` says of an NFS mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsLine<'a> {
    /// A mount begins: its point, with the kernel's escapes for blanks (`\040`). What follows is about it.
    Mount(&'a [u8]),
    /// Bytes read from and written to the server.
    Bytes(Option<u64>, Option<u64>),
    /// An operation: its name, and operations, transmissions, major timeouts, bytes sent, bytes received, ms in the
    /// queue, ms to the answer, ms in all, errors (from Linux 5.3 on).
    Operation(&'a [u8], [Option<u64>; 9]),
}

/// Walks through `/proc/self/mountstats`; mounts of other file systems are passed over.
pub fn each_nfs_line<'a>(text: &'a [u8], mut take: impl FnMut(NfsLine<'a>)) {
    let (mut is_nfs, mut is_operations) = (false, false);
    for line in lines(text) {
        if let Some(about) = line.strip_prefix(b"device ") {
            let point = nfs_point(about);
            (is_nfs, is_operations) = (point.is_some(), false);
            point.into_iter().for_each(|point| take(NfsLine::Mount(point)));
        } else if is_nfs {
            nfs_line(line, &mut is_operations).into_iter().for_each(&mut take);
        }
    }
}

/// `server:/export mounted on /point with fstype nfs4 statvers=1.1`, where it is NFS.
fn nfs_point(about: &[u8]) -> Option<&[u8]> {
    let mut words = words(about).skip(1);
    let is_so = [&b"mounted"[..], b"on"].iter().all(|word| words.next() == Some(word));
    let point = words.next().filter(|_| is_so)?;
    let is_nfs = words.nth(2).is_some_and(|kind| matches!(kind, b"nfs" | b"nfs4"));
    is_nfs.then_some(point)
}

fn nfs_line<'a>(line: &'a [u8], is_operations: &mut bool) -> Option<NfsLine<'a>> {
    let line = line.trim_ascii();
    if line == b"per-op statistics" {
        *is_operations = true;
        return None;
    }
    let mut words = words(line);
    let name = words.next()?.strip_suffix(b":")?;
    if *is_operations {
        return Some(NfsLine::Operation(name, numbers(&mut words)));
    }
    // Calls by read and write, direct ones, then what the server gave and took.
    let [_, _, _, _, read, written] = numbers(&mut words);
    (name == b"bytes").then_some(NfsLine::Bytes(read, written))
}

/// What the sum of a line of Lustre's statistics is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LustreUnit {
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
    /// Nothing: operations were counted alone.
    None,
}

/// One line of `llite/*/stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LustreLine<'a> {
    /// The operation: `read_bytes`, `open`.
    pub name: &'a [u8],
    /// How often.
    pub count: u64,
    /// What the sum is of.
    pub unit: LustreUnit,
    /// The sum, where there is one.
    pub sum: Option<u64>,
}

/// Walks through `stats` of a Lustre mount: `open 18 samples [usec] 1 100 1234 5678`.
pub fn each_lustre_line<'a>(text: &'a [u8], mut take: impl FnMut(LustreLine<'a>)) {
    lines(text).filter_map(lustre_line).for_each(&mut take);
}

fn lustre_line(line: &[u8]) -> Option<LustreLine<'_>> {
    let mut words = words(line);
    let name = words.next()?;
    let count = words.next().and_then(number)?;
    if words.next() != Some(b"samples") {
        return None;
    }
    let unit = match words.next()? {
        b"[bytes]" => LustreUnit::Bytes,
        // From 2.16 on with an s.
        b"[usec]" | b"[usecs]" => LustreUnit::Microseconds,
        _ => LustreUnit::None,
    };
    let [_, _, sum] = numbers(&mut words);
    Some(LustreLine { name, count, unit, sum: sum.filter(|_| unit != LustreUnit::None) })
}
