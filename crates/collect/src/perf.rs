//! `perf_event_open`: the kernel's counters, of a process, a thread, or a CPU.
//!
//! Emits descriptors of events that count and take no samples; says of a refusal what it means and what
//! would help.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// What is counted: `PERF_TYPE_*`, and what that type calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub kind: u32,
    pub config: u64,
    /// `config1` and `config2`, which some types have: of a probe of a function where its name lies, and
    /// its address.
    pub more: [u64; 2],
}

impl Event {
    /// One of the CPU, `PERF_COUNT_HW_*`.
    pub const fn of_cpu(config: u64) -> Event {
        Event { kind: 0, config, more: [0; 2] }
    }
}

/// Whose it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A thread's, on whatever CPU.
    Thread(u32),
    /// Everybody's on one CPU.
    Cpu(u32),
}

pub(crate) const DISABLED: u64 = 1 << 0;
pub(crate) const INHERIT: u64 = 1 << 1;
pub(crate) const PINNED: u64 = 1 << 2;
pub(crate) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(crate) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
pub(crate) const ENABLE_ON_EXEC: u64 = 1 << 12;

pub(crate) const FORMAT_TIME_ENABLED: u64 = 1 << 0;
pub(crate) const FORMAT_TIME_RUNNING: u64 = 1 << 1;
pub(crate) const FORMAT_GROUP: u64 = 1 << 3;

const ONLINE: &str = "/sys/devices/system/cpu/online";

const FLAG_CLOEXEC: u64 = 1 << 3;

/// `struct perf_event_attr`, second published version: all that is needed here.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    more: [u64; 2],
}

/// Opens one, alone or in the group of another.
pub(crate) fn open(
    event: Event,
    of: Of,
    read_format: u64,
    flags: u64,
    group: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let attributes = EventAttributes {
        kind: event.kind,
        size: size_of::<EventAttributes>() as u32,
        config: event.config,
        read_format,
        flags,
        more: event.more,
        ..EventAttributes::default()
    };
    let any = -1;
    let (pid, cpu) = match of {
        Of::Thread(tid) => (tid as libc::pid_t, any),
        Of::Cpu(cpu) => (any, cpu as libc::c_int),
    };
    // SAFETY: the attributes live through the call and `size` is theirs; the other arguments are
    // plain numbers. A name that `more` points to the kernel reads as any user's memory: it refuses what
    // is none.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            pid,
            cpu,
            group.map_or(-1, |leader| leader.as_raw_fd()),
            FLAG_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Whether rights are missing.
pub(crate) fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// What a refusal means, and what would help.
pub(crate) fn explanation(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this CPU, or the virtual machine, offers no such counter".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            format!("forbidden by {}; needs CAP_PERFMON", paranoid_text())
        }
        Some(libc::ENOSYS) => "the kernel is built without perf events".to_owned(),
        Some(libc::EMFILE) => "too many open descriptors".to_owned(),
        Some(libc::ESRCH) => "the process is gone".to_owned(),
        _ => error.to_string(),
    }
}

/// What keeps users from counting.
pub(crate) fn paranoid_text() -> String {
    match std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") {
        Ok(level) => format!("kernel.perf_event_paranoid={}", level.trim()),
        Err(_) => "the kernel or a container's seccomp filter".to_owned(),
    }
}

/// The CPUs that run, from a list such as `0-3,8`.
pub(crate) fn online() -> Vec<u32> {
    cpus(&std::fs::read_to_string(ONLINE).unwrap_or_default())
}

fn cpus(list: &str) -> Vec<u32> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_may_have_gaps() {
        assert_eq!(cpus("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(cpus("0\n"), [0]);
        assert!(cpus("").is_empty());
        assert!(!online().is_empty());
    }
}
