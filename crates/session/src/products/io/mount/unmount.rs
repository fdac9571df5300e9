//! The end of a mount: those who have files open still are served until they have closed them.

use std::path::Path;
use std::time::{Duration, Instant};

use weigh_collect::notice;
use weigh_mount::Mounted;

/// So long the kernel is waited for that tells the last closes.
const CLOSES: Duration = Duration::from_millis(50);

/// So long files that are still open after the end go unmentioned.
const PATIENCE: Duration = Duration::from_millis(300);

/// Since when it is to end.
#[derive(Default)]
pub struct Unmount {
    since: Option<Instant>,
    is_told: bool,
}

impl Unmount {
    /// Whether the mount may be taken away. Where nobody has files open any more, what counts by its device number has to
    /// end before that: the next file system that is mounted may get the same.
    pub fn may_begin(&mut self, mounted: &Mounted) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        !mounted.is_in_use() || since.elapsed() > CLOSES
    }

    /// Whether no process is left that has files open. One that has no more than its working directory there, or a
    /// copy of the mount in a namespace of its own, is not waited for. `clear` makes room for a line.
    pub fn is_done(&mut self, mounted: &Mounted, at: &Path, clear: impl FnOnce()) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_late = since.elapsed() > PATIENCE;
        if mounted.is_over() || is_late && !mounted.is_in_use() {
            return true;
        }
        if is_late && !self.is_told {
            self.is_told = true;
            clear();
            notice!(
                "{} is unmounted, but somebody has files of it open: they are served until they are closed, or weigh is interrupted",
                at.display()
            );
        }
        false
    }
}
