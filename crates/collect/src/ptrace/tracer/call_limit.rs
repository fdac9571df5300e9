//! Limits on what calls move: looked at where a thread leaves a call, and at its end.
//!
//! Reads what the kernel has counted for the thread up to there; emits the crossing, and has threads wait from then on
//! where each leaves its next call.

use weigh_schema::event::{Crossing, Event};

use super::Tracer;
use crate::ptrace::fork_limit::Verdict;
use crate::ptrace::job::Job;
use crate::ptrace::sys;

impl Tracer {
    /// What becomes of a thread that has made a call.
    pub(super) fn judge_call(&mut self, job: &mut Job, tid: u32) -> Verdict {
        let Some(thread) = job.threads.get_mut(&tid) else { return Verdict::GoOn };
        self.files.io(thread.process, tid, &mut thread.seen);
        let (pid, growth) = (thread.process, thread.take_growth());
        let (verdict, crossed) = job.guard.at_call(&growth);
        for (metric, observed) in crossed {
            let held = verdict == Verdict::Hold;
            self.tell_of_crossing(job, (metric, observed), (pid, tid), held);
        }
        verdict
    }

    /// The thread waits where it is.
    pub(super) fn hold_at_call(&mut self, tid: u32) {
        sys::take_stop(tid);
        self.held.insert(tid, Some(0));
        self.held_at_calls.insert(tid);
    }

    /// It does not wait any more.
    pub(super) fn forget_hold(&mut self, tid: u32) {
        self.held.remove(&tid);
        self.held_at_calls.remove(&tid);
    }

    pub(super) fn tell_of_crossing(
        &self,
        job: &mut Job,
        (metric, observed): (&str, u64),
        (pid, tid): (u32, u32),
        held: bool,
    ) {
        job.events.push_back(Event::Limit(Crossing {
            metric: metric.to_owned(),
            at_ns: job.now_ns(),
            observed: observed as f64,
            pid: Some(pid),
            tid,
            held,
            stack: Vec::new(),
        }));
        self.shared.wake();
    }
}
