use super::*;
use weigh_schema::io::Stretch;

fn read(from: u64, to: u64, at: u64) -> Use {
    let mut used = Use { who: Who { pid: 7, tid: 0 }, ..Use::default() };
    used.numbers.bytes[0][0] = to - from;
    used.numbers.set(Field::Last, at);
    used.directions[0].seen.push(Stretch { from, to });
    used
}

#[test]
fn what_is_read_again_after_a_new_open_is_known() {
    let mut book = IoBook::default();
    for used in [read(0, 100, 1), read(50, 150, 2), read(0, 150, 3)] {
        book.add(Event::Used(Box::new(used)));
    }
    let row = book.row(&(FileId::default(), Who { pid: 7, tid: 0 })).expect("a row");
    assert_eq!(row.numbers.bytes[0][0], 350);
    assert_eq!(row.numbers.get(Field::Reread), 50 + 150);
    assert_eq!(row.directions[0].seen, [Stretch { from: 0, to: 150 }]);
}

/// What a device writes of a file whose row has left the book has no name: it is in the rest.
#[test]
fn what_a_device_did_joins_its_row_or_the_rest() {
    let mut book = IoBook::default();
    let mut written = Use { who: Who { pid: 7, tid: 0 }, ..Use::default() };
    written.numbers.set(Field::DeviceWritten, 4096);
    book.add_use(&written);
    assert_eq!(book.rows().count(), 0);
    assert_eq!(book.rest.numbers.get(Field::DeviceWritten), 4096);
    book.add_use(&read(0, 100, 1));
    book.add_use(&written);
    let row = book.row(&(FileId::default(), written.who)).expect("a row");
    assert_eq!(row.numbers.get(Field::DeviceWritten), 4096);
}

#[test]
fn what_a_process_asked_for_adds_up_whenever_it_is_told() {
    let mut book = IoBook::default();
    let asked = |name: &str, path_calls| {
        let name = name.to_string();
        Event::Asked(Process { pid: 7, name, path_calls, failed_opens: 1, ..Process::default() })
    };
    // Once it could not be looked at.
    for event in [asked("sh", 3), asked("", 5), asked("cp", 11)] {
        book.add(event);
    }
    let process = &book.processes[&7];
    assert_eq!((process.path_calls, process.failed_opens), (19, 3));
    assert_eq!(process.name, "cp");
}

#[test]
fn too_many_processes_are_counted_and_those_with_files_stay() {
    let mut book = IoBook::default();
    book.add_use(&read(0, 3, 1));
    for pid in 1..=MOST_PROCESSES as u32 {
        let (started_ns, path_calls) = (u64::from(pid), 3);
        book.add(Event::Asked(Process { pid, started_ns, path_calls, ..Process::default() }));
    }
    assert!(book.make_room().is_empty());
    let left = book.left_processes;
    assert_eq!(left.processes as usize, MOST_PROCESSES / 2);
    let kept: u64 = book.processes.values().map(|process| process.path_calls).sum();
    assert_eq!(kept + left.path_calls, 3 * MOST_PROCESSES as u64);
    assert!(book.processes.contains_key(&7), "it has a row");
    assert!(!book.processes.contains_key(&8) && book.processes.contains_key(&100_000));
}

#[test]
fn too_many_files_go_to_the_rest_and_none_is_lost() {
    let mut book = IoBook::default();
    for inode in 0..MOST_ROWS as u64 {
        let file = FileId { inode, ..FileId::default() };
        book.add_use(&Use { file, ..read(0, 3, inode + 1) });
    }
    let old = book.make_room();
    assert_eq!(old.len() + book.rows.len(), MOST_ROWS);
    assert!(old.iter().all(|((file, _), _)| file.inode <= MOST_ROWS as u64 / 2));
    let kept: u64 = book.rows().map(|row| row.numbers.bytes[0][0]).sum();
    assert_eq!(kept + book.rest.numbers.bytes[0][0], 3 * MOST_ROWS as u64);
    assert_eq!(book.rest_uses as usize, old.len());
    assert!(book.make_room().is_empty());
}

#[test]
fn what_is_kept_comes_back_as_it_was() {
    let file = FileId { inode: 7, ..FileId::default() };
    let mut row = Use {
        file,
        who: Who { pid: 5, tid: 6 },
        object: Object::Disk,
        slowest: (1, 2, 3),
        sources: Sources::BPF,
        ..Use::default()
    };
    let key = (row.file, row.who);
    assert_eq!(RowState::of(row.clone()).row(&key), row);
    assert!(RowState::of(row.clone()).words.is_empty());
    for (place, word) in row.numbers.words_mut().enumerate().filter(|(i, _)| i % 3 == 0) {
        *word = 7 + place as u64;
    }
    row.numbers.set(Field::Lowest, 0);
    row.places = OffsetHistogram { shift: 13, ..OffsetHistogram::default() };
    row.places.bytes[1][PLACES - 1] = 5;
    row.directions[1].seen.push(Stretch { from: 3, to: 4 });
    let kept = RowState::of(row.clone());
    assert_eq!(kept.row(&key), row);
    let last = row.numbers.get(Field::Last).max(row.numbers.get(Field::WrittenLast));
    assert_eq!((kept.amounts().numbers, kept.last), (row.numbers.clone(), last));
}

/// What one file takes: so many of them are kept that it matters.
#[test]
fn a_file_takes_little_room() {
    assert!(size_of::<RowState>() <= 200, "{}", size_of::<RowState>());
}
