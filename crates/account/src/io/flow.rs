//! Who wrote what others read: by file and place in it; of pipes and sockets by the object alone.

use std::collections::HashMap;

use weigh_schema::io::{FileId, Flow, Object};

use super::book::{IoBook, Row};
use super::kept::Kept;
use super::seen::common;

/// More of them are not told.
const MOST: usize = 1000;

/// The flows, those of most bytes first.
pub fn flows(book: &IoBook) -> Vec<Flow> {
    let mut by_file: HashMap<FileId, Vec<(u32, &Kept)>> = HashMap::new();
    for ((file, pid), row) in &book.rows {
        by_file.entry(*file).or_default().push((*pid, row));
    }
    let mut flows = Vec::new();
    for (file, rows) in by_file.iter().filter(|(_, rows)| rows.len() > 1) {
        let rows: Vec<(u32, Row)> = rows.iter().map(|(pid, row)| (*pid, row.row())).collect();
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
