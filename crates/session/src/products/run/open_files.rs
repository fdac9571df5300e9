//! Files that were opened, where the kernel side counts each open: the path comes once for each
//! process and file, the count is asked for when the process has ended.

use std::collections::HashMap;

use weigh_collect::follow::JobMechanism;
use weigh_schema::Quality;
use weigh_schema::event::FileKey;
use weigh_schema::io::FileUse;

use super::recorder::Recorder;

/// Files of processes that have not ended.
#[derive(Default)]
pub(super) struct OpenFiles {
    by_process: HashMap<u32, Vec<(FileKey, String)>>,
}

impl OpenFiles {
    /// A process has opened a file for the first time.
    pub fn first(&mut self, pid: u32, key: FileKey, path: String) {
        self.by_process.entry(pid).or_default().push((key, path));
    }

    /// A process has ended: its rows are written.
    pub fn ended(
        &mut self,
        pid: u32,
        follower: &mut dyn JobMechanism,
        recorder: &mut Recorder<'_>,
    ) {
        let Some(opened) = self.by_process.remove(&pid) else { return };
        let Ok(counts) = follower.open_counts() else { return };
        for (key, path) in opened {
            if let Some(times) = counts.take_opens(&key) {
                recorder.opened(FileUse::opened(pid, &path, times, Quality::Exact));
            }
        }
    }

    /// The recording ends: so do all rows.
    pub fn finish(&mut self, follower: &mut dyn JobMechanism, recorder: &mut Recorder<'_>) {
        for pid in self.by_process.keys().copied().collect::<Vec<_>>() {
            self.ended(pid, follower, recorder);
        }
    }
}
