//! Detaches: a process can have one tracer only, so one that wants to trace, or is to be traced by another, is let go.
//!
//! Emits a process that was let go into the [`Job`], which looks at it in `/proc` from then on. Refuses under a filter of
//! system calls, where calls fail that no tracer asks for.

use std::path::PathBuf;

use super::Tracer;
use crate::ptrace::calls::Stops;
use crate::ptrace::job::Job;
use crate::ptrace::sys::{self, What};

impl Tracer {
    /// Whether a process can do without its tracer.
    pub(super) fn can_let_go(&self) -> bool {
        self.stops == Stops::All
    }

    /// Whether a process can be left to another tracer, for which it has to be stopped.
    pub(super) fn may_hand_over(&self, job: &mut Job, tid: u32) -> bool {
        if !job.threads.contains_key(&tid) {
            return false;
        }
        if !self.can_let_go() {
            warn_of_tracer(job, &job.program_of(tid));
            return false;
        }
        // The others of its threads would have to be stopped first.
        job.processes.get(&tid).is_some_and(|process| process.threads == 1)
    }

    /// Lets go of one that another waits to trace, if it is at a point where that can be; then the
    /// other may go on, as it may when there is nobody left to be traced.
    pub(super) fn hands_over(&mut self, job: &mut Job, tid: u32, what: What) -> bool {
        if !self.coveted.iter().any(|(whom, _)| *whom == tid) {
            return false;
        }
        let signal = match what {
            What::Signal(signal) => Some(signal),
            What::Call | What::Event(libc::PTRACE_EVENT_STOP, _) => Some(0),
            _ => None,
        };
        if signal.is_none() && what != What::Ended {
            return false;
        }
        if let Some(signal) = signal {
            self.let_go_to_another(job, tid);
            sys::detach(tid, signal);
        }
        for (whom, who) in std::mem::take(&mut self.coveted) {
            match whom == tid {
                true => self.resume(job, who, 0),
                false => self.coveted.push((whom, who)),
            }
        }
        signal.is_some()
    }

    pub(super) fn let_go_to_another(&mut self, job: &mut Job, tid: u32) {
        let program = std::fs::read_link(format!("/proc/{tid}/exe")).unwrap_or_default();
        self.let_go(job, tid, program, "was traced by another process of the job");
    }

    pub(super) fn let_go(&mut self, job: &mut Job, tid: u32, program: PathBuf, why: &'static str) {
        let mut seen = job.threads.get(&tid).map(|thread| thread.seen.clone()).unwrap_or_default();
        self.files.all(tid, tid, &mut seen);
        self.io.iter_mut().for_each(|io| io.lets_go(tid, program.display().to_string()));
        job.let_go(tid, program, why, seen);
        self.shared.wake();
    }
}

/// One that wants to trace, and cannot, because its calls fail without weigh.
pub(super) fn warn_of_tracer(job: &mut Job, program: &str) {
    let warning = format!(
        "{program} traces others, which fails under --seccomp: its filter makes weigh \
         indispensable as their tracer; leave --seccomp out"
    );
    if !job.warnings.contains(&warning) {
        job.warnings.push(warning);
    }
}
