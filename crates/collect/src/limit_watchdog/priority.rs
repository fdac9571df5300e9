//! Going before the job: a thread that has to see it in time gets a CPU sooner.
//!
//! Where weigh may, before all ordinary threads; else, from Linux 6.12 on, by asking for short turns,
//! which come sooner and add up to no more. Where neither can be had nothing changes.

use rustix::process::getpriority_process;

/// Turns of that length are asked for.
const TURN_NS: u64 = 100_000;

/// Threads that are made by this one are not to have what it has.
const RESET_ON_FORK: u64 = 1;

/// The calling thread goes before others, as far as the kernel lets it.
pub fn go_before_others() {
    let size = size_of::<libc::sched_attr>() as u32;
    let none = libc::sched_attr {
        size,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: RESET_ON_FORK,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let first = libc::sched_attr { sched_policy: libc::SCHED_RR as u32, sched_priority: 1, ..none };
    if !set(&first) {
        // The same as it has.
        let sched_nice = getpriority_process(None).unwrap_or(0);
        set(&libc::sched_attr { sched_flags: 0, sched_nice, sched_runtime: TURN_NS, ..none });
    }
}

fn set(how: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads the structure, whose size stands in it, and nothing else.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(how), 0) == 0 }
}
