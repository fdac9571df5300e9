//! The text of `darshan-parser`, and the table, say what is not in their numbers.
#![allow(clippy::unwrap_used)]

mod common {
    pub mod sample;
}

use common::sample;
use weigh_schema::Quality;
use weigh_schema::io::{FileUse, Object, Totals, Transferred, Trust, Unseen};
use weigh_show::Screen;
use weigh_show::darshan::{Began, Ranks, head, record};
use weigh_show::io::{Extent, Selection, Shown};

const SCREEN: Screen = Screen { columns: 100, is_terminal: true, is_cut: true, color: false };

fn selected(files: &[FileUse]) -> Selection {
    Selection::of(Extent::All(files.len()), files.to_vec())
}

fn plain(files: &Selection) -> Shown<'_> {
    Shown { files, details: false, folder: None }
}

#[test]
fn what_was_not_seen_stands_at_the_head() {
    let mut summary = sample::limited(4).summary;
    let found = summary.io.as_mut().unwrap();
    let trust = |quality, reason: &str| Trust { quality, reason: reason.to_string() };
    let hidden = trust(Quality::Unavailable, "no call tells of it");
    found.qualities.insert("mapped".to_string(), hidden);
    found.quality = Quality::Estimated;
    found.notes = vec!["two\nlines".to_string()];
    let text = head(&summary, &Ranks::default());
    for line in [
        "# not seen: bytes and calls, all together, are estimated",
        "# not seen: mapped unavailable: no call tells of it",
        "# not seen: two\\nlines",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')));
}

fn used(totals: Totals) -> FileUse {
    FileUse {
        name: "/a".to_string(),
        name_base64: None,
        later_name: None,
        later_name_base64: None,
        object: Object::Regular,
        pid: 7,
        tid: None,
        process: "cat".to_string(),
        device: 1,
        inode: 2,
        generation: None,
        is_deleted: false,
        deleted_quality: Quality::Exact,
        sources: Vec::new(),
        totals,
        read_strides: Vec::new(),
        write_strides: Vec::new(),
        moved_quality: Quality::Exact,
        again_quality: Quality::Unavailable,
        readahead_quality: Quality::Exact,
        slowest: None,
    }
}

#[test]
fn what_was_not_seen_of_a_file_is_minus_one() {
    let unseen = Unseen { reads: true, writes: false };
    let by_calls =
        Transferred { written_bytes: 70, write_calls: 7, unseen, ..Transferred::default() };
    let used = used(Totals { by_calls, ..Totals::default() });
    let text = record(&used, &Ranks::default());
    let value = |counter: &str| {
        let line = text.lines().find(|line| line.split('\t').nth(3) == Some(counter));
        line.and_then(|line| line.split('\t').nth(4)).unwrap().to_string()
    };
    for counter in ["READS", "BYTES_READ", "CONSEC_READS", "SEQ_READS", "MAX_BYTE_WRITTEN"] {
        assert_eq!(value(&format!("POSIX_{counter}")), "-1", "{counter}");
    }
    assert_eq!([value("POSIX_WRITES"), value("POSIX_BYTES_WRITTEN")], ["7", "70"]);
}

/// Of a recording that was cut short there are rows of those alone that had ended.
#[test]
fn who_has_no_row_has_a_rank_of_its_own() {
    let began = |started_ns, pid, parent| Began { started_ns, pid, parent, uid: 1000 };
    let users = [7, 8, 9, 10].into();
    let rank = |ranks: &Ranks, pid| {
        let text = record(&FileUse { pid, ..used(Totals::default()) }, ranks);
        text.split('\t').nth(1).unwrap().to_string()
    };
    let whole = Ranks::new(vec![began(2, 8, 7), began(1, 7, 1)], &users);
    assert_eq!([7, 8, 9, 10].map(|pid| rank(&whole, pid)), ["0", "1", "2", "3"]);
    let cut = Ranks::new(vec![began(2, 8, 9), began(3, 7, 9)], &users);
    assert_eq!([9, 8, 7, 10].map(|pid| rank(&cut, pid)), ["0", "1", "2", "3"]);
    let text = head(&sample::limited(4).summary, &cut);
    assert!(text.contains("# jobid: 9\n") && text.contains("# nprocs: 4\n"), "{text}");
}

/// The format has no way to say "at least".
#[test]
fn a_lower_bound_is_minus_one() {
    let by_calls = Transferred { written_bytes: 70, write_calls: 7, ..Transferred::default() };
    let exact = used(Totals { by_calls, ..Totals::default() });
    let bound = FileUse { moved_quality: Quality::Estimated, ..exact.clone() };
    let values = |used: &FileUse| {
        let text = record(used, &Ranks::default());
        let value = |counter: &str| {
            let line = text.lines().find(|line| line.split('\t').nth(3) == Some(counter));
            line.and_then(|line| line.split('\t').nth(4)).unwrap().to_string()
        };
        ["POSIX_WRITES", "POSIX_BYTES_WRITTEN", "POSIX_READS", "POSIX_OPENS"].map(value)
    };
    assert_eq!(values(&exact), ["7", "70", "0", "0"]);
    assert_eq!(values(&bound), ["-1", "-1", "-1", "0"]);
}

#[test]
fn what_mapped_memory_did_is_a_question_where_nobody_saw_it() {
    let found = sample::limited(4).summary.io.unwrap();
    let screen = Screen { columns: 200, is_terminal: true, is_cut: true, color: false };
    let questions = |unseen| {
        let mapped = Transferred { unseen, ..Transferred::default() };
        let by_kind = [("mapped".to_string(), mapped)].into();
        let shown = [used(Totals { by_kind, ..Totals::default() })];
        let text = weigh_show::io::render_recorded(
            &found,
            plain(&selected(&shown)),
            "files.parquet",
            screen,
        );
        let row = text.lines().find(|line| line.starts_with("/a  cat 7 ")).unwrap().to_string();
        row.matches('?').count()
    };
    assert_eq!(questions(Unseen::default()), 0);
    // What it had devices do is not known either.
    assert_eq!(questions(Unseen { reads: true, writes: true }), 3);
}

#[test]
fn files_with_long_names_can_be_told_apart_and_are_whole_where_no_terminal_is() {
    let found = sample::limited(4).summary.io.unwrap();
    let names = ["first", "second"].map(|name| format!("/{}/{name}", "deep/".repeat(40)));
    let shown = names.clone().map(|name| FileUse { name, ..used(Totals::default()) });
    for columns in 60..200 {
        let screen = Screen { columns, is_terminal: true, is_cut: true, color: false };
        let text = weigh_show::io::render_recorded(
            &found,
            plain(&selected(&shown)),
            "files.parquet",
            screen,
        );
        for name in ["/first", "/second"] {
            assert_eq!(text.matches(name).count(), 1, "{columns}: {text}");
        }
    }
    let file = Screen { columns: 80, is_terminal: false, is_cut: false, color: false };
    let text =
        weigh_show::io::render_recorded(&found, plain(&selected(&shown)), "files.parquet", file);
    assert!(names.iter().all(|name| text.contains(name.as_str())), "{text}");
}

#[test]
fn a_name_does_nothing_to_a_terminal_and_stays_in_its_column() {
    let used = FileUse { name: "/a\u{1b}[2J\tb\nc".to_string(), ..used(Totals::default()) };
    let text = record(&used, &Ranks::default());
    assert!(!text.is_empty());
    for line in text.lines() {
        assert_eq!(line.split('\t').nth(5), Some("/a\\u{1b}[2J?b?c"), "{line}");
    }
}

#[test]
fn the_rest_of_a_recording_is_where_it_is_kept() {
    let mut found = sample::limited(4).summary.io.unwrap();
    found.uses_total = 750;
    let shown = [used(Totals::default())];
    for kept_in in ["files.parquet", "journal.jsonl"] {
        let text =
            weigh_show::io::render_recorded(&found, plain(&selected(&shown)), kept_in, SCREEN);
        assert!(text.contains(&format!("and 749 more, in {kept_in}\n")), "{text}");
    }
}

#[test]
fn there_is_no_head_without_rows() {
    let found = sample::limited(4).summary.io.unwrap();
    let text = |rows| {
        let files = Selection::of(Extent::All(rows), [used(Totals::default())]);
        weigh_show::io::render(&found, plain(&files), SCREEN)
    };
    assert!(text(1).contains("  opens") && !text(1).contains("--rows"), "{}", text(1));
    assert!(!text(0).contains("  opens") && text(0).contains("and 1 more; --rows"), "{}", text(0));
}

/// What programs read whatever they do shares a line, unless it is written; the rest is shown from the folder on.
#[test]
fn a_table_of_files_fits_on_a_screen_and_folds_what_is_not_the_jobs() {
    let mut found = sample::limited(4).summary.io.unwrap();
    let file = |name: &str, object, written_bytes| {
        let by_calls = Transferred { written_bytes, write_calls: 1, ..Transferred::default() };
        let mut used = used(Totals { by_calls, ..Totals::default() });
        (used.name, used.object) = (name.to_string(), object);
        used
    };
    let mut files: Vec<FileUse> =
        (0..30).map(|n| file(&format!("/job/out{n}"), Object::Regular, 70)).collect();
    for name in ["/usr/lib/libc.so.6", "/etc/passwd", "/x/a.cpython-311.pyc", "/home/me/lib.so"] {
        files.push(file(name, Object::Regular, 0));
    }
    files.push(file("/etc/written", Object::Regular, 7));
    files.push(file("pipe:[4]", Object::Pipe, 5));
    files.push(file("/dev/pts/3", Object::Terminal, 5));
    files.push(file("tcp 127.0.0.1:5 -> 127.0.0.1:6", Object::Socket, 5));
    found.uses_total = files.len() as u64;
    let text = |extent, columns| {
        let files = &Selection::of(extent, files.clone());
        let shown = Shown { files, details: false, folder: Some("/job") };
        let screen = Screen { columns, ..SCREEN };
        weigh_show::io::render(&found, shown, screen)
    };
    for columns in [60, 80, 120, 200] {
        let text = text(Extent::Lines(24), columns);
        assert!(text.lines().count() <= 24, "{columns}: {text}");
        let rows = text.lines().filter(|line| line.starts_with("out")).count();
        assert!(rows >= 4, "{columns}: {text}");
        assert!(text.contains(&format!("and {} more; --rows", 32 - rows)), "{columns}: {text}");
        let is_wide = columns >= 80;
        assert!(!is_wide || text.contains("4 system files (--all)"), "{columns}: {text}");
        assert!(!is_wide || text.contains("2 pipes, sockets"), "{columns}: {text}");
    }
    let rows = text(Extent::Rows(99), 200);
    assert!(rows.contains("\n/etc/written  ") && rows.contains("\ntcp 127.0.0.1:5 -> "), "{rows}");
    assert!(!rows.contains("libc") && !rows.contains("pipe:[4]"), "{rows}");
    let all = text(Extent::All(99), 200);
    for name in ["/usr/lib/libc.so.6", "/etc/passwd", "a.cpython-311.pyc", "pipe:[4]", "/dev/pts/3"]
    {
        assert!(all.contains(name), "{name}: {all}");
    }
}

/// Where it is spent waiting for who is at the other end, time is told apart.
#[test]
fn time_on_files_is_told_apart() {
    let mut found = sample::limited(4).summary.io.unwrap();
    let timed = |object, seconds: f64| {
        let numbers = [("read_seconds".to_string(), weigh_schema::Number::Real(seconds))].into();
        FileUse { object, ..used(Totals { numbers, ..Totals::default() }) }
    };
    let files = [timed(Object::Regular, 0.1), timed(Object::Pipe, 1.5), timed(Object::Socket, 0.1)];
    found.totals.numbers = [("read_seconds".to_string(), weigh_schema::Number::Real(1.7))].into();
    let files = &Selection::of(Extent::Lines(24), files);
    let shown = Shown { files, details: false, folder: None };
    let screen = Screen { columns: 400, ..SCREEN };
    let text = weigh_show::io::render(&found, shown, screen);
    let words = "; 100.0 ms in calls on files, 1.600 s on pipes, sockets and terminals,";
    assert!(text.contains(words), "{text}");
}
