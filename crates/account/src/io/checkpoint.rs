//! Which rows have changed since they were last written down, while the job runs.

use std::collections::HashMap;

use weigh_schema::io::{FileId, Who};

use super::usage_table::IoBook;

/// What was written down: of each file and process up to when it had been used.
#[derive(Debug, Default)]
pub struct Checkpoint {
    up_to: HashMap<(FileId, Who), u64>,
}

impl Checkpoint {
    /// The rows that have changed since, `most` at most: those that were written down longest ago first.
    /// They count as written down from now on.
    pub fn changed(&mut self, book: &IoBook, most: usize) -> Vec<(FileId, Who)> {
        // What has left the book is not asked for again.
        self.up_to.retain(|key, _| book.rows.contains_key(key));
        let known = |key| self.up_to.get(key).copied().unwrap_or(0);
        let rows = book.rows.iter().map(|(key, row)| (known(key), *key, row.last));
        let mut changed: Vec<_> = rows.filter(|(known, _, last)| last > known).collect();
        if changed.len() > most {
            changed.select_nth_unstable_by_key(most, |(known, key, _)| (*known, *key));
            changed.truncate(most);
        }
        self.up_to.extend(changed.iter().map(|(_, key, last)| (*key, *last)));
        changed.into_iter().map(|(_, key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::io::{Field, Use};

    fn used(inode: u64, at: u64) -> Use {
        let mut used = Use { file: FileId { inode, ..FileId::default() }, ..Use::default() };
        used.numbers.set(Field::Last, at);
        used
    }

    fn inodes(changed: &[(FileId, Who)]) -> Vec<u64> {
        let mut inodes: Vec<u64> = changed.iter().map(|(file, _)| file.inode).collect();
        inodes.sort_unstable();
        inodes
    }

    #[test]
    fn each_change_is_written_down_once_and_none_waits_for_ever() {
        let (mut book, mut saved) = (IoBook::default(), Checkpoint::default());
        (1..=5).for_each(|inode| book.add_use(&used(inode, inode)));
        let first = inodes(&saved.changed(&book, 3));
        assert_eq!(first.len(), 3);
        // One that changes all the time does not go before those that have waited.
        book.add_use(&used(first[0], 9));
        let second = inodes(&saved.changed(&book, 2));
        assert!(second.iter().all(|inode| !first.contains(inode)), "{first:?} {second:?}");
        assert_eq!(inodes(&saved.changed(&book, 3)), [first[0]]);
        assert!(saved.changed(&book, 3).is_empty());
    }
}
