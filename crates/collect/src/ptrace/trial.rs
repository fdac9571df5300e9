//! What tracing takes, tried with children of weigh's that do nothing else.
//!
//! Emits whether it can be done, and how long a thread is stopped at a call at least; refuses with the kernel's own
//! error.

use std::io;

use libc::pid_t;

use super::sys;

/// So many children are tried, one after the other.
const TRIALS: usize = 8;
/// So many times of stops are taken of each.
const TIMES: usize = 25;

/// Whether a child of weigh can be traced.
pub fn try_out() -> io::Result<()> {
    // SAFETY: pause(2) is safe after a fork.
    with_child(|| unsafe { libc::pause() }.into(), |_| ())
}

/// How long a thread is stopped at a call at least: from one stop to the next, with no look in between.
pub fn stop_seconds() -> io::Result<f64> {
    let trials: io::Result<Vec<_>> = (0..TRIALS)
        // SAFETY: getppid(2) is safe after a fork.
        .map(|_| with_child(|| unsafe { libc::syscall(libc::SYS_getppid) }, time_stops))
        .collect();
    Ok(least(&trials?) as f64 / 1e9)
}

/// Those that met other load, or a CPU that had to be waked, took longer than a stop has to.
fn least(trials: &[Vec<u64>]) -> u64 {
    trials.iter().flatten().copied().min().unwrap_or(0)
}

/// Traces a child that makes a call again and again, which has to be one that is safe after a fork.
fn with_child<T>(call: impl Fn() -> libc::c_long, look: impl FnOnce(pid_t) -> T) -> io::Result<T> {
    // SAFETY: the child makes nothing but the given call, and is ended here.
    unsafe {
        let weigh = libc::getpid();
        let child = libc::fork();
        if child == 0 {
            // Whatever becomes of weigh, it does not go on without it.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != weigh {
                libc::_exit(0);
            }
            loop {
                call();
            }
        }
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        let outcome = seize(child).map(|()| look(child));
        libc::kill(child, libc::SIGKILL);
        // The first wait may be for the stop at its end; without a tracer's word it goes no further.
        let mut status = 0;
        while libc::waitpid(child, &mut status, libc::__WALL) == child && libc::WIFSTOPPED(status) {
            sys::resume(child as u32, 0);
        }
        outcome
    }
}

/// Begins to trace a child of weigh's own. No thread of a job is ever told to end with its tracer; this one is.
fn seize(child: pid_t) -> io::Result<()> {
    let options = libc::c_long::from(libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL);
    // SAFETY: this request reads no memory of ours.
    match unsafe { libc::ptrace(libc::PTRACE_SEIZE, child, 0, options) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Nanoseconds from each stop to the next.
fn time_stops(child: pid_t) -> Vec<u64> {
    let (mut times, mut before, mut status) = (Vec::new(), None, 0);
    sys::stop(child as u32);
    while times.len() < TIMES {
        // SAFETY: the status is plain data, filled by the call.
        let changed = unsafe { libc::waitpid(child, &mut status, libc::__WALL) };
        if changed != child || !libc::WIFSTOPPED(status) {
            break;
        }
        sys::at_call(child as u32);
        let now = crate::clock::monotonic_ns();
        times.extend(before.map(|before| now - before));
        before = Some(now);
        sys::resume_to_call(child as u32, 0);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_met_other_load_does_not_count() {
        let busy = vec![61_000, 60_000, 900_000, 62_000];
        let quiet = vec![7_000, 4_000, 3_000_000, 5_000, 6_000];
        assert_eq!(least(&[busy.clone(), quiet, busy]), 4_000);
        assert_eq!(least(&[vec![], vec![9]]), 9, "one that was killed has no times");
    }
}
