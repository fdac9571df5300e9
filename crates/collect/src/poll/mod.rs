//! Measuring without rights: the job's process tree, followed by reading `/proc` now and then.
//!
//! Reads `stat`, `status`, `io` and `cmdline` of every process of the job and emits, per poll, a
//! [`JobReading`] with the counters that could be known, and a [`ProcessEnd`] for each process that
//! has ended. A process once met stays in the job even when it is adopted by another; PIDs that
//! are used again are told apart by their start time.
//!
//! What it gives up: processes that live between two polls are not seen (their CPU time, faults
//! and I/O are, if a process of the job waits for them: the kernel adds them to the one that
//! waits); peaks between two polls are missed except each process's own; a daemon whose parent
//! ended between two polls is found only if it was adopted by one of the `adopters`; what other
//! users' processes do (set-user-ID programs, `hidepid`) may be hidden, and then the I/O counters
//! are unknown, not 0.

mod certain;
pub(crate) mod freeze;
pub(crate) mod identity;
mod job;
pub(crate) mod listing;
pub(crate) mod poller;
mod process;
pub(crate) mod tree;

pub use job::PolledJob;
pub use poller::{INFO, JobPoller, Poll, PollError};
