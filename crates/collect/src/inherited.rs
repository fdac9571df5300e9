//! What weigh was started with, and what its command is to have of it.
//!
//! Reads signal dispositions, the standard descriptors, the limits and what else outlives an exec but no fork, before
//! Rust's start-up code changes them. [`settle`] makes them harmless for weigh; [`restore`] gives them to the command as
//! they were. Interval timers outlive an exec too: they are the command's, and move there. Refuses nothing: what cannot
//! be set stays as it is.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use libc::c_int;
use weigh_schema::allowed::ResourceLimit;
use weigh_schema::metric_name;

use crate::secure_start;

/// The greatest number of a signal.
pub(crate) const LAST_SIGNAL: c_int = 64;

/// Soft limits that are meant for a job, and that weigh raises for itself as far as the hard ones allow.
const RAISED: [(libc::__rlimit_resource_t, &str); 9] = [
    (libc::RLIMIT_CPU, metric_name::cpu_seconds),
    (libc::RLIMIT_FSIZE, "file_size_bytes"),
    (libc::RLIMIT_DATA, "data_bytes"),
    (libc::RLIMIT_STACK, "stack_bytes"),
    (libc::RLIMIT_NPROC, "processes"),
    (libc::RLIMIT_NOFILE, "open_files"),
    (libc::RLIMIT_MEMLOCK, "locked_memory_bytes"),
    (libc::RLIMIT_AS, "address_space_bytes"),
    (libc::RLIMIT_SIGPENDING, "pending_signals"),
];

/// Where weigh may raise a hard limit (CAP_SYS_RESOURCE), it takes so much for itself: what it needs is not the job's.
const NEEDED: [(libc::__rlimit_resource_t, libc::rlim_t); 5] = [
    (libc::RLIMIT_DATA, libc::RLIM_INFINITY),
    (libc::RLIMIT_NOFILE, 1 << 16),
    (libc::RLIMIT_MEMLOCK, libc::RLIM_INFINITY),
    (libc::RLIMIT_AS, libc::RLIM_INFINITY),
    (libc::RLIMIT_SIGPENDING, 1 << 14),
];

/// A main thread with less stack than this is not enough for weigh.
const STACK_BYTES: u64 = 8 << 20;

/// What there was at the start.
#[derive(Clone, Copy)]
struct Inherited {
    /// Signals that were ignored: bit 0 is signal 1.
    ignored: u64,
    /// Which of the standard descriptors were closed.
    closed: [bool; 3],
    /// Those of [`RAISED`]; none where the kernel did not tell.
    limits: [Option<libc::rlimit>; RAISED.len()],
    /// The signals that were blocked.
    mask: libc::sigset_t,
    /// What new files are kept from.
    umask: libc::mode_t,
    /// Whether orphans of its descendants become its children.
    is_subreaper: bool,
    /// The signal that it gets when its parent ends; 0 is none.
    parent_death_signal: c_int,
}

static INHERITED: OnceLock<Inherited> = OnceLock::new();

/// Rust's start-up code ignores SIGPIPE and opens what is closed; this runs before it.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = {
    extern "C" fn remember() {
        let _ = INHERITED.set(Inherited::read());
    }
    remember
};

impl Inherited {
    fn read() -> Inherited {
        let ignored = (1..=LAST_SIGNAL).filter(|signal| is_ignored_now(*signal));
        Inherited {
            ignored: ignored.fold(0, |set, signal| set | bit(signal)),
            closed: std::array::from_fn(|number| is_closed_now(number as c_int)),
            limits: RAISED.map(|(resource, _)| limit_before_exec(resource)),
            mask: mask(),
            umask: umask(),
            is_subreaper: attribute(libc::PR_GET_CHILD_SUBREAPER) != 0,
            parent_death_signal: attribute(libc::PR_GET_PDEATHSIG),
        }
    }

    fn ignores(&self, signal: c_int) -> bool {
        self.ignored & bit(signal) != 0
    }
}

fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// As the kernel has it: the C library keeps two signals for its threads, and refuses to tell of these.
#[repr(C)]
#[derive(Default)]
struct Disposition {
    handler: libc::sighandler_t,
    flags: libc::c_ulong,
    restorer: usize,
    mask: u64,
}

const MASK_BYTES: usize = size_of::<u64>();

fn is_ignored_now(signal: c_int) -> bool {
    let mut now = Disposition::default();
    let unchanged = std::ptr::null::<Disposition>();
    // SAFETY: with a null new disposition the call only fills the structure.
    let known =
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, unchanged, &mut now, MASK_BYTES) };
    known == 0 && now.handler == libc::SIG_IGN
}

fn is_closed_now(descriptor: c_int) -> bool {
    // SAFETY: the call reads no memory.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) == -1 }
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is plain data, filled by the call.
    (unsafe { libc::getrlimit(resource, &mut limit) } == 0).then_some(limit)
}

fn limit_before_exec(resource: libc::__rlimit_resource_t) -> Option<libc::rlimit> {
    let limit = limit(resource)?;
    Some(if resource == libc::RLIMIT_STACK { secure_start::stack_limit(limit) } else { limit })
}

fn mask() -> libc::sigset_t {
    // SAFETY: the set is plain data, filled by the call, which changes nothing.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
        mask
    }
}

/// It can be read by setting it alone.
fn umask() -> libc::mode_t {
    // SAFETY: both calls read no memory, and leave the mask as it was.
    unsafe {
        let mask = libc::umask(0o077);
        libc::umask(mask);
        mask
    }
}

/// What weigh needs to do with its own files.
const OWNER: libc::mode_t = 0o700;

/// An attribute of this process, by the prctl(2) that reads it.
fn attribute(request: c_int) -> c_int {
    let mut value: c_int = 0;
    // SAFETY: the requests given here fill one integer.
    unsafe { libc::prctl(request, &raw mut value) };
    value
}

fn set_disposition(signal: c_int, to: libc::sighandler_t) {
    let new = Disposition { handler: to, ..Disposition::default() };
    let before = std::ptr::null_mut::<Disposition>();
    // SAFETY: no handler of weigh's is set; the call reads the structure, and is safe after a fork, too.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &new, before, MASK_BYTES) };
}

/// Whether weigh was started with this signal ignored, as by `nohup`.
pub fn is_ignored(signal: c_int) -> bool {
    INHERITED.get().is_some_and(|inherited| inherited.ignores(signal))
}

/// Whether a standard descriptor was closed when weigh was started: what is written there now is lost.
pub fn was_closed(descriptor: usize) -> bool {
    let inherited = INHERITED.get();
    inherited.and_then(|inherited| inherited.closed.get(descriptor)).is_some_and(|closed| *closed)
}

/// The ends of children are heard of, whatever weigh was started with.
pub fn hear_of_children() {
    set_disposition(libc::SIGCHLD, libc::SIG_DFL);
}

/// Makes harmless for weigh what is meant for its command. A file that grows too large is a failed write from here on.
pub fn settle() {
    hear_of_children();
    set_disposition(libc::SIGXFSZ, libc::SIG_IGN);
    let Some(inherited) = INHERITED.get() else { return };
    // SAFETY: the call reads no memory.
    unsafe { libc::umask(inherited.umask & !OWNER) };
    for ((resource, _), limit) in RAISED.iter().zip(inherited.limits) {
        let Some(limit) = limit else { continue };
        let wishes = [beyond(*resource, limit), raised(*resource, limit)];
        // SAFETY: the structure is plain data.
        let _ =
            wishes.iter().flatten().any(|wish| unsafe { libc::setrlimit(*resource, wish) } == 0);
    }
}

/// The limit that weigh takes for itself; none if it has that already.
fn raised(resource: libc::__rlimit_resource_t, limit: libc::rlimit) -> Option<libc::rlimit> {
    let enough = if resource == libc::RLIMIT_STACK { STACK_BYTES } else { libc::RLIM_INFINITY };
    let soft = limit.rlim_max.min(enough);
    (soft > limit.rlim_cur).then_some(libc::rlimit { rlim_cur: soft, ..limit })
}

/// What weigh takes beyond the hard limit; none if that is enough.
fn beyond(resource: libc::__rlimit_resource_t, limit: libc::rlimit) -> Option<libc::rlimit> {
    let (_, needed) = *NEEDED.iter().find(|(needing, _)| *needing == resource)?;
    (needed > limit.rlim_max).then_some(libc::rlimit { rlim_cur: needed, rlim_max: needed })
}

/// The resource limits that weigh was started with and that are not infinite, by their names.
pub(crate) fn limits() -> BTreeMap<String, ResourceLimit> {
    let inherited = INHERITED.get().map_or([None; RAISED.len()], |inherited| inherited.limits);
    let named = RAISED.iter().zip(inherited).filter_map(|((_, name), limit)| Some((*name, limit?)));
    let finite = |limit| (limit != libc::RLIM_INFINITY).then_some(limit);
    named
        .map(|(name, limit)| (name, finite(limit.rlim_cur), finite(limit.rlim_max)))
        .filter(|(_, soft, hard)| soft.or(*hard).is_some())
        .map(|(name, soft, hard)| (name.to_string(), ResourceLimit { soft, hard }))
        .collect()
}

/// Whether the main thread has too little stack for weigh: then another thread has to do its work.
pub fn is_stack_small() -> bool {
    limit(libc::RLIMIT_STACK).is_some_and(|limit| limit.rlim_cur < STACK_BYTES)
}

/// Gives a process that is about to execute a command what weigh was started with; the signal mask and the timers are
/// the caller's. Safe after a fork.
pub(crate) fn restore() {
    let Some(inherited) = INHERITED.get() else { return };
    // SAFETY: the call reads no memory, and is safe after a fork.
    unsafe { libc::umask(inherited.umask) };
    for signal in
        (1..=LAST_SIGNAL).filter(|signal| !matches!(*signal, libc::SIGKILL | libc::SIGSTOP))
    {
        match (inherited.ignores(signal), is_ignored_now(signal)) {
            (true, false) => set_disposition(signal, libc::SIG_IGN),
            (false, true) => set_disposition(signal, libc::SIG_DFL),
            _ => {} // an exec sets what has a handler back to its default
        }
    }
    for ((resource, _), limit) in RAISED.iter().zip(inherited.limits) {
        let as_pair = |limit: libc::rlimit| (limit.rlim_cur, limit.rlim_max);
        let now = self::limit(*resource).map(as_pair);
        if let Some(limit) = limit.filter(|limit| now != Some(as_pair(*limit))) {
            // SAFETY: the structure is plain data; the call is safe after a fork.
            unsafe { libc::setrlimit(*resource, &limit) };
        }
    }
    for (descriptor, closed) in inherited.closed.iter().enumerate() {
        if *closed {
            // SAFETY: what Rust's start-up code has opened in its place is nobody else's in this process.
            unsafe { libc::close(descriptor as c_int) };
        }
    }
}

/// Gives the command's process what an exec would have kept and a fork loses. Safe after a fork.
pub(crate) fn restore_attributes() {
    let Some(inherited) = INHERITED.get() else { return };
    // SAFETY: these set attributes of the process, and read no memory.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(inherited.is_subreaper));
        libc::prctl(libc::PR_SET_PDEATHSIG, inherited.parent_death_signal);
    }
}

/// Gives this thread the signal mask that weigh was started with. Safe after a fork.
pub(crate) fn restore_mask() {
    let Some(inherited) = INHERITED.get() else { return };
    // SAFETY: the set is plain data.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &inherited.mask, std::ptr::null_mut()) };
}

/// Interval timers that weigh was started with, as by `alarm`: taken from weigh, for its command.
#[derive(Clone, Copy)]
pub(crate) struct Timers {
    at_ns: u64,
    timers: [libc::itimerval; WHICH.len()],
}

static TAKEN: OnceLock<Timers> = OnceLock::new();

const WHICH: [c_int; 3] = [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF];

impl Timers {
    /// Takes them.
    pub fn take() -> Timers {
        let timers = WHICH.map(|which| {
            // SAFETY: both structures are plain data.
            unsafe {
                let none: libc::itimerval = std::mem::zeroed();
                let mut timer: libc::itimerval = std::mem::zeroed();
                libc::setitimer(which, &none, &mut timer);
                timer
            }
        });
        *TAKEN.get_or_init(|| Timers { at_ns: crate::clock::monotonic_ns(), timers })
    }

    /// Starts again those that were taken, if any were.
    pub fn restore_taken() {
        TAKEN.get().into_iter().for_each(Timers::start);
    }

    /// Starts them in this process; what was due meanwhile comes at once. Safe after a fork.
    pub fn start(&self) {
        let passed = crate::clock::monotonic_ns().saturating_sub(self.at_ns) / 1000;
        for (which, timer) in WHICH.iter().zip(&self.timers) {
            let left = microseconds(timer.it_value);
            if left == 0 {
                continue;
            }
            let left = match *which {
                libc::ITIMER_REAL => left.saturating_sub(passed).max(1),
                _ => left, // of CPU time, of which the command has used none
            };
            let timer = libc::itimerval { it_value: timeval(left), ..*timer };
            // SAFETY: the structure is plain data; the call is safe after a fork.
            unsafe { libc::setitimer(*which, &timer, std::ptr::null_mut()) };
        }
    }
}

fn microseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64
}

fn timeval(microseconds: u64) -> libc::timeval {
    let (seconds, rest) = (microseconds / 1_000_000, microseconds % 1_000_000);
    libc::timeval { tv_sec: seconds as libc::time_t, tv_usec: rest as libc::suseconds_t }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_raised_as_far_as_they_may_be() {
        let limit = |soft, hard| libc::rlimit { rlim_cur: soft, rlim_max: hard };
        let soft = |resource, limit| raised(resource, limit).map(|limit| limit.rlim_cur);
        assert_eq!(soft(libc::RLIMIT_FSIZE, limit(8, 99)), Some(99));
        assert_eq!(soft(libc::RLIMIT_FSIZE, limit(8, 8)), None);
        assert_eq!(soft(libc::RLIMIT_STACK, limit(8, libc::RLIM_INFINITY)), Some(STACK_BYTES));
        assert_eq!(soft(libc::RLIMIT_STACK, limit(1 << 30, libc::RLIM_INFINITY)), None);
        assert_eq!(soft(libc::RLIMIT_STACK, limit(8, 9)), Some(9));
    }

    #[test]
    fn who_may_goes_beyond_a_hard_limit_that_is_too_small() {
        let limit = |hard| libc::rlimit { rlim_cur: 8, rlim_max: hard };
        let hard = |resource, limit| beyond(resource, limit).map(|limit| limit.rlim_max);
        assert_eq!(hard(libc::RLIMIT_NOFILE, limit(16)), Some(1 << 16));
        assert_eq!(hard(libc::RLIMIT_NOFILE, limit(1 << 20)), None);
        assert_eq!(hard(libc::RLIMIT_AS, limit(1 << 30)), Some(libc::RLIM_INFINITY));
        assert_eq!(hard(libc::RLIMIT_AS, limit(libc::RLIM_INFINITY)), None);
        assert_eq!(hard(libc::RLIMIT_FSIZE, limit(16)), None);
    }

    #[test]
    fn times_are_what_they_were() {
        for time in [0, 1, 999_999, 1_000_000, 61_500_001] {
            assert_eq!(microseconds(timeval(time)), time);
        }
    }
}
