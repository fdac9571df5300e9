//! The files that the library told of: which process opened which, how often.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use weigh_schema::event::{Event, FileKey};

use super::layout::{PATH_BYTES, RECORDS, Shared};

/// Looks after which a record that its writer did not complete is given up: he was killed.
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
    pub fn look(&mut self, shared: &Shared, mut tell: impl FnMut(Event)) {
        let head = shared.records_head.load(Ordering::Acquire);
        let mut tail = shared.records_tail.load(Ordering::Relaxed);
        while tail < head {
            let record = &shared.records[tail as usize % RECORDS];
            if record.complete.load(Ordering::Acquire) != tail + 1 {
                self.waited += 1;
                if self.waited < PATIENCE {
                    break;
                }
                self.given_up += 1;
            } else {
                let length = record.path_bytes.load(Ordering::Relaxed) as usize;
                let bytes = record.path[..length.min(PATH_BYTES)].iter();
                let bytes: Vec<u8> = bytes.map(|b| b.load(Ordering::Relaxed)).collect();
                let mut path = String::from_utf8_lossy(&bytes).into_owned();
                if length > PATH_BYTES {
                    path.push('…');
                }
                let pid = record.pid.load(Ordering::Relaxed);
                self.opened(pid, record.started_ns.load(Ordering::Relaxed), path, &mut tell);
            }
            self.waited = 0;
            tail += 1;
            shared.records_tail.store(tail, Ordering::Release);
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
        self.given_up + shared.records_lost.load(Ordering::Relaxed)
    }
}
