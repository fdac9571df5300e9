//! The report: what is known, as it is told.

use std::collections::HashMap;

use weigh_schema::Quality;
use weigh_schema::byte_text;
use weigh_schema::io::{
    IoFound, IoReport, Numbers, Process, ProcessUse, REPORT, ReportBasis, Rest, Sources, Tally,
    Transferred,
};

use super::file_use::{Files, by_calls, lower_bound, moved_quality, seconds, totals};
use super::usage_table::IoBook;
use super::{advice, flow};

/// What is known of the run besides its files.
pub struct Run {
    /// The command.
    pub command: Vec<String>,
    /// The same, where it is no text.
    pub command_base64: Vec<String>,
    /// Or the process that was followed.
    pub pid: Option<u32>,
    /// Or where the file system is mounted that everybody was followed on.
    pub mount: Option<String>,
    /// For how long.
    pub wall_seconds: f64,
    /// How much was seen and lost.
    pub tally: Tally,
    /// How far it can be trusted, and what is missing for other reasons.
    pub grounds: ReportBasis,
}

/// The report of what is in the book.
pub fn report<'a>(
    book: &'a IoBook,
    run: &Run,
    call: &'a dyn Fn(u64) -> String,
) -> IoReport<Files<'a>> {
    IoReport {
        schema: REPORT.to_string(),
        found: found_at_end(book, run),
        files: Files::of(book, call),
        processes: processes(book, run.mount.is_some()),
        command: run.command.clone(),
        command_base64: run.command_base64.clone(),
        pid: run.pid,
        mount: run.mount.as_deref().map(byte_text::shown),
        mount_base64: run.mount.as_deref().and_then(byte_text::base64),
    }
}

/// What is known of all files together.
pub fn found_at_end(book: &IoBook, run: &Run) -> IoFound {
    IoFound { flows: flow::flows(book), ..found(book, run) }
}

/// The same, but for who wrote what others read: that is looked for in the end.
pub fn found(book: &IoBook, run: &Run) -> IoFound {
    let mut all = Numbers::default();
    all.fold(&book.rest.numbers);
    for row in book.rows.values() {
        all.fold(&row.amounts().numbers);
    }
    IoFound {
        wall_seconds: run.wall_seconds,
        mechanism: run.grounds.mechanism,
        quality: if is_part_missing(book, &run.tally) {
            Quality::Estimated
        } else {
            run.grounds.quality
        },
        witness: run.grounds.witness,
        price: run.grounds.price,
        totals: totals(book, &all, book.anyone_moves_unseen()),
        uses_total: book.rows.len() as u64 + book.rest_uses,
        flows: Vec::new(),
        // A rule holds reads against writes against opens: it needs all of them.
        advice: if book.unseen.any() { Vec::new() } else { advice::advice(book) },
        rest: rest(book, &run.tally),
        untold: Some(run.tally.untold).filter(|untold| untold.calls_total > 0),
        qualities: run.grounds.qualities.clone(),
        notes: notes(book, run),
    }
}

/// All of a job; of everybody those that did something.
fn processes(book: &IoBook, are_all_followed: bool) -> Vec<ProcessUse> {
    let mut sums: HashMap<u32, (Transferred, u64, Sources)> = HashMap::new();
    for ((_, who), row) in &book.rows {
        let (sum, time, sources) = sums.entry(who.pid).or_default();
        let row = row.amounts();
        sources.join(row.sources);
        let more = by_calls(&row.numbers, book.unseen);
        sum.read_bytes += more.read_bytes;
        sum.read_calls += more.read_calls;
        sum.written_bytes += more.written_bytes;
        sum.write_calls += more.write_calls;
        *time += row.numbers.time_ns();
    }
    let of = |process: &Process| {
        let (by_calls, time, sources) = sums.get(&process.pid).copied().unwrap_or_default();
        let by_calls = Transferred { unseen: book.unseen, ..by_calls };
        let by_calls = lower_bound(by_calls, process.moves_unseen);
        ProcessUse {
            pid: process.pid,
            parent: process.parent,
            name: byte_text::shown(&process.name),
            name_base64: byte_text::base64(&process.name),
            started_seconds: seconds(process.started_ns),
            ended_seconds: (process.ended_ns > 0).then(|| seconds(process.ended_ns)),
            by_calls,
            moved_quality: moved_quality(
                &by_calls,
                process.moves_unseen || book.may_be_passed_by(sources),
            ),
            io_seconds: seconds(time),
            path_calls_total: process.path_calls,
            path_seconds: seconds(process.path_ns),
            failed_opens_total: process.failed_opens,
        }
    };
    let is_told = |process: &&Process| !are_all_followed || sums.contains_key(&process.pid);
    book.processes.values().filter(is_told).map(of).collect()
}

fn rest(book: &IoBook, tally: &Tally) -> Option<Rest> {
    let has_later = book.rest.numbers.has_later();
    let calls = tally.rest_calls + tally.apart_calls;
    let is_any = book.rest_uses > 0 || calls > 0 || has_later;
    is_any.then(|| Rest {
        uses_total: book.rest_uses,
        unkept_calls_total: tally.rest_calls,
        totals: totals(book, &book.rest.numbers, book.anyone_moves_unseen()),
    })
}

/// Those that are not listed.
fn left_processes(book: &IoBook) -> Option<String> {
    let left = book.left_processes;
    (left.processes > 0).then(|| {
        format!(
            "{} processes found no room in the list, the first to begin of those without a listed file: they made \
             {} calls by path, in {:.6} s, and failed to open {} times",
            left.processes,
            left.path_calls,
            seconds(left.path_ns),
            left.failed_opens
        )
    })
}

/// Calls of 32-bit programs of which it is not known what they did.
fn foreign_calls(book: &IoBook) -> u64 {
    book.processes.values().map(|process| process.foreign_calls).sum()
}

/// Whether something was moved that is in no sum.
fn is_part_missing(book: &IoBook, tally: &Tally) -> bool {
    let Tally { lost_threads, lost_requests, lost_calls, hidden_requests, .. } = *tally;
    foreign_calls(book) + lost_threads + lost_requests + lost_calls + hidden_requests > 0
}

/// What is not in the numbers.
fn notes(book: &IoBook, run: &Run) -> Vec<String> {
    let lost = [
        (
            foreign_calls(book),
            "calls of 32-bit programs are missing: their numbers are not known, or their arguments could not be read",
        ),
        (run.tally.lost_threads, "threads found no room: their calls are missing"),
        (run.tally.lost_processes, "processes found no room: they have no name"),
        (run.tally.lost_names, "names of files could not be told when they were first used"),
        (run.tally.lost_requests, "AIO requests found no room: their bytes are missing"),
        (
            run.tally.hidden_requests,
            "requests of io_uring are missing, or what they read is: no result tells of it (IOSQE_CQE_SKIP_SUCCESS, \
             splice, tee)",
        ),
        (
            run.tally.untold.calls_total,
            match run.tally.apart_calls {
                0 => {
                    "calls came too fast to be told one by one: they are in all sums, and have no row"
                }
                _ => {
                    "calls came too fast to be told one by one, or are of programs that the user may not look \
                     at: they are in all sums, and have no row"
                }
            },
        ),
        (
            run.tally.apart_calls,
            "calls of programs that the user may not look at (set-user-ID and their like) are added up without their \
             files",
        ),
        (
            run.tally.lost_pages,
            "pages found no room: what devices read and wrote of them is missing",
        ),
        (
            run.tally.lost_ahead,
            "pages found no room: whether they were read ahead in vain is not known, and is not in \
             readahead_unused_bytes",
        ),
        (run.tally.lost_calls, "calls could not be added up anywhere: their numbers are missing"),
    ];
    let lost = lost.iter().filter(|(count, _)| *count > 0);
    lost.map(|(count, what)| format!("{count} {what}"))
        .chain(left_processes(book))
        .chain(run.grounds.notes.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::IoSeries;
    use crate::io::file_use;
    use weigh_schema::io::{Field, FileId, Object, Transfer, Unseen, Use, Who};

    /// Of one process all is seen, of the other one no more than what it wrote by calls.
    #[test]
    fn what_may_have_been_moved_unseen_is_no_zero() {
        let mut book = IoBook::default();
        let written = |pid: u32| {
            let mut used = Use { object: Object::Regular, ..Use::default() };
            used.who.pid = pid;
            used.numbers.bytes[Transfer::Plain as usize][1] = 5;
            used.numbers.calls[Transfer::Plain as usize][1] = 1;
            used.numbers.set(Field::Placed, 1);
            used
        };
        for pid in [7, 8] {
            book.add_use(&written(pid));
            book.add_process(Process { pid, moves_unseen: pid == 8, ..Process::default() });
        }
        let of = |pid: u32| {
            let key = (FileId::default(), Who { pid, tid: 0 });
            file_use(&book, &book.row(&key).expect("a row"), &|_| String::new())
        };
        let (seen, bound) = (of(7), of(8));
        assert!(!seen.totals.by_calls.unseen.any());
        assert_eq!((seen.moved_quality, seen.again_quality), (Quality::Exact, Quality::Exact));
        let unseen = Unseen { reads: true, writes: false };
        assert_eq!(bound.totals.by_calls.unseen, unseen);
        assert_eq!(bound.totals.by_calls.written_bytes, 5);
        assert_eq!(bound.moved_quality, Quality::Estimated);
        assert_eq!(bound.again_quality, Quality::Estimated);
        let processes = processes(&book, false);
        assert_eq!(processes[0].by_calls.unseen, Unseen::default());
        assert_eq!(processes[1].by_calls.unseen, unseen);
        assert_eq!(processes[1].moved_quality, Quality::Estimated);
        let moments = IoSeries::default().step(&book, None, 1, 0.5).moments;
        let moment = |pid| moments.iter().find(|moment| moment.pid == pid).expect("a row");
        assert_eq!((moment(7).read_bytes, moment(7).read_calls_total), (Some(0), Some(0)));
        assert_eq!((moment(8).read_bytes, moment(8).read_calls_total), (None, None));
        assert_eq!(moment(8).written_bytes, Some(5));
    }
}
