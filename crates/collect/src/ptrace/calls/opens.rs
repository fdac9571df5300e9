//! The files that were opened: which process opened which, how often.
//!
//! Takes opens with their paths; emits an event for each file that a process had not opened
//! before. What is more than can be kept is counted as lost.

use std::collections::HashMap;

use weigh_schema::byte_text;
use weigh_schema::event::{Event, FileKey};

/// More pairs of process and file than this are not kept at a time.
const MOST: usize = 65_536;

/// A process, told apart from all others by its second number, and a path.
type Opened = (u32, u64, String);

/// What was opened and not asked for yet.
#[derive(Debug, Default)]
pub struct Opens {
    keys: HashMap<Opened, FileKey>,
    counts: HashMap<FileKey, (Opened, u64)>,
    paths: u64,
    /// Opens whose files are not told of.
    pub lost: u64,
}

impl Opens {
    /// A process has opened a file; an event if it is the first time.
    pub fn opened(&mut self, pid: u32, id: u64, path: Option<&[u8]>) -> Option<Event> {
        let Some(path) = path else {
            self.lost += 1;
            return None;
        };
        let opened = (pid, id, byte_text::keep(path));
        if let Some((_, count)) = self.keys.get(&opened).and_then(|key| self.counts.get_mut(key)) {
            *count += 1;
            return None;
        }
        if self.keys.len() >= MOST {
            self.lost += 1;
            return None;
        }
        self.paths += 1;
        // The path stands for the file.
        let key = FileKey { process: id, inode: self.paths, device: 0 };
        let path = opened.2.clone();
        self.keys.insert(opened.clone(), key);
        self.counts.insert(key, (opened, 1));
        Some(Event::File { pid, path, key })
    }

    /// How often it was opened; after this it is forgotten.
    pub fn take(&mut self, key: &FileKey) -> Option<u64> {
        let (opened, count) = self.counts.remove(key)?;
        self.keys.remove(&opened);
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_of_once_for_each_process() {
        let mut opens = Opens::default();
        let first = opens.opened(7, 1, Some(b"/a"));
        let Some(Event::File { pid: 7, key, .. }) = first else { panic!("{first:?}") };
        assert_eq!(opens.opened(7, 1, Some(b"/a")), None);
        // Another process that has got the same number.
        assert!(opens.opened(7, 2, Some(b"/a")).is_some());
        assert_eq!(opens.take(&key), Some(2));
        assert_eq!(opens.take(&key), None);
    }

    #[test]
    fn what_can_not_be_kept_is_lost_not_forgotten() {
        let mut opens = Opens::default();
        assert_eq!(opens.opened(7, 1, None), None);
        for number in 0..MOST + 3 {
            opens.opened(7, 1, Some(format!("/{number}").as_bytes()));
        }
        assert_eq!(opens.lost, 4);
        assert_eq!((opens.keys.len(), opens.counts.len()), (MOST, MOST));
    }
}
