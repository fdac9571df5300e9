//! Why the kernel's programs do not follow a job.

use crate::follow::MechanismError;
use crate::libbpf_log;
use crate::requirements::Missing;

/// Why a job cannot be followed in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The kernel or the rights do not allow it.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Nobody has that PID.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// It is there, but the kernel shows it to no BPF program: there is no error number for that.
    #[error(
        "process {0} is there, but this kernel lets no BPF program see it: the iterator over its threads shows none \
         (and reports no error), or has no room to follow one"
    )]
    NotShown(u32),
    /// The kernel has no descriptor for it.
    #[error("process {pid} cannot be followed: {error}")]
    NotReached {
        /// Whose.
        pid: u32,
        /// The kernel's reason.
        error: rustix::io::Errno,
    },
    /// A step of libbpf failed although the requirements are met.
    #[error("BPF {step} failed: {error}{said}")]
    Bpf {
        /// The step.
        step: &'static str,
        /// The error.
        error: libbpf_rs::Error,
        /// What libbpf had to say on the way.
        said: String,
    },
}

impl From<JobError> for MechanismError {
    fn from(error: JobError) -> MechanismError {
        MechanismError::new("bpf", error)
    }
}

/// Why none of a process's threads was taken in.
pub(crate) fn not_joined(pid: u32) -> JobError {
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(process) = Pid::from_raw(pid.cast_signed()) else { return JobError::NoProcess(pid) };
    match pidfd_open(process, PidfdFlags::empty()) {
        Ok(_) => JobError::NotShown(pid),
        Err(Errno::SRCH) => JobError::NoProcess(pid),
        Err(error) => JobError::NotReached { pid, error },
    }
}

pub(crate) fn bpf(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> JobError {
    move |error| JobError::Bpf { step, error, said: libbpf_log::last_words() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_process_was_not_taken_in_is_told_apart() {
        let own = not_joined(std::process::id());
        assert!(matches!(own, JobError::NotShown(pid) if pid == std::process::id()), "{own}");
        // One that has been reaped.
        let mut child = std::process::Command::new("true").spawn().expect("true");
        child.wait().expect("it ends");
        let gone = not_joined(child.id());
        assert!(matches!(gone, JobError::NoProcess(pid) if pid == child.id()), "{gone}");
        // A thread that is not its process's first has no descriptor of a process.
        let thread = std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            not_joined(tid)
        });
        let thread = thread.join().expect("a thread");
        assert!(matches!(thread, JobError::NotReached { .. }), "{thread}");
    }
}
