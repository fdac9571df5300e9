//! What following a call costs on this machine, tried out.
//!
//! Makes a call that the kernel does not know, so that it does nothing but come and go: before anything is
//! attached, then as any thread of the machine, then as one that is followed, told as others are to be. Emits
//! the differences. The call has a cell of its own, which is of no job: see [`is_trial`]. Refuses nothing: what
//! cannot be tried, as by a thread that is not its process's first, is not known.

use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapFlags};
use rustix::process::PidfdFlags;
use weigh_schema::call::CallCost;

use super::layout::{self, skeleton};

/// No kernel has so many calls.
const TRIED: u64 = 0x7ffe;
/// Of so many rounds the median is taken.
const ROUNDS: usize = 9;
const CALLS: u32 = 128;

/// Whether calls of this number are those of the trial.
pub(super) fn is_trial(number: u64) -> bool {
    number == TRIED
}

/// What the calls take while nothing is attached.
pub(super) struct Trial {
    without: Duration,
}

impl Trial {
    pub(super) fn begin() -> Trial {
        Trial { without: median(|| make(CALLS)) }
    }

    /// Makes the calls again; what is attached now is what they meet.
    pub(super) fn cost(&self, skeleton: &skeleton::CallsSkel<'static>) -> Option<CallCost> {
        let process = rustix::process::getpid();
        if rustix::thread::gettid() != process {
            return None;
        }
        let others = median(|| make(CALLS));
        let this = rustix::process::pidfd_open(process, PidfdFlags::empty()).ok()?;
        let (key, window) = (this.as_raw_fd().to_ne_bytes(), layout::member());
        let windows = &skeleton.maps.members;
        // No other call may be made meanwhile, not even one for the time.
        let follow = |calls: u32| {
            let is_member = windows.update(&key, &window, MapFlags::ANY).is_ok();
            make(calls);
            is_member && windows.delete(&key).is_ok()
        };
        let mut is_done = true;
        let none = median(|| is_done &= follow(0));
        let followed = median(|| is_done &= follow(CALLS));
        let of_each = |more: Duration| more.as_secs_f64() / f64::from(CALLS);
        let more = followed.saturating_sub(none).saturating_sub(self.without);
        // Other load may have met what was tried without it: then it is not known.
        (is_done && !more.is_zero()).then(|| CallCost {
            followed_seconds: of_each(more),
            others_seconds: of_each(others.saturating_sub(self.without)),
        })
    }
}

fn make(calls: u32) {
    for _ in 0..calls {
        // SAFETY: there is no such call, and it has no argument.
        unsafe { libc::syscall(TRIED.cast_signed()) };
    }
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut rounds = [Duration::ZERO; ROUNDS];
    for round in &mut rounds {
        let began = Instant::now();
        work();
        *round = began.elapsed();
    }
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}
