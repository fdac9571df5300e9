//! What is kept, told and forgotten.

use weigh_schema::io::{Field, Transfer};

use super::*;
use crate::inodes::{file_id, object, stat};

fn inode(scratch: &std::path::Path, name: &str) -> Inode {
    let file = std::fs::File::create(scratch.join(name)).expect("made");
    let fd: std::os::fd::OwnedFd = file.into();
    let stat = stat(&fd).expect("known");
    let (file, object) = (file_id(&stat), object(&stat));
    Inode { node: 7, fd, file, object, open: Mutex::default() }
}

fn piece(bytes: u64) -> Done {
    let (direction, from, asked) = (1, 0, bytes);
    let kind = Transfer::Positioned;
    Done::Moved(Call::Write, Piece { direction, kind, from, bytes, asked, is_direct: false })
}

fn uses(events: &[Event]) -> Vec<&Use> {
    let each = events.iter().filter_map(|event| match event {
        Event::Used(used) => Some(&**used),
        _ => None,
    });
    each.collect()
}

fn names(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Named(_))).count()
}

fn calls(events: &[Event]) -> Vec<&Called> {
    let each = events.iter().filter_map(|event| match event {
        Event::Called(called) => Some(called),
        _ => None,
    });
    each.collect()
}

const WHO: [Who; 2] = [Who { pid: 11, tid: 12 }, Who { pid: 11, tid: 13 }];

#[test]
fn threads_are_told_apart_where_that_is_wanted() {
    let scratch = tempfile::tempdir().expect("a folder");
    let inode = inode(scratch.path(), "file");
    for by_thread in [false, true] {
        let accounts = Accounts::new(Detail { by_thread, ..Detail::default() });
        for (who, bytes) in WHO.into_iter().zip([1009, 13]) {
            accounts.did(who, &inode, Instant::now(), piece(bytes));
        }
        accounts.stop();
        let events = accounts.events();
        let written = |used: &&Use| (used.who.tid, used.numbers.bytes[1][1]);
        let mut told: Vec<_> = uses(&events).iter().map(written).collect();
        told.sort_unstable();
        let expected = if by_thread { vec![(12, 1009), (13, 13)] } else { vec![(0, 1022)] };
        let kind = Transfer::Positioned as usize;
        assert_eq!(kind, 1, "where positioned transfers are");
        assert_eq!(told, expected, "{by_thread}");
    }
}

#[test]
fn what_is_open_stays_until_it_is_closed_and_the_others_are_handed_over() {
    let scratch = tempfile::tempdir().expect("a folder");
    let inode = inode(scratch.path(), "file");
    let accounts = Accounts::new(Detail::default());
    accounts.did(WHO[0], &inode, Instant::now(), Done::Opened { truncates: false });
    for pid in 100..100 + MANY as u32 {
        accounts.did(Who { pid, tid: pid }, &inode, Instant::now(), piece(3));
    }
    let events = accounts.events();
    assert_eq!((uses(&events).len(), names(&events)), (MANY, 1));
    assert_eq!(accounts.kept().uses.len(), 1);
    accounts.released(WHO[0], inode.file, true);
    accounts.stop();
    let events = accounts.events();
    let left = uses(&events);
    assert_eq!((left.len(), left[0].numbers.get(Field::Opens)), (1, 1));
    assert!(left[0].is_deleted);
}

#[test]
fn a_file_that_is_in_use_when_its_name_is_forgotten_is_named_again() {
    let scratch = tempfile::tempdir().expect("a folder");
    let [used, other] = ["used", "other"].map(|name| inode(scratch.path(), name));
    let accounts = Accounts::new(Detail::default());
    accounts.did(WHO[0], &used, Instant::now(), Done::Opened { truncates: false });
    assert_eq!(names(&accounts.events()), 1);
    accounts.forget_names(&[used.file, other.file]);
    assert_eq!(names(&accounts.events()), 1, "its row is yet to come");
    assert_eq!(names(&accounts.events()), 0);
}

#[test]
fn each_call_is_told_or_counted_as_untold() {
    let scratch = tempfile::tempdir().expect("a folder");
    let inode = inode(scratch.path(), "file");
    let accounts = Accounts::new(Detail { each_call: true, by_thread: false });
    let beyond = 5;
    for _ in 0..MOST_CALLED + beyond {
        accounts.did(WHO[1], &inode, Instant::now(), piece(7));
    }
    let events = accounts.events();
    let told = calls(&events);
    assert_eq!((told.len(), accounts.untold().calls_total as usize), (MOST_CALLED, beyond));
    assert_eq!(accounts.untold().written_bytes as usize, 7 * beyond);
    assert_eq!((told[0].pid, told[0].tid, told[0].bytes), (11, 13, 7));
    accounts.failed(WHO[0], &inode, Call::Read, Instant::now(), -5);
    let events = accounts.events();
    let failed = calls(&events);
    assert_eq!((failed.len(), failed[0].error, failed[0].calls), (1, -5, 0));
}

#[test]
fn nothing_is_counted_any_more_once_it_is_stopped() {
    let scratch = tempfile::tempdir().expect("a folder");
    let inode = inode(scratch.path(), "file");
    let accounts = Accounts::new(Detail { each_call: true, by_thread: false });
    accounts.did(WHO[0], &inode, Instant::now(), piece(1009));
    accounts.stop();
    accounts.did(WHO[0], &inode, Instant::now(), piece(13));
    accounts.path_call(std::process::id(), Call::Unlink, Instant::now(), 0);
    let events = accounts.events();
    assert_eq!(uses(&events)[0].numbers.bytes[1][1], 1009);
    assert_eq!(calls(&events).len(), 1);
    // A caller from now on is looked up, and no longer reported.
    accounts.who(std::process::id());
    assert!(accounts.so_far().is_empty() && accounts.events().is_empty());
}
