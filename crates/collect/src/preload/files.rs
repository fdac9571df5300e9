//! The files that the library told of: which process opened which, how often.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use weigh_schema::byte_text;
use weigh_schema::event::{Event, FileKey};

use super::layout::{PATH_BYTES, RECORDS, Shared};
use super::pid_namespace::{NamespacePids, shown};

/// Looks after which a record that its writer did not complete is given up: the writer was killed.
const PATIENCE: u32 = 40;

/// PID and start of a process, and a path.
type Opened = (u32, u64, String);

/// What was opened so far, and not asked for yet.
#[derive(Default)]
pub struct Files {
    keys: HashMap<Opened, FileKey>,
    counts: HashMap<FileKey, (Opened, u64)>,
    paths: u64,
    waited: u32,
    given_up: u64,
}

impl Files {
    /// Takes in what was told since the last look; calls with an event for each file that a
    /// process had not opened before.
    pub fn look(&mut self, shared: &Shared, hidden: &NamespacePids, mut tell: impl FnMut(Event)) {
        let head = shared.head.records_head.load(Ordering::Acquire);
        let mut tail = shared.head.records_tail.load(Ordering::Relaxed);
        while tail < head {
            let records = match whole_path(shared, tail, head) {
                Some((path, records)) => {
                    let record = &shared.records[tail as usize % RECORDS];
                    let pid = shown(hidden.pid(record.pid.load(Ordering::Relaxed)));
                    let started_ns = record.started_ns.load(Ordering::Relaxed);
                    if let Some(path) = path {
                        self.opened(pid, started_ns, path, &mut tell);
                    }
                    records
                }
                None if self.waited < PATIENCE => {
                    self.waited += 1;
                    break;
                }
                None => {
                    self.given_up += 1;
                    1
                }
            };
            self.waited = 0;
            tail += records;
            shared.head.records_tail.store(tail, Ordering::Release);
        }
    }

    fn opened(&mut self, pid: u32, started_ns: u64, path: String, tell: &mut impl FnMut(Event)) {
        let opened = (pid, started_ns, path);
        if let Some((_, count)) = self.keys.get(&opened).and_then(|key| self.counts.get_mut(key)) {
            *count += 1;
            return;
        }
        self.paths += 1;
        // The path is all that is known of the file: its number stands for it.
        let key = FileKey { process: started_ns ^ u64::from(pid), inode: self.paths, device: 0 };
        self.keys.insert(opened.clone(), key);
        let path = opened.2.clone();
        self.counts.insert(key, (opened, 1));
        tell(Event::File { pid, path, key });
    }

    /// How often a process has opened a file; after this it is forgotten.
    pub fn take(&mut self, key: &FileKey) -> Option<u64> {
        let (opened, count) = self.counts.remove(key)?;
        self.keys.remove(&opened);
        Some(count)
    }

    /// Records that were never complete or for which there was no room.
    pub fn lost(&self, shared: &Shared) -> u64 {
        self.given_up + shared.head.records_lost.load(Ordering::Relaxed)
    }
}

/// The path that begins in the record at `tail`, and how many records it takes; no path if what is
/// there is left over of one whose beginning was given up; nothing if not all of it is there yet.
fn whole_path(shared: &Shared, tail: u64, head: u64) -> Option<(Option<String>, u64)> {
    let complete = |at: u64| {
        let record = &shared.records[at as usize % RECORDS];
        (record.complete.load(Ordering::Acquire) == at + 1).then_some(record)
    };
    let first = complete(tail)?;
    if first.part.load(Ordering::Relaxed) != 0 {
        return Some((None, 1));
    }
    let length = first.path_bytes.load(Ordering::Relaxed) as usize;
    let length = length.min(RECORDS * PATH_BYTES);
    let records = length.div_ceil(PATH_BYTES).max(1) as u64;
    let mut bytes = Vec::with_capacity(length);
    for at in tail..tail + records.min(head - tail) {
        let left = length - bytes.len();
        let part = complete(at)?.path[..left.min(PATH_BYTES)].iter();
        bytes.extend(part.map(|b| b.load(Ordering::Relaxed)));
    }
    Some((Some(byte_text::keep(&bytes)), records))
}
