//! Which of several rows of a journal, of one file and process or of one place in a thread's call tree, is the last.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use weigh_schema::io::FileUse;
use weigh_schema::region::RegionRow;
use weigh_schema::update::Update;

/// Which entries of a journal hold the last word on what they are about.
#[derive(Default)]
pub(crate) struct Latest {
    /// By what rows are about: which entry was the last, counted from 0.
    last: HashMap<u64, u64>,
    seen: u64,
}

impl Latest {
    /// Takes note of an entry: all are shown, in order, before any is asked for.
    pub(crate) fn show(&mut self, entry: &Update) {
        let key = match entry {
            Update::FileUse(row) | Update::FileUseSoFar(row) => Some(key(row)),
            Update::Region(row) | Update::RegionSoFar(row) => Some(region_key(row)),
            _ => None,
        };
        key.map(|key| self.last.insert(key, self.seen));
        self.seen += 1;
    }

    /// Whether the entry at this place was shown, and nothing took its place.
    pub(crate) fn holds(&self, place: u64, entry: &Update) -> bool {
        match entry {
            _ if place >= self.seen => false,
            Update::FileUseSoFar(row) => self.last.get(&key(row)) == Some(&place),
            Update::RegionSoFar(row) => self.last.get(&region_key(row)) == Some(&place),
            _ => true,
        }
    }
}

fn key(row: &FileUse) -> u64 {
    let mut hasher = DefaultHasher::new();
    (row.pid, row.tid, &row.name, &row.name_base64).hash(&mut hasher);
    (row.device, row.inode, row.generation).hash(&mut hasher);
    hasher.finish()
}

/// A place in the call tree of one thread: names of regions and of the thread are in it as they are.
fn region_key(row: &RegionRow) -> u64 {
    let mut hasher = DefaultHasher::new();
    (row.process, row.thread, row.kind.name(), &row.path, &row.path_base64).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(thread: u32, path: &str, calls: u64) -> Box<RegionRow> {
        let path = vec![path.to_string()];
        Box::new(RegionRow { process: 7, thread, path, calls, ..RegionRow::default() })
    }

    #[test]
    fn of_a_region_that_was_read_several_times_the_last_row_holds() {
        let entries = [
            Update::RegionSoFar(row(1, "a", 1)),
            Update::RegionSoFar(row(2, "a", 1)),
            Update::RegionSoFar(row(1, "b", 1)),
            Update::RegionSoFar(row(1, "a", 2)),
            Update::Region(row(1, "b", 2)),
            // Another program of the same process.
            Update::RegionSoFar(row(1, "b", 1)),
        ];
        let mut latest = Latest::default();
        entries.iter().for_each(|entry| latest.show(entry));
        let holds = (0..).zip(&entries).map(|(place, entry)| latest.holds(place, entry));
        assert_eq!(holds.collect::<Vec<_>>(), [false, true, false, true, true, true]);
    }
}
