//! A recording in the words of `darshan-parser`, as far as both know the same: the module POSIX, a record for
//! each regular file and process.
//!
//! Reads the summary, processes and files; emits text by pieces, so that no table has to be in memory. What used a file
//! and is no process in the recording, which may have been cut short, has a place all the same.
//! Counters that weigh does not have are left out, those that it does not know of a file are -1, as Darshan
//! has it.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use weigh_schema::io::{FileUse, Object, Totals};
use weigh_schema::metric_name;
use weigh_schema::summary::Summary;

use weigh_schema::printable::{ShellWords, printable};

use super::form::{Piece, RecordingFormat, RecordingPart, RecordingRows, TextKind};

/// As `darshan-parser` prints a log.
pub const FORMAT: RecordingFormat = RecordingFormat {
    name: "darshan-parser",
    help: "As `darshan-parser` prints a log",
    text: TextKind::Columns,
    part: RecordingPart::Files,
    write,
};

/// So much text is handed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// The format of logs whose counters these are.
const VERSION: &str = "3.41";

/// What the head says besides, for readers who take the text for Darshan's own.
const LEFT_OUT: &str = "\
# written by weigh from a recording of `weigh run --io`. Where it differs from a log of Darshan:
# - <rank> is the place of the process among all of the job, by its start; those whose start is not known (the
#   recording was cut short) come last. No record is shared (-1). Of a file that was used again after weigh had made
#   room for others a process has several records: they add up.
# - regular files only, wherever they are; reads and writes are those of every kind of call, AIO and io_uring
#   included, of programs with and without the C library. Mapped memory moves no bytes here.
# - what is not known is -1: reads and writes, and what follows from them, of a process that used AIO or io_uring
#   where these are not seen.
# - POSIX_FSYNCS has fdatasync, sync_file_range and syncfs too; POSIX_F_META_TIME has opens, seeks and calls
#   on the descriptor.
# - POSIX_MAX_BYTE_* is -1 where the file was both read and written, POSIX_SEQ_* where there were strides.
# - left out: modules other than POSIX, sizes, alignments, switches, start and end times, mount points. So are strides:
#   POSIX_STRIDE* are from the end of an access to the beginning of the next, of reads and writes together, weigh has
#   them from beginning to beginning, of each apart.
";

const COLUMNS: &str = "\
# description of columns:
#   <module>: module responsible for this I/O record.
#   <rank>: the process.
#   <record id>: hash of what the file is: device, inode and generation, not its path, which another file may have had.
#   <counter name> and <counter value>: statistical counters.
#   <file name>: full file path for the record.
#   <mount pt>, <fs type>: not known.

# *******************************************************
# POSIX module data
# *******************************************************
#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>
";

fn write(rows: &dyn RecordingRows, piece: Piece<'_>) -> anyhow::Result<bool> {
    let ranks = ranks(rows)?;
    let mut text = head(rows.summary(), &ranks);
    let mut handed_on = Ok(());
    let mut is_something = false;
    rows.each_use(&mut |used| {
        let lines = record(used, &ranks);
        is_something |= !lines.is_empty();
        text.push_str(&lines);
        if text.len() >= PIECE_BYTES && handed_on.is_ok() {
            handed_on = piece(&std::mem::take(&mut text));
        }
    })?;
    if is_something {
        handed_on?;
        piece(&text)?;
    }
    Ok(is_something)
}

fn ranks(rows: &dyn RecordingRows) -> anyhow::Result<Ranks> {
    let (mut processes, mut users) = (Vec::new(), BTreeSet::new());
    rows.each_process(&mut |row| {
        processes.push(ProcessStart {
            started_ns: row.started_ns,
            pid: row.pid,
            parent: row.parent,
            uid: row.uid,
        });
    })?;
    rows.each_use(&mut |used| {
        users.insert(used.pid);
    })?;
    Ok(Ranks::new(processes, &users))
}

/// When a process of the job began, and whose it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessStart {
    /// When.
    pub started_ns: i64,
    /// The process.
    pub pid: u32,
    /// Who started it.
    pub parent: u32,
    /// The user.
    pub uid: u32,
}

/// The processes of a job by their place.
#[derive(Debug, Default)]
pub struct Ranks {
    by_pid: HashMap<u32, u64>,
    uid: u32,
    first: u32,
}

impl Ranks {
    /// From those that are known, and the PIDs of all that used files: who has not ended is in no row where the
    /// recording was cut short.
    pub fn new(mut processes: Vec<ProcessStart>, users: &BTreeSet<u32>) -> Ranks {
        processes.sort_unstable();
        let known: BTreeSet<u32> = processes.iter().map(|process| process.pid).collect();
        let unknown: Vec<u32> = users.difference(&known).copied().collect();
        let mut ranks = Ranks::default();
        let first = processes.first();
        ranks.uid = first.map_or(0, |process| process.uid);
        // It began before its children.
        let parent = first.map(|process| process.parent).filter(|pid| unknown.contains(pid));
        let pids = processes.iter().map(|process| process.pid);
        for pid in parent.into_iter().chain(pids).chain(unknown) {
            let place = ranks.by_pid.len() as u64;
            if place == 0 {
                ranks.first = pid;
            }
            ranks.by_pid.entry(pid).or_insert(place);
        }
        ranks
    }
}

/// What stands before the records.
pub fn head(summary: &Summary, ranks: &Ranks) -> String {
    let started = summary.job.started;
    let wall = summary.metrics.get(metric_name::wall_seconds).and_then(weigh_schema::Value::number);
    let wall = wall.unwrap_or(0.0);
    let ended = summary.job.ended.unwrap_or(started);
    let mut out = String::new();
    let exe = ShellWords(&summary.job.command);
    let _ = writeln!(out, "# darshan log version: {VERSION}");
    let _ = writeln!(out, "# compression method: NONE");
    let _ = writeln!(out, "# exe: {exe}");
    let _ = writeln!(out, "# uid: {}", ranks.uid);
    let _ = writeln!(out, "# jobid: {}", ranks.first);
    for (name, time) in [("start", started), ("end", ended)] {
        let _ = writeln!(out, "# {name}_time: {}", time.as_second());
        // As ctime(3) has it, in UTC.
        let _ = writeln!(out, "# {name}_time_asci: {}", time.strftime("%a %b %e %H:%M:%S %Y"));
    }
    let _ = writeln!(out, "# nprocs: {}", ranks.by_pid.len());
    let _ = writeln!(out, "# run time: {wall:.4}");
    let _ = writeln!(out, "# metadata: lib_ver = weigh {}\n", summary.host.weigh);
    out.push_str(LEFT_OUT);
    for text in summary.io.iter().flat_map(|found| found.not_seen()) {
        let _ = writeln!(out, "# not seen: {}", printable(&text));
    }
    out + "\n" + COLUMNS
}

/// The lines of a file and process; none of what is no regular file.
pub fn record(used: &FileUse, ranks: &Ranks) -> String {
    let mut out = String::new();
    if used.object != Object::Regular {
        return out;
    }
    let rank = ranks.by_pid.get(&used.pid).copied().unwrap_or(ranks.by_pid.len() as u64);
    let name = used.name.replace(['\t', '\n'], "?");
    let name = printable(&name);
    let id = hash(used);
    let mut line = |counter: &str, value: String| {
        let _ = writeln!(out, "POSIX\t{rank}\t{id}\t{counter}\t{value}\t{name}\tUNKNOWN\tUNKNOWN");
    };
    for (counter, value) in counters(used) {
        line(counter, value.to_string());
    }
    for (counter, value) in times(&used.totals) {
        line(counter, format!("{value:.6}"));
    }
    out
}

fn counters(used: &FileUse) -> [(&'static str, i64); 14] {
    let totals = &used.totals;
    let of = |key: &str| totals.numbers.get(key).map_or(0, |number| number.as_f64() as i64);
    let by = &totals.by_calls;
    let highest = of("highest_bytes") - 1;
    // Of whom reads or writes are not seen nothing is known that follows from them.
    let unless = |is_unseen: bool, value: i64| if is_unseen { -1 } else { value };
    // Nor can a counter say that it is a lower bound.
    let is_bound = used.is_bound();
    let (reads, writes) = (by.unseen.reads || is_bound, by.unseen.writes || is_bound);
    let only = |mine: u64, other: u64| match (mine, other) {
        (0, _) => 0,
        (_, 0) if of("placed_total") > 0 => highest,
        _ => -1,
    };
    let in_order = |what: &str| match of(&format!("strided_{what}_total")) {
        0 => of(&format!("consecutive_{what}_total")) + of(&format!("sequential_{what}_total")),
        _ => -1,
    };
    [
        ("POSIX_OPENS", of("opens_total")),
        ("POSIX_READS", unless(reads, by.read_calls as i64)),
        ("POSIX_WRITES", unless(writes, by.write_calls as i64)),
        ("POSIX_SEEKS", of("seeks_total")),
        ("POSIX_MMAPS", of("maps_total")),
        ("POSIX_FSYNCS", of("syncs_total")),
        ("POSIX_BYTES_READ", unless(reads, by.read_bytes as i64)),
        ("POSIX_BYTES_WRITTEN", unless(writes, by.written_bytes as i64)),
        ("POSIX_MAX_BYTE_READ", unless(reads || writes, only(by.read_bytes, by.written_bytes))),
        ("POSIX_MAX_BYTE_WRITTEN", unless(reads || writes, only(by.written_bytes, by.read_bytes))),
        ("POSIX_CONSEC_READS", unless(reads, of("consecutive_reads_total"))),
        ("POSIX_CONSEC_WRITES", unless(writes, of("consecutive_writes_total"))),
        ("POSIX_SEQ_READS", unless(reads, in_order("reads"))),
        ("POSIX_SEQ_WRITES", unless(writes, in_order("writes"))),
    ]
}

fn times(totals: &Totals) -> [(&'static str, f64); 3] {
    let of = |key: &str| totals.numbers.get(key).map_or(0.0, |number| number.as_f64());
    [
        ("POSIX_F_READ_TIME", of("read_seconds")),
        ("POSIX_F_WRITE_TIME", of("write_seconds") + of("sync_seconds")),
        ("POSIX_F_META_TIME", of("metadata_seconds")),
    ]
}

/// The same for the same file, whatever used it, by whatever name (FNV-1a). In a recording without generations the path
/// stands for one.
fn hash(used: &FileUse) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let last = match used.generation {
        Some(generation) => generation.to_le_bytes().to_vec(),
        None => used.name.as_bytes().to_vec(),
    };
    let bytes = [&used.device.to_le_bytes()[..], &used.inode.to_le_bytes(), &last].concat();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
