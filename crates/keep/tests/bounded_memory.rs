//! A recording of many processes is finished and read in memory that does not grow with them.
//! Alone in its file, so that nothing else uses memory in this process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use support::{end, ended, process, started};
use weigh_keep::{Recording, RecordingWriter};
use weigh_schema::recording::ProcessRow;
use weigh_schema::update::Update;

const PROCESSES: u32 = 120_000;
/// The texts of all rows together are more than 100 MB.
const BOUND_KB: u64 = 80_000;

/// A process with a long command and few metrics, which makes the test quick.
fn row(pid: u32) -> ProcessRow {
    let mut row = process(pid);
    row.metrics.retain(|name, _| name.starts_with("io_"));
    row.command = format!("{pid} ").repeat(150);
    row
}

/// The greatest resident size of this process so far, in KB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn many_processes_take_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = RecordingWriter::create(dir.path()).unwrap();
    writer.append(&started());
    for pid in 0..PROCESSES {
        writer.append(&Update::Process(row(pid)));
    }
    let before = peak_kb();
    let finished = end(writer, &ended()).unwrap();
    assert_eq!((finished.processes, finished.lost), (PROCESSES.into(), 0));
    let finishing = peak_kb() - before;
    println!("finishing took {finishing} KB");
    assert!(finishing < BOUND_KB, "finishing took {finishing} KB");

    let mut next = 0;
    let total = Recording::open(dir.path())
        .unwrap()
        .each_process(|found| {
            assert!(found.pid == next && (next % 997 != 0 || found == row(next)), "{found:?}");
            next += 1;
        })
        .unwrap();
    assert_eq!((total, next), (PROCESSES.into(), PROCESSES));
    let reading = peak_kb() - before;
    println!("reading took {reading} KB");
    assert!(reading < BOUND_KB, "reading took {reading} KB");
}
