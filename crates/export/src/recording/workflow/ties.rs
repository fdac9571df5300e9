//! Who comes after whom by the files alone: where it is not known what was read of a file, or where somebody
//! else's bytes were read, a task that had written to it before is a parent all the same. Or a task would take in what
//! another one makes, and might run before it.
//!
//! Reads when each task wrote and read a file; emits flows without bytes. Of more than [`MOST`] the rest are counted.

use std::collections::{BTreeMap, BTreeSet};

use weigh_schema::io::{Flow, Object};

use super::files::{DataFile, FileKey};

/// More of them are not told: each has to be looked at for circles.
const MOST: usize = 5000;

/// When tasks used files, by file and PID.
#[derive(Clone, Debug, Default)]
pub struct Ties {
    /// When each that made something of a file began with it.
    writers: BTreeMap<FileKey, BTreeMap<u32, f64>>,
    /// When each that took something in was done.
    readers: BTreeMap<FileKey, BTreeMap<u32, f64>>,
}

impl Ties {
    /// A task makes this file, from then on.
    pub fn add_writer(&mut self, file: &FileKey, pid: u32, first: f64) {
        let known = self.writers.entry(file.clone()).or_default().entry(pid).or_insert(first);
        *known = known.min(first);
    }

    /// A task takes this file in, until then.
    pub fn add_reader(&mut self, file: &FileKey, pid: u32, last: f64) {
        let known = self.readers.entry(file.clone()).or_default().entry(pid).or_insert(last);
        *known = known.max(last);
    }

    /// One for each two tasks that are not tied yet, those of the earliest writers first; and how many more there
    /// would be.
    pub fn beside(
        &self,
        flows: &[Flow],
        files: &BTreeMap<FileKey, DataFile>,
    ) -> (Vec<Flow>, usize) {
        let mut tied: BTreeSet<(u32, u32)> = flows.iter().map(|f| (f.writer, f.reader)).collect();
        let mut found = Vec::new();
        for (file, writers) in &self.writers {
            let path = || files.get(file).map(|file| file.path.clone()).unwrap_or_default();
            for (reader, last) in self.readers.get(file).into_iter().flatten() {
                let before = writers.iter().filter(|(pid, first)| *pid != reader && *first <= last);
                for (writer, first) in before {
                    if tied.insert((*writer, *reader)) {
                        found.push((*first, tie(path(), *writer, *reader)));
                    }
                }
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let more = found.len().saturating_sub(MOST);
        found.truncate(MOST);
        (found.into_iter().map(|(_, flow)| flow).collect(), more)
    }
}

fn tie(name: String, writer: u32, reader: u32) -> Flow {
    Flow { name, object: Object::Regular, writer, reader, ..Flow::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> FileKey {
        let row = serde_json::json!({
            "name": name, "object": "regular", "pid": 0, "process": "", "device": 3, "inode": 7,
            "read_bytes": 0, "read_calls": 0, "written_bytes": 0, "write_calls": 0, "by_kind": {},
            "numbers": {}, "again_quality": "exact",
        });
        FileKey::of(&serde_json::from_value(row).expect("a row"))
    }

    #[test]
    fn who_read_after_another_wrote_is_tied_once() {
        let mut ties = Ties::default();
        for file in [file("/a"), file("/b")] {
            ties.add_writer(&file, 1, 3.0);
            ties.add_reader(&file, 2, 5.0);
            // He was done before.
            ties.add_reader(&file, 3, 2.0);
            ties.add_reader(&file, 1, 9.0);
        }
        let (found, more) = ties.beside(&[], &BTreeMap::new());
        let pairs: Vec<_> = found.iter().map(|flow| (flow.writer, flow.reader)).collect();
        assert_eq!((pairs, more), (vec![(1, 2)], 0));
        assert_eq!(ties.beside(&found, &BTreeMap::new()), (Vec::new(), 0));
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut ties = Ties::default();
        let file = file("/a");
        (0..100).for_each(|pid| ties.add_writer(&file, pid, 1.0));
        (100..200).for_each(|pid| ties.add_reader(&file, pid, 2.0));
        let (found, more) = ties.beside(&[], &BTreeMap::new());
        assert_eq!((found.len(), more), (MOST, 100 * 100 - MOST));
    }
}
