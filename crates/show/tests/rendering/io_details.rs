//! What stands below a file's row in the table, where details are wanted.

use crate::common::sample;
use serde_json::{Value, json};
use weigh_schema::io::FileUse;
use weigh_show::Screen;
use weigh_show::io::{Extent, Selection, Shown, render_recorded};

/// A file of which much is known; `more` takes the place of what it names.
fn used(more: Value) -> FileUse {
    let mut used = json!({
        "name": "/data", "object": "regular", "pid": 7, "process": "cat", "device": 1, "inode": 2,
        "read_bytes": 409_600, "read_calls": 100, "written_bytes": 0, "write_calls": 0,
        "by_kind": {
            "plain": { "read_bytes": 405_504, "read_calls": 99, "written_bytes": 0, "write_calls": 0 },
            "vectored": { "read_bytes": 4096, "read_calls": 1, "written_bytes": 0, "write_calls": 0 },
            "mapped": {},
        },
        "read_sizes": { "0": 1, "4096": 99, "67108864": 2 },
        "numbers": {
            "read_seconds": 0.5, "opens_total": 1, "syncs_total": 0, "cached_reads_total": 80,
            "consecutive_reads_total": 60, "random_reads_total": 39, "reread_bytes": 8192,
            "lowest_bytes": 0, "highest_bytes": 409_600, "first_seconds": 0.0, "last_seconds": 2.0,
            "readahead_unused_bytes": 131_072, "device_read_bytes": 262_144, "written_by_kernel_bytes": 4096,
        },
        "read_strides": [{ "bytes": -65_536, "times": 30 }, { "bytes": 0, "times": 2 }],
        "again_quality": "exact",
        "slowest": { "call": "read", "seconds": 0.125, "at_seconds": 1.5 },
    });
    more.as_object().unwrap().iter().for_each(|(key, value)| used[key] = value.clone());
    serde_json::from_value(used).unwrap()
}

fn table(used: FileUse, details: bool, columns: usize) -> String {
    let found = sample::limited(4).summary.io.unwrap();
    let screen = Screen { columns, is_terminal: true, is_cut: true, color: false };
    let files = &Selection::of(Extent::All(1), [used]);
    let shown = Shown { files, details, folder: None };
    render_recorded(&found, shown, "files.parquet", screen)
}

/// The lines below the row, by their titles.
fn below(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().skip_while(|line| !line.contains("cat 7")).skip(1);
    let lines = lines.take_while(|line| line.starts_with("    "));
    let split = |line: &str| {
        let (title, words) = line.split_at(25);
        (title.trim().to_string(), words.trim().to_string())
    };
    lines.map(split).collect()
}

#[test]
fn all_that_is_known_of_a_file_stands_below_its_row() {
    let found = below(&table(used(json!({})), true, 200));
    let expected = [
        (
            "time",
            "reading 500.0 ms, first used at 0 s, last used at 2.000 s, slowest read took 125.0 ms and ended at 1.500 s",
        ),
        ("calls", "opens 1"),
        ("kinds of transfer", "plain 396.0 KiB read by 99, vectored 4.0 KiB read by 1"),
        ("sizes of reads", "0 B: 1, 4.0 KiB to 8.0 KiB: 99, 64.0 MiB and more: 2"),
        ("strides of reads", "64.0 KiB back: 30, at the same offset: 2"),
        ("order of reads", "consecutive 60, random 39"),
        ("offsets", "from 0 B, to 400.0 KiB"),
        ("again", "re-read 8.0 KiB"),
        ("page cache", "reads from it alone 80 of 100 (80 %), read ahead, never used 128.0 KiB"),
        ("devices", "read 256.0 KiB"),
        ("written back", "by the kernel 4.0 KiB"),
    ];
    let expected = expected.map(|(title, words)| (title.to_string(), words.to_string()));
    assert_eq!(found, expected);
    assert!(below(&table(used(json!({})), false, 200)).is_empty(), "only where they are wanted");
}

#[test]
fn details_are_as_wide_as_the_terminal_and_whole() {
    let words = |columns| {
        let text = table(used(json!({})), true, columns);
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
        below(&text).into_iter().map(|(_, words)| words).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words(80), words(200));
}

#[test]
fn what_is_not_exact_says_so_and_why_and_is_never_nothing() {
    let line = |more: Value, title: &str| {
        let found = below(&table(used(more), true, 200));
        found.into_iter().filter(|(found, _)| found == title).map(|(_, words)| words).collect()
    };
    let line = |more: Value, title: &str| -> Vec<String> { line(more, title) };
    let forgot = json!({ "again_quality": "estimated", "numbers": { "reread_bytes": 8192, "forgotten_total": 3 } });
    assert_eq!(line(forgot.clone(), "again"), ["re-read ≥ 8.0 KiB, stretches forgotten 3"]);
    assert!(
        line(forgot, "not exact")[0].contains("estimated: stretches of the file were forgotten")
    );
    let placeless = json!({ "again_quality": "estimated", "numbers": {} });
    assert!(line(placeless, "not exact")[0].contains("the offset of some"));
    let moved =
        json!({ "moved_quality": "estimated", "moves_unseen": true, "again_quality": "estimated" });
    assert_eq!(line(moved.clone(), "order of reads"), ["consecutive ≥ 60, random ≥ 39"]);
    assert!(line(moved.clone(), "sizes of reads")[0].contains("8.0 KiB: ≥ 99"));
    assert!(line(moved, "not exact")[0].starts_with("reads and writes estimated: "));
    // Recordings of before do not tell it: there an estimate was a lower bound. Now it may be only possible.
    let mut told = json!({ "moved_quality": "estimated", "again_quality": "estimated" });
    assert_eq!(line(told.clone(), "order of reads"), ["consecutive ≥ 60, random ≥ 39"]);
    told["moves_unseen"] = json!(false);
    assert_eq!(line(told, "order of reads"), ["consecutive 60, random 39"]);
    let ahead = json!({ "readahead_quality": "estimated" });
    assert!(line(ahead.clone(), "page cache")[0].contains("never used ≤ 128.0 KiB"));
    assert!(line(ahead, "not exact")[0].contains("an upper bound"));
    // A pipe has no places: there is nothing to say of what was read again.
    let pipe = json!({ "object": "pipe", "again_quality": "unavailable", "numbers": {} });
    assert!(line(pipe.clone(), "not exact").is_empty() && line(pipe, "again").is_empty());
}
