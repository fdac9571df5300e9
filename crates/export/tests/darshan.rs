//! The text of `darshan-parser` says what is not in its numbers.
#![allow(clippy::unwrap_used)]

#[path = "../../show/tests/rendering/common/sample.rs"]
mod sample;

use weigh_export::recording::darshan::{ProcessStart, Ranks, head, record};
use weigh_schema::Quality;
use weigh_schema::io::{FileUse, Totals, Transferred, Trust, Unseen};

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

#[test]
fn what_was_not_seen_of_a_file_is_minus_one() {
    let unseen = Unseen { reads: true, writes: false };
    let by_calls =
        Transferred { written_bytes: 70, write_calls: 7, unseen, ..Transferred::default() };
    let used = sample::used(Totals { by_calls, ..Totals::default() });
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
    let began = |started_ns, pid, parent| ProcessStart { started_ns, pid, parent, uid: 1000 };
    let users = [7, 8, 9, 10].into();
    let rank = |ranks: &Ranks, pid| {
        let text = record(&FileUse { pid, ..sample::used(Totals::default()) }, ranks);
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
    let exact = sample::used(Totals { by_calls, ..Totals::default() });
    let bound =
        FileUse { moved_quality: Quality::Estimated, moves_unseen: Some(true), ..exact.clone() };
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
fn a_name_does_nothing_to_a_terminal_and_stays_in_its_column() {
    let used = FileUse { name: "/a\u{1b}[2J\tb\nc".to_string(), ..sample::used(Totals::default()) };
    let text = record(&used, &Ranks::default());
    assert!(!text.is_empty());
    for line in text.lines() {
        assert_eq!(line.split('\t').nth(5), Some("/a\\u{1b}[2J?b?c"), "{line}");
    }
}
