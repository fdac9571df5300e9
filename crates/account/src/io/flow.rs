//! Who wrote what others read: by file and place in it; of pipes and sockets by the object alone.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use weigh_schema::io::{FileId, Flow, Object};

use super::book::{IoBook, Row};
use super::kept::Kept;
use super::seen::common;

/// More of them are not told.
const MOST: usize = 1000;

/// The flows, those of most bytes first.
pub fn flows(book: &IoBook) -> Vec<Flow> {
    let mut by_file: HashMap<FileId, Vec<(u32, &Kept)>> = HashMap::new();
    for ((file, who), row) in &book.rows {
        by_file.entry(*file).or_default().push((who.pid, row));
    }
    let mut flows = Vec::new();
    for (file, rows) in by_file.iter().filter(|(_, rows)| rows.len() > 1) {
        let rows = by_process(rows);
        let wrote = |row: &Row| row.numbers.bytes.iter().any(|bytes| bytes[1] > 0);
        let read = |row: &Row| row.numbers.bytes.iter().any(|bytes| bytes[0] > 0);
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

/// Threads of a process are one.
fn by_process(rows: &[(u32, &Kept)]) -> Vec<(u32, Row)> {
    let mut processes: BTreeMap<u32, Row> = BTreeMap::new();
    for (pid, row) in rows {
        match processes.entry(*pid) {
            Entry::Vacant(new) => drop(new.insert(row.row())),
            Entry::Occupied(mut known) => known.get_mut().join(&row.row()),
        }
    }
    processes.into_iter().collect()
}

fn flow(book: &IoBook, file: FileId, from: (u32, &Row), to: (u32, &Row)) -> Option<Flow> {
    let object = from.1.object;
    let bytes = match object {
        Object::Regular | Object::Disk => {
            let bytes = common(&from.1.directions[1].seen, &to.1.directions[0].seen);
            Some(bytes).filter(|bytes| *bytes > 0).map(Some)?
        }
        Object::Pipe | Object::Socket => None,
        _ => return None,
    };
    Some(Flow {
        name: book.name(file).unwrap_or_default().to_string(),
        object,
        writer: from.0,
        writer_name: book.process_name(from.0).to_string(),
        reader: to.0,
        reader_name: book.process_name(to.0).to_string(),
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::io::{Stretch, Use, Who};

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
}
