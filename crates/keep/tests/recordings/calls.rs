//! The file of `weigh calls --per-call`: what was written comes back, whole or not at all.

use std::path::Path;

use weigh_keep::{CallsNote, CallsWriter, KeepError, calls_note, each_call};
use weigh_schema::call::{Interval, Rival};
use weigh_schema::call_row::{Absent, COST_COLUMNS, CallRow, LATER_COLUMNS, Returned};
use weigh_schema::subsystem::{Account, CPU_COUNTERS, LaterNumbers, SUBSYSTEMS};

/// More than two row groups.
const CALLS: u64 = 40_000;

fn row(sequence: u64) -> CallRow {
    let name_base64 = Some("ZmZtcGVnOv8=".to_string());
    let name = "ffmpeg:\u{fffd}".to_string();
    let rival = |pid| {
        let (name, name_base64) = (name.clone(), name_base64.clone());
        Some(Rival { pid, name, name_base64, time_ns: 17 })
    };
    let mut row = CallRow {
        time_ns: 1_790_000_000_123_456_789 + sequence.cast_signed(),
        pid: 7,
        tid: u32::MAX,
        call: if sequence.is_multiple_of(3) { "read".into() } else { "fsync".into() },
        of: sequence.is_multiple_of(2).then(|| format!("/a file/{sequence}")),
        of_base64: sequence.is_multiple_of(6).then(|| "/wA=".to_string()),
        sequence: u64::MAX - sequence,
        result: Returned(-9 - sequence.cast_signed()),
        interval: sequence
            .is_multiple_of(5)
            .then(|| Interval { number: u64::MAX - sequence, token: sequence }),
        measured: 0,
        account: Account::default(),
        absent: Absent::default(),
        known_later: 0,
        rivals: [None, rival(3), None],
    };
    row.rivals[2] = (sequence == 1).then(|| Rival { time_ns: 0, ..rival(9).unwrap() });
    row.account.set_time_ns(sequence * 1_000_003);
    // Counted, and found to be none, is not the same as not counted.
    let counted = CPU_COUNTERS.iter().filter(|_| !sequence.is_multiple_of(4));
    counted.for_each(|counter| row.account.set_counter(counter, sequence / 3));
    // Of some parts nothing is known.
    for (place, column) in
        COST_COLUMNS.iter().enumerate().filter(|(_, c)| c.subsystem.bit() % 3 == 1)
    {
        column.set_raw(&mut row, sequence * 7 + place as u64);
    }
    row
}

fn write(path: &Path, rows: u64, note: &CallsNote) -> u64 {
    let mut writer = CallsWriter::create(path).unwrap();
    (0..rows).for_each(|sequence| writer.push(&row(sequence)).unwrap());
    for call in (0..rows).filter(|call| later(*call).is_some()) {
        writer.push_later(u64::MAX - call, &later(call).unwrap()).unwrap();
    }
    writer.finish(note).unwrap().calls
}

/// Two of three leave something behind.
fn later(sequence: u64) -> Option<LaterNumbers> {
    let number = |place| (place as u64 + 1) * sequence;
    (!sequence.is_multiple_of(3)).then(|| std::array::from_fn(number))
}

/// The row with what is known when all has been written: of the parts that were looked into.
fn completed(sequence: u64) -> CallRow {
    let mut row = row(sequence);
    let numbers = later(sequence).unwrap_or_default();
    let measured = SUBSYSTEMS.iter().map(|part| part.bit()).filter(|bit| bit % 3 == 1).sum();
    let seen = LATER_COLUMNS.iter().filter(|column| column.is_seen(measured));
    seen.for_each(|column| column.set_raw(&mut row, column.of(&numbers)));
    row
}

#[test]
fn every_call_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.parquet");
    let note = CallsNote {
        command: "dd of='a b'".into(),
        command_base64: Some("/wA=".into()),
        untold: 3,
        lost: u64::MAX,
        untold_later: 5,
        merged_later: 7,
        unknown_later: 0,
    };
    let known = completed(1).known_later;
    assert!(known.count_ones() > 3 && (known.count_ones() as usize) < LATER_COLUMNS.len());
    assert_eq!(write(&path, CALLS, &note), CALLS);
    let mut next = 0;
    let total = each_call(&path, |found| {
        assert_eq!(found, completed(next), "{next}");
        next += 1;
    });
    assert_eq!((total.unwrap(), next), (CALLS, CALLS));
    let (noted, lacking) = calls_note(&path).unwrap();
    assert_eq!(noted, note);
    assert!(lacking.columns.is_empty() && lacking.numbers.is_empty(), "{lacking:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "what was beside it is gone");
}

/// Calls of 10 ns, each 100 ns after the one before; bits were lost while three of them lasted.
#[test]
fn what_came_later_of_calls_whose_bits_may_be_lost_is_absent_and_not_0() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.parquet");
    let mut writer = CallsWriter::create(&path).unwrap();
    for sequence in 0..10 {
        let mut row =
            CallRow { sequence, time_ns: sequence.cast_signed() * 100, ..CallRow::default() };
        row.account.set_time_ns(10);
        COST_COLUMNS.iter().for_each(|column| column.set_raw(&mut row, 0));
        row.account.set_time_ns(10);
        writer.push(&row).unwrap();
    }
    let bit = |pending: i64| {
        let mut bit = LaterNumbers::default();
        (bit[0], bit[1]) = (pending.cast_unsigned(), 4);
        bit
    };
    // Of the fourth call bits came all the same; of the last one only the end, and of the first none is missing.
    writer.push_later(3, &bit(0)).unwrap();
    writer.push_later(9, &bit(-1)).unwrap();
    writer.lost_later(205, 301);
    writer.lost_later(410, 450);
    let note = CallsNote { untold_later: 9, ..CallsNote::default() };
    let written = writer.finish(&note).unwrap();
    assert_eq!((written.calls, written.unknown_later), (10, 3));
    assert_eq!(calls_note(&path).unwrap().0, CallsNote { unknown_later: 3, ..note });
    let mut pending_and_requests = Vec::new();
    each_call(&path, |row| {
        let raw = |place: usize| LATER_COLUMNS[place].raw(&row);
        pending_and_requests.push((raw(0), raw(1)));
    })
    .unwrap();
    let (none, nothing) = ((None, None), (Some(0), Some(0)));
    let rest = [nothing; 4];
    assert_eq!(pending_and_requests[..5], [nothing, nothing, none, (Some(0), Some(4)), none]);
    assert_eq!(pending_and_requests[5..9], rest);
    assert_eq!(pending_and_requests[9], none, "more ended than was begun");
}

#[test]
fn a_file_that_is_not_finished_has_not_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.parquet");
    let mut writer = CallsWriter::create(&path).unwrap();
    writer.push(&row(1)).unwrap();
    drop(writer);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn what_can_not_be_written_or_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = CallsWriter::create(folder.path()).err().unwrap();
    assert!(matches!(refused, KeepError::NoFile { .. }), "{refused}");
    let path = folder.path().join("calls.parquet");
    let missing = each_call(&path, |_| panic!("no call")).unwrap_err();
    assert!(missing.to_string().contains("calls.parquet"), "{missing}");
    write(&path, 100, &CallsNote::default());
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let damaged = each_call(&path, |_| {}).unwrap_err();
    assert!(matches!(damaged, KeepError::Damaged { .. }), "{damaged}");
    assert!(calls_note(&path).is_err());
}
