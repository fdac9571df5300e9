//! Each rule speaks at its threshold and is silent just below it.

use super::*;
use weigh_schema::io::{Field, Numbers, Object, Transfer, Use, Who};

fn speaks(numbers: Numbers, processes: usize) -> Vec<String> {
    let mut book = IoBook::default();
    for pid in 0..processes {
        let row = Use { object: Object::Regular, numbers: numbers.clone(), ..Use::default() };
        book.rows.insert((FileId::default(), Who { pid: pid as u32, tid: 0 }), RowState::of(row));
    }
    let advice = advice(&book);
    assert!(advice.iter().all(|advice| !advice.figures.is_empty() && !advice.text.is_empty()));
    advice.into_iter().map(|advice| advice.rule).collect()
}

fn moved(direction: usize, calls: u64, bytes: u64) -> Numbers {
    let mut numbers = Numbers::default();
    numbers.calls[Transfer::Plain as usize][direction] = calls;
    numbers.bytes[Transfer::Plain as usize][direction] = bytes;
    numbers
}

fn with(mut numbers: Numbers, fields: &[(Field, u64)]) -> Numbers {
    fields.iter().for_each(|(field, number)| numbers.set(*field, *number));
    numbers
}

#[test]
fn small_calls() {
    for (calls, is_so) in [(1000, true), (999, false)] {
        let mut numbers =
            with(moved(0, calls, 512 * calls), &[(Field::ConsecutiveReads, calls - 1)]);
        numbers.sizes[0][10] = calls;
        assert_eq!(speaks(numbers.clone(), 1), if is_so { vec!["small_calls"] } else { vec![] });
        numbers.set(Field::ConsecutiveReads, 0);
        assert!(speaks(numbers, 1).is_empty());
    }
}

#[test]
fn reread() {
    let at = |again| with(moved(0, 20, 32 << 20), &[(Field::Reread, again)]);
    assert_eq!(speaks(at(16 << 20), 1), ["reread"]);
    assert!(speaks(at((16 << 20) - 1), 1).is_empty());
}

#[test]
fn random_reads() {
    let at = |random, filled| {
        let fields = [(Field::RandomReads, random), (Field::Filled, filled)];
        with(moved(0, 1000, 4_096_000), &fields)
    };
    assert_eq!(speaks(at(1000, 8_192_001), 1), ["random_reads"]);
    assert!(speaks(at(1000, 8_192_000), 1).is_empty());
    assert!(speaks(at(999, 8_192_001), 1).is_empty());
}

#[test]
fn many_opens() {
    let at = |opens| with(moved(0, 3999, 3999), &[(Field::Opens, opens)]);
    assert_eq!(speaks(at(1000), 1), ["many_opens"]);
    assert!(speaks(at(999), 1).is_empty());
    let by_each = |opens| with(moved(0, 1, 100), &[(Field::Opens, opens)]);
    assert_eq!(speaks(by_each(2), 500), ["many_opens"]);
    assert!(speaks(by_each(1), 1000).is_empty(), "none of them can keep it open");
}

#[test]
fn fsync_each_write() {
    let at = |small| with(moved(1, 20, 2000), &[(Field::SmallSyncs, small), (Field::Syncs, 30)]);
    assert_eq!(speaks(at(20), 1), ["fsync_each_write"]);
    assert!(speaks(at(19), 1).is_empty());
}

#[test]
fn unaligned_direct() {
    let at = |calls| with(moved(0, 200, 1000), &[(Field::Unaligned, calls), (Field::Direct, 200)]);
    assert_eq!(speaks(at(100), 1), ["unaligned_direct"]);
    assert!(speaks(at(99), 1).is_empty());
}

#[test]
fn many_readers() {
    let reach =
        |bytes: u64| with(moved(0, 16, bytes), &[(Field::Lowest, 0), (Field::Highest, 16 << 20)]);
    assert_eq!(speaks(reach(16 << 20), 4), ["many_readers"]);
    assert!(speaks(reach(16 << 20), 3).is_empty());
    assert!(speaks(reach((16 << 20) - 1), 4).is_empty());
}

#[test]
fn only_those_who_did_it_are_counted() {
    let mut written = with(
        moved(1, 3001, 1237 * 3001),
        &[(Field::ConsecutiveWrites, 3000), (Field::Opens, 5000)],
    );
    written.sizes[1][11] = 3001;
    let mut book = IoBook::default();
    let used = [
        written,
        moved(0, 20, 512),
        moved(0, 20, 512),
        with(moved(0, 20, 512), &[(Field::Opens, 1)]),
    ];
    for (pid, numbers) in used.into_iter().enumerate() {
        let row = Use { object: Object::Regular, numbers, ..Use::default() };
        book.rows.insert((FileId::default(), Who { pid: pid as u32, tid: 0 }), RowState::of(row));
    }
    let told = advice(&book).into_iter().map(|advice| {
        let processes = advice.figures.get("processes_total").map(|number| number.as_f64());
        (advice.rule, processes, advice.text)
    });
    let mut told: Vec<_> = told.collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    let [(opens, openers, by_openers), (small, writers, by_writers)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((opens.as_str(), *openers), ("many_opens", Some(2.0)));
    assert_eq!((small.as_str(), *writers), ("small_calls", Some(1.0)));
    assert!(
        by_openers.contains("by 2 processes") && by_writers.contains("by 1 process;"),
        "{told:?}"
    );
}
