//! The limit of open files: weigh itself needs more of them than most shells allow where each probe takes
//! some; the command has what there was.

use anyhow::Context as _;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// The limit that there was.
pub struct Descriptors(Rlimit);

impl Descriptors {
    /// As many as may be had. Where that is refused fewer probes can be had, and the kernel says so.
    pub fn raise() -> Descriptors {
        let limit = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
        Descriptors(limit)
    }

    /// Gives a command that waits to be started the limit that there was.
    pub fn give_back(&self, command: Pid) -> anyhow::Result<()> {
        prlimit(Some(command), Resource::Nofile, self.0)
            .context("cannot give the command the limit of open files that it had")?;
        Ok(())
    }
}
