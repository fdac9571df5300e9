//! The calling thread ahead of all others, for a while, where that is allowed.
//!
//! Emits nothing; who may not have it goes on as before.

/// As long as this lives, the thread that made it goes first.
pub struct Haste {
    is_first: bool,
}

/// Begins; for an ordinary user without effect.
pub fn begin() -> Haste {
    Haste { is_first: schedule(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1) }
}

impl Drop for Haste {
    fn drop(&mut self) {
        if self.is_first {
            schedule(libc::SCHED_OTHER, 0);
        }
    }
}

fn schedule(policy: i32, priority: i32) -> bool {
    // SAFETY: the structure is plain data that lives through the call; 0 is the calling thread.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = priority;
        libc::sched_setscheduler(0, policy, &parameters) == 0
    }
}
