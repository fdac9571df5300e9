//! What was read and written from one look to the next.
//!
//! Reads the book at each look; emits a row for each file and process that was used since the last one, and
//! for those that moved most also where in the file. What is beyond is added up in one row without a name:
//! the rows of all looks add up to what the book has in the end.

use std::collections::HashMap;

use weigh_schema::byte_text;
use weigh_schema::io::{FileId, Moment, OffsetHistogram, PlaceMoment, Transfer, Use, Who};

use super::file_use::told_tid;
use super::usage_table::{IoBook, RowState};

/// So many files and processes have rows of their own at a look.
const MOST_USES: usize = 256;
/// So many of them have their places told.
const MOST_PLACED: usize = 32;

/// What is added up over time: numbers that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amounts {
    /// Bytes read, calls that read, bytes written, calls that write.
    by_calls: [u64; 4],
    /// Bytes read, and written.
    mapped: [u64; 2],
    devices: [u64; 2],
    time_ns: u64,
    /// Calls that move nothing: a use that has only those is one, too.
    others: u64,
}

impl Amounts {
    fn of(row: &Use) -> Amounts {
        let numbers = &row.numbers;
        let direction = |which| [numbers.bytes_by_calls(which), numbers.calls_of(which)];
        let [[read, reads], [written, writes]] = [direction(0), direction(1)];
        Amounts {
            by_calls: [read, reads, written, writes],
            mapped: numbers.bytes[Transfer::Mapped as usize],
            devices: numbers.bytes_of_devices(),
            time_ns: numbers.time_ns(),
            others: numbers.other_calls(),
        }
    }

    fn combine(self, other: Amounts, combine: fn(u64, u64) -> u64) -> Amounts {
        Amounts {
            by_calls: std::array::from_fn(|i| combine(self.by_calls[i], other.by_calls[i])),
            mapped: std::array::from_fn(|i| combine(self.mapped[i], other.mapped[i])),
            devices: std::array::from_fn(|i| combine(self.devices[i], other.devices[i])),
            time_ns: combine(self.time_ns, other.time_ns),
            others: combine(self.others, other.others),
        }
    }

    fn since(self, before: Amounts) -> Amounts {
        self.combine(before, u64::saturating_sub)
    }

    fn plus(self, more: Amounts) -> Amounts {
        self.combine(more, u64::saturating_add)
    }

    fn bytes(&self) -> u64 {
        self.by_calls[0]
            + self.by_calls[2]
            + self.mapped[0]
            + self.mapped[1]
            + self.devices[0]
            + self.devices[1]
    }

    fn moment(&self) -> Moment {
        let [read_bytes, read_calls_total, written_bytes, write_calls_total] =
            self.by_calls.map(Some);
        let [mapped_read_bytes, mapped_written_bytes] = self.mapped;
        let [device_read_bytes, device_written_bytes] = self.devices;
        Moment {
            read_bytes,
            read_calls_total,
            written_bytes,
            write_calls_total,
            mapped_read_bytes: Some(mapped_read_bytes),
            mapped_written_bytes: Some(mapped_written_bytes),
            device_read_bytes: Some(device_read_bytes),
            device_written_bytes: Some(device_written_bytes),
            call_seconds: self.time_ns as f64 / 1e9,
            ..Moment::default()
        }
    }
}

type Key = (FileId, Who);

/// What is known up to the last look.
#[derive(Debug, Default)]
pub struct IoSeries {
    /// What was known of each use at the last look.
    known: HashMap<Key, RowState>,
    /// Of uses that have left the book since the last look.
    left: Amounts,
    left_uses: u64,
    /// What the kernel side could not keep by file, at the last look.
    rest: Amounts,
}

/// The rows of one look.
#[derive(Debug, Default)]
pub struct Step {
    /// By file and process.
    pub moments: Vec<Moment>,
    /// Where in the files.
    pub places: Vec<PlaceMoment>,
}

impl IoSeries {
    /// A use leaves the book to make room: it will begin anew if it comes back.
    pub fn leaves(&mut self, row: &Use) {
        let known = self.known.remove(&(row.file, row.who)).unwrap_or_default();
        let more = Amounts::of(row).since(Amounts::of(&known.amounts()));
        self.left_uses += u64::from(more != Amounts::default());
        self.left = self.left.plus(more);
    }

    /// What has come since the last look, which was so many seconds ago. `rest` is what has no file.
    pub fn step(&mut self, book: &IoBook, rest: Option<&Use>, time_ns: i64, seconds: f64) -> Step {
        let mut used: Vec<(Amounts, Key)> = book
            .rows
            .iter()
            .map(|(key, row)| (self.since(key, &row.amounts()), *key))
            .filter(|(more, _)| *more != Amounts::default())
            .collect();
        used.sort_by_key(|(more, key)| (std::cmp::Reverse((more.bytes(), more.time_ns)), *key));
        let mut others = std::mem::take(&mut self.left);
        let mut other_uses = std::mem::take(&mut self.left_uses);
        let rest = rest.map(Amounts::of).unwrap_or_default();
        let of_rest = rest.since(std::mem::replace(&mut self.rest, rest));
        others = others.plus(of_rest);
        other_uses += u64::from(of_rest != Amounts::default());
        let mut step = Step::default();
        for (place, (more, key)) in used.into_iter().enumerate() {
            let Some(now) = book.rows.get(&key).map(RowState::amounts) else { continue };
            let known = self.known.insert(key, RowState::of(now.clone()));
            let places = now.places.since(&known.unwrap_or_default().amounts().places);
            if place >= MOST_USES {
                others = others.plus(more);
                other_uses += 1;
                continue;
            }
            let moment =
                named(book, key, Moment { time_ns, seconds, uses_total: 1, ..more.moment() });
            if place < MOST_PLACED {
                step.places.extend(place_moments(&moment, &places));
            }
            step.moments.push(moment);
        }
        if other_uses > 0 {
            step.moments.push(Moment {
                time_ns,
                seconds,
                uses_total: other_uses,
                ..others.moment()
            });
        }
        if book.unseen_kinds.contains(&Transfer::Mapped) {
            for moment in &mut step.moments {
                (moment.mapped_read_bytes, moment.mapped_written_bytes) = (None, None);
                // A mechanism that does not see the page cache does not see what it has from devices.
                (moment.device_read_bytes, moment.device_written_bytes) = (None, None);
            }
        }
        let anyone_moves_unseen = book.anyone_moves_unseen();
        for moment in &mut step.moments {
            let moves_unseen = match moment.pid {
                0 => anyone_moves_unseen,
                pid => book.moves_unseen(pid),
            };
            if moves_unseen {
                leave_lower_bounds(moment);
            }
            if book.are_devices_unseen {
                (moment.device_read_bytes, moment.device_written_bytes) = (None, None);
            }
            if book.unseen.reads {
                (moment.read_bytes, moment.read_calls_total) = (None, None);
                moment.mapped_read_bytes = None;
            }
            if book.unseen.writes {
                (moment.written_bytes, moment.write_calls_total) = (None, None);
                moment.mapped_written_bytes = None;
            }
        }
        step
    }

    fn since(&self, key: &Key, row: &Use) -> Amounts {
        let before = self.known.get(key).map(|known| Amounts::of(&known.amounts()));
        Amounts::of(row).since(before.unwrap_or_default())
    }
}

/// More may have been moved unseen: where nothing was seen, nothing is known.
fn leave_lower_bounds(moment: &mut Moment) {
    if moment.read_calls_total == Some(0) {
        (moment.read_bytes, moment.read_calls_total) = (None, None);
    }
    if moment.write_calls_total == Some(0) {
        (moment.written_bytes, moment.write_calls_total) = (None, None);
    }
}

fn named(book: &IoBook, (file, who): Key, moment: Moment) -> Moment {
    Moment {
        pid: who.pid,
        tid: told_tid(who),
        process: byte_text::shown(book.process_name(who.pid)),
        process_base64: byte_text::base64(book.process_name(who.pid)),
        path: book.name_of(file),
        path_base64: book.name_base64(file),
        device: file.device,
        inode: file.inode,
        ..moment
    }
}

fn place_moments(moment: &Moment, places: &OffsetHistogram) -> impl Iterator<Item = PlaceMoment> {
    places.used().map(|(from_bytes, to_bytes, read_bytes, written_bytes)| PlaceMoment {
        time_ns: moment.time_ns,
        pid: moment.pid,
        tid: moment.tid,
        path: moment.path.clone(),
        path_base64: moment.path_base64.clone(),
        device: moment.device,
        inode: moment.inode,
        from_bytes,
        to_bytes,
        read_bytes,
        written_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(inode: u64, bytes: u64) -> Use {
        let mut used = Use { file: FileId { inode, ..FileId::default() }, ..Use::default() };
        used.numbers.bytes[Transfer::Plain as usize][0] = bytes;
        used.numbers.calls[Transfer::Plain as usize][0] = 1;
        used.places.shift = 12;
        used.places.bytes[0][(inode % 32) as usize] = bytes;
        used
    }

    fn sum(step: &Step) -> (u64, u64) {
        let bytes = step.moments.iter().filter_map(|moment| moment.read_bytes).sum();
        (bytes, step.moments.iter().map(|moment| moment.uses_total).sum())
    }

    #[test]
    fn each_look_has_what_came_since_the_last_one() {
        let (mut book, mut series) = (IoBook::default(), IoSeries::default());
        book.add_use(&used(1, 1009));
        let first = series.step(&book, None, 1, 0.5);
        assert_eq!(sum(&first), (1009, 1));
        assert_eq!(first.places.len(), 1);
        assert_eq!((first.places[0].from_bytes, first.places[0].to_bytes), (4096, 8192));
        assert!(series.step(&book, None, 2, 0.5).moments.is_empty());
        book.add_use(&used(1, 11));
        book.add_use(&used(2, 13));
        let third = series.step(&book, None, 3, 0.5);
        assert_eq!(sum(&third), (24, 2));
        assert_eq!(third.places.iter().map(|place| place.read_bytes).sum::<u64>(), 24);
    }

    #[test]
    fn what_leaves_the_book_and_what_never_was_in_it_is_with_the_others() {
        let (mut book, mut series) = (IoBook::default(), IoSeries::default());
        book.add_use(&used(1, 1009));
        series.step(&book, None, 1, 0.5);
        book.add_use(&used(1, 5));
        series.leaves(&book.rows().next().expect("one"));
        let mut again = IoBook::default();
        again.add_use(&used(1, 3));
        let rest = used(0, 7);
        let step = series.step(&again, Some(&rest), 2, 0.5);
        assert_eq!(sum(&step), (5 + 3 + 7, 3));
        let last = step.moments.last().expect("the others");
        assert_eq!((last.path.as_str(), last.uses_total, last.read_bytes), ("", 2, Some(12)));
        assert!(series.step(&again, Some(&rest), 3, 0.5).moments.is_empty());
    }

    #[test]
    fn what_is_not_seen_is_absent() {
        let (mut book, mut series) = (IoBook::default(), IoSeries::default());
        book.unseen.reads = true;
        book.add_use(&used(1, 1009));
        let step = series.step(&book, None, 1, 0.5);
        let moment = &step.moments[0];
        assert_eq!((moment.read_bytes, moment.read_calls_total), (None, None));
        assert_eq!((moment.written_bytes, moment.write_calls_total), (Some(0), Some(0)));
        assert_eq!((moment.mapped_read_bytes, moment.mapped_written_bytes), (None, Some(0)));
    }

    #[test]
    fn no_more_rows_than_there_may_be_and_nothing_is_lost() {
        let (mut book, mut series) = (IoBook::default(), IoSeries::default());
        for inode in 1..=2000 {
            book.add_use(&used(inode, inode));
        }
        let step = series.step(&book, None, 1, 0.5);
        assert_eq!(step.moments.len(), MOST_USES + 1);
        assert_eq!(sum(&step), (2000 * 2001 / 2, 2000));
        assert_eq!(step.places.len(), MOST_PLACED);
    }
}
