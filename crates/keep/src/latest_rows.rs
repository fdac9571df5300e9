//! Which of several rows of a journal, of one file and process, is the last.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use weigh_schema::io::FileUse;
use weigh_schema::recording::FileRow;
use weigh_schema::update::Update;

/// Which entries of a journal hold the last word on their file and process.
#[derive(Default)]
pub(crate) struct Latest {
    /// By file and process: which entry was the last, counted from 0.
    last: HashMap<u64, u64>,
    seen: u64,
}

impl Latest {
    /// Takes note of an entry: all are shown, in order, before any is asked for.
    pub(crate) fn show(&mut self, entry: &Update) {
        if let Update::FileUse(row) | Update::FileUseSoFar(row) = entry {
            self.last.insert(key(row), self.seen);
        }
        self.seen += 1;
    }

    /// Whether the entry at this place was shown, and nothing took its place.
    pub(crate) fn holds(&self, place: u64, entry: &Update) -> bool {
        match entry {
            _ if place >= self.seen => false,
            Update::FileUseSoFar(row) => self.last.get(&key(row)) == Some(&place),
            _ => true,
        }
    }
}

fn key(row: &FileRow) -> u64 {
    let mut hasher = DefaultHasher::new();
    (row.pid, &row.path, &row.path_base64).hash(&mut hasher);
    let file = |used: &FileUse| (used.device, used.inode, used.generation, used.tid);
    row.used.as_deref().map(file).hash(&mut hasher);
    hasher.finish()
}
