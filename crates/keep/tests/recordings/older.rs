//! Files that an older weigh has made: what they do not have is absent, and not 0.

#[path = "../support/older.rs"]
mod columns;

use weigh_keep::{CallsNote, CallsWriter, IoWriter, calls_note, each_call, each_use};
use weigh_schema::call::Rival;
use weigh_schema::call_row::{COST_COLUMNS, CallRow, LATER_COLUMNS};
use weigh_schema::io::{FileUse, Object, Unseen};
use weigh_schema::subsystem::Merge;
use weigh_schema::{Quality, Unit};

/// Every column that a row may be without, one after the other: what is taken out is absent of all rows, and what
/// stays is as it was.
#[test]
fn what_an_older_file_has_not_is_absent_and_not_0() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, path) = (folder.path().join("calls.parquet"), folder.path().join("older.parquet"));
    let mut writer = CallsWriter::create(&whole).unwrap();
    let full = |sequence| {
        let mut row = CallRow { call: "fsync".into(), sequence, ..CallRow::default() };
        COST_COLUMNS.iter().for_each(|column| column.set_raw(&mut row, 0));
        row.rivals =
            [const { Some(Rival { pid: 7, name: String::new(), name_base64: None, time_ns: 5 }) };
                3];
        row
    };
    (0..100).for_each(|sequence| writer.push(&full(sequence)).unwrap());
    writer.finish(&CallsNote::default()).unwrap();
    let others = ["weigh.lost", "lock_holder_name"];
    let names = COST_COLUMNS.iter().map(|c| &c.name).chain(LATER_COLUMNS.iter().map(|c| &c.name));
    for left_out in names {
        columns::without(
            &whole,
            &path,
            &[&[left_out.as_str()], &others[..]].concat(),
            "weigh 0.0.1",
        );
        let (note, lacking) = calls_note(&path).unwrap();
        assert_eq!(note, CallsNote::default());
        let columns: Vec<&str> = COST_COLUMNS.iter().map(|c| c.name.as_str()).collect();
        let is_cost = columns.contains(&left_out.as_str());
        let expected = if is_cost { [left_out, others[1]] } else { [others[1], left_out] };
        assert_eq!(lacking.columns, expected);
        assert_eq!((lacking.numbers, lacking.maker.as_str()), (vec!["lost_total"], "weigh 0.0.1"));
        let rows = each_call(&path, |row| {
            for column in COST_COLUMNS.iter() {
                let counts = column.subsystem.fields.iter().filter(|f| f.unit != Unit::Seconds);
                // Its counts say that a part was looked into: without any of them it may not have been.
                let is_unknown = counts.count() == 0
                    && *left_out == format!("{}_entries_total", column.subsystem.name);
                // A state that was never seen is none.
                let is_state = matches!(column.field.merge, Merge::Latest { .. });
                let is_there = column.name != *left_out && !is_unknown && !is_state;
                let expected = is_there.then_some(0);
                assert_eq!(column.raw(&row), expected, "{} without {left_out}", column.name);
            }
            for column in LATER_COLUMNS.iter() {
                let expected = (column.name != *left_out).then_some(0);
                assert_eq!(column.raw(&row), expected, "{} without {left_out}", column.name);
            }
            let met = row.rivals.each_ref().map(|rival| rival.is_some());
            assert_eq!(met, [true, false, true], "who held the lock is known whole or not at all");
        });
        assert_eq!(rows.unwrap(), 100);
    }
    columns::without(&whole, &path, &["time_seconds"], "weigh 0.0.1");
    let refused = each_call(&path, |_| {}).unwrap_err().to_string();
    assert!(refused.contains("no column time_seconds"), "{refused}");
}

#[test]
fn what_was_written_is_not_seen_where_a_file_does_not_say_it() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, path) = (folder.path().join("files.parquet"), folder.path().join("older.parquet"));
    let mut row = FileUse {
        object: Object::Regular,
        again_quality: Quality::Exact,
        readahead_quality: Quality::Exact,
        ..FileUse::followed(7, "/a".into())
    };
    (row.totals.by_calls.read_bytes, row.totals.by_calls.written_bytes) = (1009, 503);
    row.totals.by_kind.insert("plain".into(), row.totals.by_calls);
    let mut writer = IoWriter::create(&whole).unwrap();
    writer.push(&row).unwrap();
    writer.finish("cat a").unwrap();
    columns::without(&whole, &path, &["written_bytes", "vectored_read_bytes"], "weigh 0.0.1");
    let mut found = Vec::new();
    each_use(&path, |row| found.push(row.totals)).unwrap();
    let by_calls = found[0].by_calls;
    assert_eq!(by_calls.unseen, Unseen { reads: false, writes: true });
    assert_eq!((by_calls.read_bytes, by_calls.written_bytes), (1009, 0));
    assert_eq!(found[0].by_kind["plain"].read_bytes, 1009);
    assert!(found[0].by_kind["vectored"].unseen.reads, "{:?}", found[0].by_kind);
}
