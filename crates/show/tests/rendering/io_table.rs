//! The table of files says what is not in its numbers.

use crate::common::sample;
use weigh_schema::io::{FileUse, Object, Totals, Transferred, Unseen};
use weigh_show::Screen;
use weigh_show::io::{Extent, Selection, Shown};

const SCREEN: Screen = Screen { columns: 100, is_terminal: true, is_cut: true, color: false };

fn selected(files: &[FileUse]) -> Selection {
    Selection::of(Extent::All(files.len()), files.to_vec())
}

fn plain(files: &Selection) -> Shown<'_> {
    Shown { files, details: false, folder: None }
}

#[test]
fn what_mapped_memory_did_is_a_question_where_nobody_saw_it() {
    let found = sample::limited(4).summary.io.unwrap();
    let screen = Screen { columns: 200, is_terminal: true, is_cut: true, color: false };
    let questions = |unseen| {
        let mapped = Transferred { unseen, ..Transferred::default() };
        let by_kind = [("mapped".to_string(), mapped)].into();
        let shown = [sample::used(Totals { by_kind, ..Totals::default() })];
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
    let shown = names.clone().map(|name| FileUse { name, ..sample::used(Totals::default()) });
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
fn the_rest_of_a_recording_is_where_it_is_kept() {
    let mut found = sample::limited(4).summary.io.unwrap();
    found.uses_total = 750;
    let shown = [sample::used(Totals::default())];
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
        let files = Selection::of(Extent::All(rows), [sample::used(Totals::default())]);
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
        let mut used = sample::used(Totals { by_calls, ..Totals::default() });
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
        FileUse { object, ..sample::used(Totals { numbers, ..Totals::default() }) }
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
