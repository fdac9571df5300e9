//! What came later of a million calls is kept, and found again, in memory that does not grow with them.
//! Alone in its file, so that nothing else uses memory in this process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use weigh_keep::{CallsNote, CallsWriter, each_call};
use weigh_schema::call_row::{CallRow, LATER_COLUMNS};
use weigh_schema::subsystem::LaterNumbers;

const CALLS: u64 = 1_000_000;
/// So many of them have a row here: rows are written in groups anyway, and take their time.
const WITH_ROW: u64 = 50;
/// In a map of all of them their numbers alone would take 150 MB.
const BOUND_KB: u64 = 70_000;

/// The greatest resident size of this process so far, in KB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What is told at once and, of every second call, when all calls were.
fn bits(sequence: u64) -> (LaterNumbers, Option<LaterNumbers>) {
    let (mut first, mut second) = (LaterNumbers::default(), LaterNumbers::default());
    (first[0], first[3]) = (1, sequence);
    (second[0], second[5]) = (u64::MAX, 7);
    (first, sequence.is_multiple_of(2).then_some(second))
}

#[test]
fn what_came_later_of_many_calls_takes_little_memory_and_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.parquet");
    let mut writer = CallsWriter::create(&path).unwrap();
    let before = peak_kb();
    for sequence in 0..CALLS {
        writer.push_later(sequence, &bits(sequence).0).unwrap();
    }
    for (sequence, more) in (0..CALLS).filter_map(|call| Some((call, bits(call).1?))) {
        writer.push_later(sequence, &more).unwrap();
    }
    let kept = peak_kb() - before;
    for sequence in (0..CALLS).filter(|sequence| sequence.is_multiple_of(WITH_ROW)) {
        let measured = u64::MAX;
        writer.push(&CallRow { sequence, measured, ..CallRow::default() }).unwrap();
        let odd = sequence + 1;
        writer.push(&CallRow { sequence: odd, measured, ..CallRow::default() }).unwrap();
    }
    let written = writer.finish(&CallsNote::default()).unwrap();
    assert_eq!((written.calls, written.unknown_later), (CALLS / WITH_ROW * 2, 0));
    let all = peak_kb() - before;
    println!("keeping took {kept} KB, all {all} KB");
    assert!(all < BOUND_KB, "keeping took {kept} KB, all {all} KB");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "what was beside it is gone");

    each_call(&path, |row| {
        let numbers = [0, 3, 5].map(|place: usize| LATER_COLUMNS[place].raw(&row).unwrap());
        let expected = match row.sequence.is_multiple_of(2) {
            true => [0, row.sequence, 7],
            false => [1, row.sequence, 0],
        };
        assert_eq!(numbers, expected, "{}", row.sequence);
    })
    .unwrap();
}
