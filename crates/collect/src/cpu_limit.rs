//! The limit of CPU time that weigh itself lives under, where it was started with one for its command (`ulimit -t`).
//!
//! Reads the hard limit, at which the kernel kills; emits a notice before it, as a signal that weigh reads with others.
//! What is left then is for the end. Once the command has ended, its status is weigh's even if that is not enough.
//!
//! The kernel holds the limit against what each tick of the timer met, which can be far more than the time that a
//! process really had: one that is woken by timers is met by most ticks. So the clock here is that one.

use std::ffi::c_int;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::last_resort::end_like;

/// What is kept back for the end: a share of the limit, not more than this.
const MOST_KEPT: Duration = Duration::from_secs(2);
const KEPT_SHARE: u32 = 3;
/// So long before the limit weigh ends, whatever is left to do.
const LAST: Duration = Duration::from_millis(50);
const SAID: &[u8] =
    b"weigh: its own CPU time is used up (ulimit -t): what was measured is not all written\n";

/// The clock of the limit: CPUCLOCK_PROF of the process itself (clock_getcpuclockid(3) gives the precise one).
const LIMIT_CLOCK: libc::clockid_t = !0 << 3;

/// How the command ended, as wait(2) tells it.
static STATUS: AtomicI32 = AtomicI32::new(0);

/// The hard limit, if there is one.
pub fn limit() -> Option<Duration> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is plain data, filled by the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_CPU, &mut limit) } == 0;
    (known && limit.rlim_max != libc::RLIM_INFINITY).then(|| Duration::from_secs(limit.rlim_max))
}

/// Has SIGXCPU sent to weigh, as by a timer, when so little is left that it has to stop measuring. The caller has
/// blocked and reads that signal. Nothing where there is no limit.
pub fn give_notice() {
    if let Some(limit) = limit() {
        arm(limit - (limit / KEPT_SHARE).min(MOST_KEPT));
    }
}

/// From now on weigh ends by itself just before the limit, as the command did. Nothing where there is no limit.
pub fn end_in_time(status: ExitStatus) {
    let Some(limit) = limit() else { return };
    STATUS.store(status.into_raw(), Ordering::Release);
    // SAFETY: the structures are plain data; the handler calls only what is safe in one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) = end_now;
        (action.sa_sigaction, action.sa_flags) = (handler as usize, libc::SA_SIGINFO);
        libc::sigaction(libc::SIGXCPU, &action, std::ptr::null_mut());
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGXCPU);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    arm(limit.saturating_sub(LAST));
}

extern "C" fn end_now(_: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives the handler a whole structure; write and _exit are safe in one, and so is what
    // `end_like` calls.
    unsafe {
        if (*info).si_code != libc::SI_TIMER || used() + LAST * 2 < limit().unwrap_or_default() {
            return; // the notice, or another's signal: the command is gone
        }
        libc::write(2, SAID.as_ptr().cast(), SAID.len());
        end_like(ExitStatus::from_raw(STATUS.load(Ordering::Acquire)));
    }
}

fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is plain data, filled by the call.
    unsafe { libc::clock_gettime(LIMIT_CLOCK, &mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// A timer of the CPU time of all threads of weigh; the kernel takes it back at the end.
fn arm(at: Duration) {
    // SAFETY: the structures are plain data that live through the calls.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_SIGNAL, libc::SIGXCPU);
        let mut timer: libc::timer_t = std::mem::zeroed();
        if libc::timer_create(LIMIT_CLOCK, &mut event, &mut timer) != 0 {
            return;
        }
        let mut when: libc::itimerspec = std::mem::zeroed();
        when.it_value.tv_sec = at.as_secs() as libc::time_t;
        when.it_value.tv_nsec = at.subsec_nanos().max(1).into();
        libc::timer_settime(timer, libc::TIMER_ABSTIME, &when, std::ptr::null_mut());
    }
}
