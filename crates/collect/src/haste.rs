//! The calling thread ahead of others, for a moment, where that is allowed.
//!
//! Emits nothing; who may not have it goes on as before.

/// As long as this lives, the thread that made it goes first.
pub struct Haste {
    before: Option<i32>,
}

/// Begins; for an ordinary user without effect.
pub fn begin() -> Haste {
    // SAFETY: both calls take plain numbers, and 0 means the calling thread.
    let before = unsafe {
        let before = libc::getpriority(libc::PRIO_PROCESS, 0);
        (libc::setpriority(libc::PRIO_PROCESS, 0, -20) == 0).then_some(before)
    };
    Haste { before }
}

impl Drop for Haste {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: plain numbers; 0 is the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, before) };
        }
    }
}
