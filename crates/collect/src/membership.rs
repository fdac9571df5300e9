//! The threads that are followed, as each object of the kernel side keeps them: `bpf/membership.h`.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, ProgramMut};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::job_error::{JobError, bpf, not_joined};
use crate::join;

/// The process, which waits for its exec, is followed from then on: `armed` is what its entry says until then.
pub(crate) fn arm(
    members: &impl MapCore,
    pidfd: BorrowedFd<'_>,
    armed: &[u8],
) -> Result<(), JobError> {
    let key = pidfd.as_raw_fd().to_ne_bytes();
    members.update(&key, armed, MapFlags::ANY).map_err(bpf("arming the command"))
}

/// All threads of a process that runs are followed from now on, and what they start. `total` says how many have been so
/// far.
pub(crate) fn take_in(
    program: &ProgramMut<'_>,
    pid: u32,
    total: impl Fn() -> u64,
) -> Result<(), JobError> {
    let before = total();
    join::process(program, pid).map_err(|error| bpf("joining a process")(error.into()))?;
    if total() > before { Ok(()) } else { Err(not_joined(pid)) }
}

/// The entry of the process that a descriptor stands for.
pub(crate) fn entry(members: &impl MapCore, pidfd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    members.lookup(&pidfd.as_raw_fd().to_ne_bytes(), MapFlags::ANY).ok()?
}

/// The same by its number.
pub(crate) fn entry_of(members: &impl MapCore, pid: u32) -> Option<Vec<u8>> {
    let pidfd = pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?;
    entry(members, pidfd.as_fd())
}
