//! A row of the table of usage as it is reported: numbers in base units, without what is nothing, each with its quality.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use weigh_schema::byte_text;
use weigh_schema::io::{
    Direction, FIELDS, Field, FileId, FileStates, FileUse, Fold, Numbers, Object, Slowest, Stride,
    Totals, Transfer, Transferred, Unseen, Use, Who, bucket_start,
};
use weigh_schema::{Number, Quality, Unit};

use super::usage_table::IoBook;

/// A thread, if it is one.
pub(super) fn told_tid(who: Who) -> Option<u32> {
    Some(who.tid).filter(|tid| *tid != 0)
}

/// What one process, or one thread of it, did with one file.
pub fn file_use(book: &IoBook, row: &Use, call: &dyn Fn(u64) -> String) -> FileUse {
    let (file, who) = (row.file, row.who);
    let slowest = Slowest {
        call: call(row.slowest.1),
        seconds: seconds(row.slowest.0),
        at_seconds: seconds(row.slowest.2),
    };
    // No request moves anything of a directory.
    let is_moved = row.object != Object::Directory;
    let moves_unseen = book.moves_unseen(who.pid) && is_moved;
    let may_move_unseen = moves_unseen || is_moved && book.may_be_passed_by(row.sources);
    let totals = totals(book, &row.numbers, moves_unseen);
    let moved_quality = moved_quality(&totals.by_calls, may_move_unseen);
    FileUse {
        name: book.name_of(file),
        name_base64: book.name_base64(file),
        later_name: book.later_name(file).map(byte_text::shown),
        later_name_base64: book.later_name(file).and_then(byte_text::base64),
        object: book.object_of(file, row.object),
        pid: who.pid,
        tid: told_tid(who),
        process: byte_text::shown(book.process_name(who.pid)),
        process_base64: byte_text::base64(book.process_name(who.pid)),
        device: file.device,
        inode: file.inode,
        generation: Some(file.generation),
        is_deleted: book.is_end_known(row) && book.is_deleted(file).unwrap_or(row.is_deleted),
        deleted_quality: deleted_quality(book, row),
        states: states(book, row),
        sources: row.sources.mechanisms(),
        moved_quality,
        moves_unseen: (moved_quality != Quality::Exact).then_some(moves_unseen),
        read_strides: strides(&row.directions[0]),
        write_strides: strides(&row.directions[1]),
        again_quality: match totals.by_calls.unseen {
            _ if book.unseen.any() => Quality::Unavailable,
            Unseen { reads: true, writes: true } => Quality::Unavailable,
            _ => again_quality(row, may_move_unseen),
        },
        readahead_quality: readahead_quality(book, row),
        slowest: (row.slowest.0 > 0).then_some(slowest),
        opens_quality: None,
        totals,
    }
}

/// Each file and process, those that took most time first, and behind them those where it was spent waiting for who is
/// at the other end: made when they are asked for, one by one, for a
/// row in words takes ten times the room that it takes in the book.
pub struct Files<'a> {
    book: &'a IoBook,
    keys: Vec<(FileId, Who)>,
    call: &'a dyn Fn(u64) -> String,
}

impl<'a> Files<'a> {
    /// All that are in the book.
    pub fn of(book: &'a IoBook, call: &'a dyn Fn(u64) -> String) -> Files<'a> {
        let mut keys: Vec<_> = book.rows.keys().copied().collect();
        keys.sort_by_cached_key(|key| {
            let row = book.rows[key].amounts();
            let bytes: u64 = row.numbers.bytes.iter().flatten().sum();
            let waits = book.object_of(key.0, row.object).is_waited_at();
            // As it is told: what is not known of it does not count.
            let times = Field::TIMES.iter().filter(|time| !book.unseen_fields.contains(time));
            let time: u64 = times.map(|time| row.numbers.get(*time)).sum();
            (waits, Reverse(time), Reverse(bytes), *key)
        });
        Files { book, keys, call }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = FileUse> {
        let rows = self.keys.iter().filter_map(|key| self.book.row(key));
        rows.map(|row| file_use(self.book, &row, self.call))
    }
}

impl Serialize for Files<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

/// Of a file that nobody looked for nothing is known; one that is seen to be deleted is not looked for.
fn states(book: &IoBook, row: &Use) -> FileStates {
    let is_gone = || book.is_end_known(row) && book.is_deleted(row.file).unwrap_or(row.is_deleted);
    match book.states(row.file) {
        Some(states) => states.clone(),
        None if is_gone() => FileStates::unknown(FileStates::NO_NAME),
        None => FileStates::default(),
    }
}

fn deleted_quality(book: &IoBook, row: &Use) -> Quality {
    match book.object_of(row.file, row.object) {
        Object::Regular if !book.is_end_known(row) => Quality::Unavailable,
        _ => Quality::Exact,
    }
}

/// Bytes read or written again are known where every access was at a known place, and none forgotten.
fn again_quality(row: &Use, moves_unseen: bool) -> Quality {
    let accesses = row.numbers.calls_of(0) + row.numbers.calls_of(1);
    match (row.object, row.numbers.get(Field::Placed)) {
        (Object::Regular | Object::Disk, _) if moves_unseen => Quality::Estimated,
        (Object::Regular | Object::Disk, placed) if placed < accesses => Quality::Estimated,
        (Object::Regular | Object::Disk, _) if row.numbers.get(Field::Forgotten) > 0 => {
            Quality::Estimated
        }
        (Object::Regular | Object::Disk, _) => Quality::Exact,
        _ => Quality::Unavailable,
    }
}

/// What was read ahead in vain is known where nobody may have used it unseen.
fn readahead_quality(book: &IoBook, row: &Use) -> Quality {
    match row.numbers.get(Field::AheadDoubts) {
        _ if book.is_ahead_unseen => Quality::Unavailable,
        0 => Quality::Exact,
        _ => Quality::Estimated,
    }
}

fn strides(direction: &Direction) -> Vec<Stride> {
    let strides = direction.strides.iter();
    let mut strides: Vec<Stride> =
        strides.map(|(bytes, times)| Stride { bytes: *bytes, times: *times }).collect();
    strides.sort_by_key(|stride| (Reverse(stride.times), stride.bytes));
    strides
}

/// The numbers of a file and process, or of several, as far as they are seen; `moves_unseen` says whether more may
/// have been moved by kinds that are not. A kind of transfer that cannot be seen at all is there without numbers.
/// So is mapped memory where only a part of it is seen, for that is by no call.
pub fn totals(book: &IoBook, numbers: &Numbers, moves_unseen: bool) -> Totals {
    let unseen = book.unseen;
    let is_hidden = |kind: Transfer| {
        book.unseen_kinds.contains(&kind) || kind == Transfer::Mapped && unseen.any()
    };
    let of_kind = |kind: Transfer| Transferred {
        read_bytes: numbers.bytes[kind as usize][0],
        read_calls: numbers.calls[kind as usize][0],
        written_bytes: numbers.bytes[kind as usize][1],
        write_calls: numbers.calls[kind as usize][1],
        // A mechanism that does not see reads and writes still sees copies: they are requests of their own.
        unseen: match kind {
            _ if book.unseen_kinds.contains(&kind) => Unseen { reads: true, writes: true },
            Transfer::Copied => Unseen::default(),
            _ => unseen,
        },
    };
    let is_any = |kind: &Transferred| {
        Transferred { unseen: Unseen::default(), ..*kind } != Transferred::default()
    };
    let kinds = Transfer::ALL.iter().map(|kind| (*kind, of_kind(*kind)));
    let told = kinds.filter(|(kind, of)| is_hidden(*kind) || is_any(of));
    let sizes = |direction: usize| -> BTreeMap<u64, u64> {
        let counts = numbers.sizes[direction].iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| (bucket_start(bucket), *count)).collect()
    };
    let known = FIELDS.iter().filter_map(|field| Some((*field, numbers.known(*field)?)));
    let number = |(field, raw): (Field, u64)| {
        let number = match field.unit() {
            Unit::Seconds => Number::Real(seconds(raw)),
            _ => Number::Whole(raw),
        };
        (field.key(), number)
    };
    Totals {
        by_calls: lower_bound(by_calls(numbers, unseen), moves_unseen),
        by_kind: told.map(|(kind, of)| (kind.name().to_string(), of)).collect(),
        read_sizes: sizes(0),
        write_sizes: sizes(1),
        numbers: known
            .filter(|(field, raw)| *raw > 0 || field.fold() == Fold::Least)
            .filter(|(field, _)| !book.unseen_fields.contains(field))
            .map(number)
            .collect(),
    }
}

/// Bytes and calls without what is mapped.
pub fn by_calls(numbers: &Numbers, unseen: Unseen) -> Transferred {
    Transferred {
        read_bytes: numbers.bytes_by_calls(0),
        read_calls: numbers.calls_of(0),
        written_bytes: numbers.bytes_by_calls(1),
        write_calls: numbers.calls_of(1),
        unseen,
    }
}

/// Where more may have been moved unseen: what was seen is a lower bound, and where that is nothing, nothing is known.
pub fn lower_bound(seen: Transferred, moves_unseen: bool) -> Transferred {
    let unseen = Unseen {
        reads: seen.unseen.reads || moves_unseen && seen.read_calls == 0,
        writes: seen.unseen.writes || moves_unseen && seen.write_calls == 0,
    };
    Transferred { unseen, ..seen }
}

/// How far those bytes and calls that are known can be trusted.
pub fn moved_quality(seen: &Transferred, moves_unseen: bool) -> Quality {
    match seen.unseen {
        Unseen { reads: true, writes: true } => Quality::Unavailable,
        _ if moves_unseen => Quality::Estimated,
        _ => Quality::Exact,
    }
}

/// Nanoseconds in the base unit.
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader of a pipe waits for its writer: that is not to hide the files.
    #[test]
    fn files_come_before_what_was_waited_at() {
        let mut book = IoBook::default();
        for (inode, object, time) in
            [(1, Object::Pipe, 900), (2, Object::Regular, 5), (3, Object::Regular, 7)]
        {
            let file = FileId { inode, ..FileId::default() };
            let mut used = Use { file, object, ..Use::default() };
            used.numbers.set(Field::ReadTime, time);
            book.add_use(&used);
        }
        let call = |_| String::new();
        let inodes: Vec<u64> = Files::of(&book, &call).iter().map(|row| row.inode).collect();
        assert_eq!(inodes, [3, 2, 1]);
    }
}
