//! What wait4(2) knows of descendants that were waited for: exact, and without any rights.

use rustix::process::{WaitId, WaitIdOptions, waitid};
use weigh_schema::{Counter, CounterValues};

/// Resources of all descendants that weigh has waited for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waited {
    /// CPU time, faults and context switches.
    pub counters: CounterValues,
    /// The greatest resident size of any one of them, in bytes. A process counts with what its
    /// parent held when it was forked.
    pub rss_peak_bytes: u64,
}

/// The counters that [`waited`] fills.
pub const COUNTERS: [Counter; 7] = [
    Counter::Runtime,
    Counter::UserTicks,
    Counter::SystemTicks,
    Counter::MinorFaults,
    Counter::MajorFaults,
    Counter::VoluntarySwitches,
    Counter::InvoluntarySwitches,
];

/// What all descendants that were waited for have used.
pub fn waited() -> Waited {
    // SAFETY: the structure is plain data, filled by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let nanoseconds = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    let mut counters = CounterValues::default();
    let (user, system) = (nanoseconds(usage.ru_utime), nanoseconds(usage.ru_stime));
    for (counter, value) in COUNTERS.into_iter().zip([
        user + system,
        user,
        system,
        usage.ru_minflt as u64,
        usage.ru_majflt as u64,
        usage.ru_nvcsw as u64,
        usage.ru_nivcsw as u64,
    ]) {
        counters.set(counter, value);
    }
    Waited { counters, rss_peak_bytes: usage.ru_maxrss as u64 * 1024 }
}

/// The greatest resident size of weigh itself so far, in bytes: what a child of it inherits.
pub fn own_rss_peak_bytes() -> u64 {
    // SAFETY: as above.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_maxrss as u64 * 1024
}

/// Whether weigh has waited for all of its children.
pub fn has_no_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD))
}

/// Makes weigh the one that adopts orphans of the job, so that they can be followed and waited
/// for. Without rights there is no other way to keep sight of a daemon.
pub fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// From now on the job's orphans are the system's again.
pub fn leave_orphans() {
    let _ = rustix::process::set_child_subreaper(None);
}
