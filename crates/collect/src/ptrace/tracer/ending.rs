//! Threads that end: what they have used is looked at where all of it is still there.
//!
//! Reads `/proc` at the stop before a thread's end, and of the zombie; emits what wait4(2) gives, too.

use weigh_schema::Counter;
use weigh_schema::byte_text;

use super::Tracer;
use crate::ptrace::job::Job;
use crate::ptrace::sys::{self, LastCall};

impl Tracer {
    /// A thread at its end, all its own counters still there; at the end of the last one of its
    /// process the memory is complete.
    pub(super) fn leaves(&mut self, job: &mut Job, tid: u32) {
        self.forget_hold(tid);
        if !self.unplaced.is_empty() {
            self.place_all(job);
        }
        self.looks_at_leaving(job, tid);
        if job.guard.looks_at_calls() {
            // It makes no more calls: there is nothing to hold it for.
            self.judge_call(job, tid);
        }
        self.resume(job, tid, 0);
    }

    fn looks_at_leaving(&mut self, job: &mut Job, tid: u32) {
        let Some(pid) = job.threads.get(&tid).map(|thread| thread.process) else { return };
        self.leaves_last_call(job, tid, pid);
        let running = job.processes.get(&pid).map_or(0, |process| process.running);
        if let Some(calls) = self.calls.as_mut().filter(|_| running == 1) {
            calls.ends(job, pid, tid);
        }
        if let Some(io) = self.io.as_mut().filter(|_| running == 1) {
            io.leaves_for_good(tid, pid);
        }
        let Some(thread) = job.threads.get_mut(&tid) else { return };
        thread.is_leaving = true;
        let Some(process) = job.processes.get_mut(&pid) else { return };
        let is_io_seen = match process.is_plain {
            true => self.files.io_of_all(pid, &mut thread.seen),
            false => self.files.io(pid, tid, &mut thread.seen),
        };
        process.running = process.running.saturating_sub(1);
        if tid == pid && process.running > 0 {
            // If another thread is calling exec, this one's zombie will not be seen.
            self.files.cpu(tid, &mut thread.seen);
            self.files.stat(pid, tid, &mut thread.seen);
        }
        if let Some(status) = self.files.status(tid, &mut thread.seen) {
            process.memory.see(&status);
            process.uid = status.uid;
            if tid == pid {
                process.name = status.name;
            }
        }
        if !is_io_seen {
            process.is_io_lost = true;
            let program = process.command.first().map(|word| byte_text::shown(word));
            job.hidden.insert(program.unwrap_or_default());
        }
    }

    /// A thread that was killed in a call stops no more where it leaves that: what the call had done stands in its
    /// registers.
    fn leaves_last_call(&mut self, job: &mut Job, tid: u32, pid: u32) {
        let is_inside = self.io.as_ref().is_some_and(|io| io.is_inside(tid))
            || job.threads.get(&tid).is_some_and(|thread| thread.call.is_some());
        if !is_inside {
            return;
        }
        let Some(call) = sys::last_call(tid) else { return };
        if let Some(io) = &mut self.io {
            io.is_cut_off(tid, pid, call);
        }
        if let (Some(calls), LastCall::Made(result)) = (&mut self.calls, call) {
            calls.leaves(job, tid, result);
        }
    }

    /// A thread that has ended: CPU time, faults and switches hold its end too, the giving back of
    /// its memory included.
    pub(super) fn ended(&mut self, job: &mut Job, tid: u32) {
        self.forget_hold(tid);
        if !self.unplaced.is_empty() {
            self.place_all(job);
        }
        if !job.threads.contains_key(&tid) {
            self.place_by_own_word(job, tid);
        }
        let Some(thread) = job.threads.get_mut(&tid) else {
            self.untraced_child(job, tid);
            return;
        };
        let (pid, is_leaving) = (thread.process, thread.is_leaving);
        let has_cpu = self.files.cpu(tid, &mut thread.seen);
        let is_plain = is_leaving && job.processes.get(&pid).is_some_and(|p| p.is_plain);
        // Else what the kernel keeps of the process holds others as well.
        if !is_plain {
            self.looks_at_ended(job, pid, tid);
        } else if thread.is_told {
            self.files.stat(pid, tid, &mut thread.seen);
        }
        let end = sys::take(tid);
        if let (true, Some(end), Some(thread)) = (is_plain, &end, job.threads.get_mut(&tid)) {
            thread.set_usage(end);
        }
        if let (false, Some(thread)) = (has_cpu, job.threads.get_mut(&tid)) {
            let [user, system] =
                [Counter::UserTicks, Counter::SystemTicks].map(|c| thread.seen.get(c));
            thread.seen.set(Counter::Runtime, user + system);
            job.cpu_by_ticks = true;
        }
        job.thread_ends(tid);
        self.io.iter_mut().for_each(|io| io.thread_ends(tid));
        if tid == pid {
            self.io.iter_mut().for_each(|io| io.ends(pid));
            let status = end.map(|end| end.status);
            job.process_ends(pid, status, end.map(|end| end.rss_peak_bytes));
            if pid == job.main {
                job.changes.extend(status.map(|status| (pid, status)));
            }
            if pid == job.main || job.population.processes == 0 {
                self.shared.wake();
            }
        }
    }

    /// Reads of a zombie what only files tell.
    fn looks_at_ended(&mut self, job: &mut Job, pid: u32, tid: u32) {
        let Some(thread) = job.threads.get_mut(&tid) else { return };
        let stat = self.files.stat(pid, tid, &mut thread.seen);
        // Its last switch, by which it left its CPU for good, is in it too.
        self.files.status(tid, &mut thread.seen);
        // Killed in the few microseconds of another stop, it went past the one at its end.
        if !thread.is_leaving && !self.files.io(pid, tid, &mut thread.seen) {
            job.unseen_io += 1;
            job.processes.entry(pid).and_modify(|process| process.is_io_lost = true);
        }
        if let (Some(process), Some(stat)) = (job.processes.get_mut(&pid), stat)
            && tid == pid
        {
            process.name = stat.name;
        }
    }

    /// A child of weigh that is not traced: the command itself after it was let go, or an orphan
    /// that came to weigh.
    pub(super) fn untraced_child(&mut self, job: &mut Job, tid: u32) {
        if let Some(end) = sys::take(tid)
            && tid == job.main
        {
            job.changes.push_back((tid, end.status));
            self.shared.wake();
        }
    }
}
