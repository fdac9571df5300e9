//! The system calls of a run's job: `weigh calls` as a second product of the same session.
//!
//! Loads the kernel side before the command's process is made; emits the table at any time, and in the end. Refuses what
//! `weigh calls` refuses. It has no loop, no command and no signals of its own: these are the run's.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use weigh_account::Owners;
use weigh_collect::calls::{CallsRequest, Counters, KernelCalls, Telling};
use weigh_collect::job::JobError;
use weigh_schema::call::{CallsReport, Grouping, Sharing};

use super::parts::{Parts, PartsSettings};
use super::report::{CallsSubject, report};

/// One row for each kind of call of the whole job.
const GROUPING: Grouping = Grouping::Call;

/// The calls of a job that something else follows as well.
pub(crate) struct JobCalls {
    calls: KernelCalls,
    owners: Owners,
    command: Vec<OsString>,
    pid: Option<u32>,
    began: Instant,
    /// The first thing that went wrong while they were followed.
    trouble: Option<JobError>,
}

impl JobCalls {
    /// Loads and attaches what looks into these parts of the kernel; all, if none are named. Nobody is followed yet.
    pub fn open(subsystems: &[String]) -> anyhow::Result<JobCalls> {
        let parts = Parts::choose(&PartsSettings {
            names: subsystems,
            config: None,
            boundaries: None,
            config_owner: "the configuration of weigh run",
            by_functions: "`weigh calls --functions` looks into it",
        })?;
        let wanted = CallsRequest {
            subsystems: parts.built_in,
            grouping: GROUPING,
            every_call: true,
            sharing: Sharing::Bytes,
            counters: Counters::of(&[]),
            by_part: false,
        };
        Ok(JobCalls {
            calls: KernelCalls::open_with(&wanted, Telling::PLAIN, &parts.functions)?,
            owners: Owners::new(GROUPING),
            command: Vec::new(),
            pid: None,
            began: Instant::now(),
            trouble: None,
        })
    }

    /// Follows a command whose process waits for its exec.
    pub fn arm(&mut self, command: &[OsString], pidfd: BorrowedFd<'_>) -> Result<(), JobError> {
        self.command = command.to_vec();
        self.calls.arm(pidfd)
    }

    /// Follows a process that runs.
    pub fn join(&mut self, pid: u32) -> Result<(), JobError> {
        self.pid = Some(pid);
        self.calls.join(pid)
    }

    /// Whether it is known which bytes were written to storage.
    pub fn counts_writes(&self) -> bool {
        matches!(self.calls.written(), Ok(Some(_)))
    }

    /// The command is about to begin.
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Readable when there is something to attend to.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.calls.attention_fd()
    }

    /// Attaches what packets pass, as far as there are any.
    pub fn attend(&mut self) {
        if let Err(error) = self.calls.adapt() {
            self.trouble.get_or_insert(error);
        }
    }

    /// The table as it stands.
    pub fn so_far(&self) -> Result<CallsReport, JobError> {
        let now_ns = weigh_collect::clock::kernel_monotonic_ns();
        let mut found = report(
            &self.calls,
            CallsSubject {
                command: &self.command,
                pid: self.pid,
                wall_seconds: self.began.elapsed().as_secs_f64(),
                grouping: GROUPING,
                owners: &self.owners,
                under_way: self.calls.under_way(now_ns)?,
            },
        )?;
        found.notes.extend(self.trouble.as_ref().map(ToString::to_string));
        Ok(found)
    }

    /// Follows no longer. The table in the end.
    pub fn finish(&mut self) -> Result<CallsReport, JobError> {
        self.calls.detach();
        self.so_far()
    }
}
