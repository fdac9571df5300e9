//! Who wrote what others read: by file and place in it; of pipes and sockets by the object alone.
//!
//! Of mapped memory and io_uring the places are known roughly, or not at all. What went that way is a flow where
//! it may be one, and its bytes are an upper bound.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use weigh_schema::byte_text;
use weigh_schema::io::{Field, FileId, Flow, Numbers, Object, Stretch, Transfer, Use, Who};

use super::extents::common;
use super::usage_table::{IoBook, RowState, join};

/// More of them are not told.
const MOST: usize = 1000;

const READ: usize = 0;
const WRITTEN: usize = 1;
const ANYWHERE: Stretch = Stretch { from: 0, to: u64::MAX };

/// The flows, those of most bytes first.
pub fn flows(book: &IoBook) -> Vec<Flow> {
    let mut by_file: HashMap<FileId, Vec<(Who, &RowState)>> = HashMap::new();
    for ((file, who), row) in &book.rows {
        by_file.entry(*file).or_default().push((*who, row));
    }
    let mut flows = Vec::new();
    for (file, rows) in by_file.iter().filter(|(_, rows)| rows.len() > 1) {
        let rows = by_process(*file, rows);
        let wrote = |row: &Use| bytes(&row.numbers, WRITTEN) > 0;
        let read = |row: &Use| bytes(&row.numbers, READ) > 0 || loads_unseen(&row.numbers);
        for (writer, from) in rows.iter().filter(|(_, row)| wrote(row)) {
            for (reader, to) in rows.iter().filter(|(pid, row)| pid != writer && read(row)) {
                flows.extend(flow(book, *file, (*writer, from), (*reader, to)));
            }
        }
    }
    flows.sort_by(|a, b| {
        b.bytes
            .cmp(&a.bytes)
            .then_with(|| (&a.name, a.writer, a.reader).cmp(&(&b.name, b.writer, b.reader)))
    });
    flows.truncate(MOST);
    flows
}

fn bytes(numbers: &Numbers, direction: usize) -> u64 {
    numbers.bytes.iter().map(|bytes| bytes[direction]).sum()
}

/// Whether it was mapped to be read: what the page cache has already is read without a sign of it. A process that
/// stores into it is taken for a writer alone.
fn loads_unseen(numbers: &Numbers) -> bool {
    numbers.get(Field::Maps) > 0 && numbers.bytes[Transfer::Mapped as usize][WRITTEN] == 0
}

/// Threads of a process are one.
fn by_process(file: FileId, rows: &[(Who, &RowState)]) -> Vec<(u32, Use)> {
    let mut processes: BTreeMap<u32, Use> = BTreeMap::new();
    for (who, row) in rows {
        let used = row.row(&(file, *who));
        match processes.entry(who.pid) {
            Entry::Vacant(new) => drop(new.insert(used)),
            Entry::Occupied(mut known) => join(known.get_mut(), &used),
        }
    }
    processes.into_iter().collect()
}

fn flow(book: &IoBook, file: FileId, from: (u32, &Use), to: (u32, &Use)) -> Option<Flow> {
    let object = from.1.object;
    let (bytes, is_upper_bound) = match object {
        Object::Regular | Object::Disk if is_over_before(book, to, from.1) => return None,
        Object::Regular | Object::Disk => {
            let (wrote, read) = (Side::of(from.1, WRITTEN), Side::of(to.1, READ));
            (Some(Side::common(&wrote, &read)?), !(wrote.is_exact && read.is_exact))
        }
        Object::Pipe | Object::Socket => (None, false),
        _ => return None,
    };
    Some(Flow {
        name: byte_text::shown(book.name(file).unwrap_or_default()),
        name_base64: book.name_base64(file),
        object,
        writer: from.0,
        writer_name: byte_text::shown(book.process_name(from.0)),
        writer_name_base64: byte_text::base64(book.process_name(from.0)),
        reader: to.0,
        reader_name: byte_text::shown(book.process_name(to.0)),
        reader_name_base64: byte_text::base64(book.process_name(to.0)),
        bytes,
        is_upper_bound,
    })
}

/// Whether the reader was done with the file before the other one wrote to it. A map outlives its descriptor, as
/// long as its process lives.
fn is_over_before(book: &IoBook, reader: (u32, &Use), writer: &Use) -> bool {
    let last = match loads_unseen(&reader.1.numbers) {
        true => book.processes.get(&reader.0).map_or(0, |process| process.ended_ns),
        false => reader.1.numbers.get(Field::Last),
    };
    let first = writer.numbers.known(Field::First);
    last > 0 && first.is_some_and(|first| first > last)
}

/// What a process read, or wrote, of a file.
struct Side {
    /// Where that may lie.
    stretches: Vec<Stretch>,
    /// How much it is at most.
    most: u64,
    /// Whether it is these stretches, to the byte.
    is_exact: bool,
}

impl Side {
    fn of(row: &Use, direction: usize) -> Side {
        let most = bytes(&row.numbers, direction);
        if direction == READ && loads_unseen(&row.numbers) {
            return Side { stretches: vec![ANYWHERE], most: u64::MAX, is_exact: false };
        }
        if is_placed(&row.numbers, direction) {
            let stretches = row.directions[direction].seen.clone();
            return Side { stretches, most, is_exact: true };
        }
        let stretches = rough_places(row, direction, most).unwrap_or_else(|| vec![ANYWHERE]);
        Side { stretches, most, is_exact: false }
    }

    /// So many bytes were written and read, or may have been.
    fn common(wrote: &Side, read: &Side) -> Option<u64> {
        let bytes = common(&wrote.stretches, &read.stretches);
        let bytes = match wrote.is_exact && read.is_exact {
            true => bytes,
            false => bytes.min(wrote.most).min(read.most),
        };
        Some(bytes).filter(|bytes| *bytes > 0)
    }
}

/// Whether the stretches that were seen are all that was moved. Of mapped memory there are none, of io_uring's
/// requests no place is known.
fn is_placed(numbers: &Numbers, direction: usize) -> bool {
    let moved = |kind: Transfer| numbers.bytes[kind as usize][direction];
    let requests: u64 = numbers.calls[Transfer::Uring as usize].iter().sum();
    let calls = numbers.calls_of(READ) + numbers.calls_of(WRITTEN) - requests;
    moved(Transfer::Mapped) + moved(Transfer::Uring) == 0 && numbers.get(Field::Placed) >= calls
}

/// The places where something was moved, if they have all of it.
fn rough_places(row: &Use, direction: usize, all: u64) -> Option<Vec<Stretch>> {
    let placed: u64 = row.places.bytes[direction].iter().sum();
    let moved = |place: &(u64, u64, u64, u64)| [place.2, place.3][direction] > 0;
    let used = row.places.used().filter(moved);
    let stretches = used.map(|(from, to, _, _)| Stretch { from, to });
    (placed >= all).then(|| stretches.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::io::Process;

    fn used(who: Who, direction: usize, from: u64, to: u64) -> Use {
        let mut used = Use { who, object: Object::Regular, ..Use::default() };
        used.numbers.bytes[0][direction] = to - from;
        used.directions[direction].seen.push(Stretch { from, to });
        used
    }

    /// What two threads wrote, and two of another process read: one flow, each byte in it once.
    #[test]
    fn threads_of_a_process_are_one() {
        let mut book = IoBook::default();
        for tid in [11, 12] {
            let half = 1009 * (tid - 11);
            let tid = tid as u32;
            book.add_use(&used(Who { pid: 1, tid }, 1, half, half + 1009));
            book.add_use(&used(Who { pid: 2, tid: tid + 10 }, 0, 0, 1500));
        }
        let flows = flows(&book);
        assert_eq!(flows.len(), 1, "{flows:?}");
        assert_eq!((flows[0].writer, flows[0].reader, flows[0].bytes), (1, 2, Some(1500)));
    }

    /// A process's use of the file, by a kind of transfer of which no stretch is seen.
    fn moved(pid: u32, kind: Transfer, direction: usize, bytes: u64, times: (u64, u64)) -> Use {
        let who = Who { pid, tid: 0 };
        let mut used = Use { who, object: Object::Regular, ..Use::default() };
        used.numbers.bytes[kind as usize][direction] = bytes;
        used.numbers.calls[kind as usize][direction] = 1;
        used.numbers.set(Field::First, times.0);
        used.numbers.set(Field::Last, times.1);
        used
    }

    /// The same by calls, from the beginning of the file.
    fn plain(pid: u32, direction: usize, bytes: u64, times: (u64, u64)) -> Use {
        let mut used = moved(pid, Transfer::Plain, direction, bytes, times);
        used.numbers.set(Field::Placed, 1);
        used.directions[direction].seen.push(Stretch { from: 0, to: bytes });
        used
    }

    fn mapped(pid: u32, times: (u64, u64)) -> Use {
        let mut used = moved(pid, Transfer::Mapped, READ, 0, times);
        used.numbers.set(Field::Maps, 1);
        used
    }

    fn between(uses: &[Use]) -> Vec<(u32, u32, u64, bool)> {
        let mut book = IoBook::default();
        uses.iter().for_each(|used| book.add_use(used));
        let told =
            |flow: Flow| (flow.writer, flow.reader, flow.bytes.unwrap_or(0), flow.is_upper_bound);
        flows(&book).into_iter().map(told).collect()
    }

    #[test]
    fn what_has_no_known_place_is_a_flow_with_an_upper_bound() {
        let stored = moved(1, Transfer::Mapped, WRITTEN, 8192, (1, 2));
        assert_eq!(between(&[stored.clone(), plain(2, READ, 5000, (3, 4))]), [(1, 2, 5000, true)]);
        assert_eq!(between(&[stored, mapped(2, (3, 4))]), [(1, 2, 8192, true)]);
        let requests = moved(1, Transfer::Uring, WRITTEN, 1009, (1, 2));
        assert_eq!(between(&[requests, plain(2, READ, 1003, (3, 4))]), [(1, 2, 1003, true)]);
        let wrote = plain(1, WRITTEN, 1009, (1, 2));
        assert_eq!(between(&[wrote.clone(), mapped(2, (3, 4))]), [(1, 2, 1009, true)]);
        let requests = moved(2, Transfer::Uring, READ, 7, (3, 4));
        assert_eq!(between(&[wrote.clone(), requests]), [(1, 2, 7, true)]);
        assert_eq!(between(&[wrote, plain(2, READ, 2000, (3, 4))]), [(1, 2, 1009, false)]);
    }

    #[test]
    fn who_was_done_before_it_was_written_has_read_nothing_of_it() {
        let wrote = plain(1, WRITTEN, 1009, (5, 6));
        assert_eq!(between(&[wrote.clone(), plain(2, READ, 1009, (3, 4))]), []);
        // A map is there until its process ends.
        let mut book = IoBook::default();
        [wrote, mapped(2, (3, 4))].iter().for_each(|used| book.add_use(used));
        assert_eq!(flows(&book).len(), 1);
        book.add_process(Process { pid: 2, ended_ns: 4, ..Process::default() });
        assert_eq!(flows(&book), []);
    }

    /// Two that store into halves of their own, of which each page came in before.
    #[test]
    fn places_of_mapped_memory_tell_those_apart_who_have_nothing_in_common() {
        let half = |pid: u32| {
            let mut used = moved(pid, Transfer::Mapped, WRITTEN, 8192, (1, 2));
            used.numbers.bytes[Transfer::Mapped as usize][READ] = 8192;
            for direction in [READ, WRITTEN] {
                used.places.add(direction, u64::from(pid - 1) * 8192, 8192);
            }
            used
        };
        assert_eq!(between(&[half(1), half(2)]), []);
        assert_eq!(between(&[half(1), plain(2, READ, 4096, (3, 4))]), [(1, 2, 4096, true)]);
    }
}
