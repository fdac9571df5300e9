//! Attaches to the command, to a running PID and to new children; holds forks at a limit.
//!
//! Reads what parents tell of their children and what `/proc` says of them; emits them into the [`Job`]. A child may
//! stop at its birth before its parent tells of it, and a parent that is killed never does.

use std::collections::HashSet;
use std::sync::Arc;

use libc::c_int;
use weigh_schema::CounterValues;

use super::Tracer;
use crate::ptrace::birth::Birth;
use crate::ptrace::fork_limit::{Guard, Verdict};
use crate::ptrace::job::Job;
use crate::ptrace::refusal::{self, TraceError};
use crate::ptrace::sys;
use crate::signals::send_in_turn;
use crate::spaces;

impl Tracer {
    /// Begins to trace all threads of a process that runs. Those that they start meanwhile are told of by them.
    pub fn join(&mut self, pid: u32) -> Result<(), TraceError> {
        let tids = threads_of(pid);
        let children_before = tids.flat_map(|tid| self.files.children(pid, tid)).collect();
        sys::seize(pid, false).map_err(|error| refusal::why_not_join(pid, error))?;
        let mut seized = vec![pid];
        let mut tried: HashSet<u32> = seized.iter().copied().collect();
        loop {
            let new: Vec<u32> = threads_of(pid).filter(|tid| tried.insert(*tid)).collect();
            if new.is_empty() {
                break;
            }
            // One that was started by one of these is traced by now.
            seized.extend(new.into_iter().filter(|tid| sys::seize(*tid, false).is_ok()));
        }
        let shared = Arc::clone(&self.shared);
        let mut job = shared.job();
        let guard = std::mem::replace(&mut job.guard, Guard::new());
        *job = Job::new(pid, 0);
        (job.guard, job.children_before) = (guard, children_before);
        for tid in &seized {
            let birth = if *tid == pid { Birth::Own(0, 0) } else { Birth::Thread };
            job.born(*tid, pid, birth);
            let mut before = CounterValues::default();
            self.files.all(pid, *tid, &mut before);
            if let Some(thread) = job.threads.get_mut(tid) {
                (thread.seen, thread.before) = (before.clone(), before);
            }
        }
        let (command, _) = self.files.command(pid);
        let status = self.files.status_of(pid);
        if let Some(process) = job.processes.get_mut(&pid) {
            process.has_run_before(command, status.as_ref());
        }
        self.io.iter_mut().for_each(|io| io.joins(pid, seized.len()));
        // A stop cuts off what waits: a write to a full pipe returns what it has written so far.
        if self.calls.is_some() || self.io.is_some() || job.guard.looks_at_calls() {
            seized.iter().for_each(|tid| sys::stop(*tid));
        }
        Ok(())
    }

    pub(super) fn gives_birth(&mut self, job: &mut Job, tid: u32, event: c_int) {
        let born = sys::message(tid);
        let parent = job.threads.get(&tid).map(|thread| thread.process);
        let (Some(born), Some(parent)) = (born, parent) else {
            self.resume(job, tid, 0);
            return;
        };
        let is_thread = event == libc::PTRACE_EVENT_CLONE && self.files.is_thread_of(parent, born);
        let is_sharing = !is_thread && is_sharing(job, parent, born, Some((tid, event)));
        let is_guarded = job.guard.is_set();
        if !is_guarded {
            self.resume(job, tid, 0);
        }
        let early = self.placed_early.iter().position(|early| *early == born);
        let verdict = match early {
            Some(at) => {
                self.placed_early.swap_remove(at);
                Verdict::GoOn
            }
            None => self.place(job, born, parent, is_thread, is_sharing),
        };
        if is_guarded {
            self.go_on_after_birth(job, tid, parent, verdict);
        }
    }

    /// The one who has given birth.
    fn go_on_after_birth(&mut self, job: &Job, tid: u32, pid: u32, verdict: Verdict) {
        match verdict {
            Verdict::Hold => {
                sys::take_stop(tid);
                self.held.insert(tid, Some(0));
                return;
            }
            Verdict::Kill => {
                send_in_turn(pid, &[libc::SIGKILL]);
            }
            Verdict::GoOn => {}
        }
        self.resume(job, tid, 0);
    }

    /// Holds the job to its limits at a birth.
    fn judge(&self, job: &mut Job, tid: u32, parent: u32, is_thread: bool) -> Verdict {
        if !job.guard.is_set() {
            return Verdict::GoOn;
        }
        let (verdict, crossed) = job.guard.at_birth(&job.population);
        let is_held = verdict == Verdict::Hold;
        for crossed in crossed {
            self.tell_of_crossing(job, crossed, (parent, parent), is_held);
        }
        if verdict == Verdict::Kill {
            send_in_turn(if is_thread { parent } else { tid }, &[libc::SIGKILL]);
        } else if let Some(signal) =
            (!is_thread).then(|| job.guard.inherited(parent, tid)).flatten()
        {
            send_in_turn(tid, &[signal]);
        }
        verdict
    }

    /// Those who wait because of a limit go on if they have met with a signal meanwhile, or as far
    /// as there is room for them.
    pub(super) fn let_held_go(&mut self, job: &mut Job) {
        let is_release_due = std::mem::take(&mut job.guard.is_release_due);
        if self.held.is_empty() || !is_release_due && !job.guard.has_room(&job.population) {
            return;
        }
        let may_go = |tid: &u32| is_release_due || !self.held_at_calls.contains(tid);
        let stopped = self.held.iter().filter(|(tid, _)| may_go(tid));
        let stopped = stopped.filter_map(|(tid, signal)| Some((*tid, (*signal)?)));
        // One at a time where it is for the room that another has left.
        let most = if is_release_due { usize::MAX } else { 1 };
        let let_go: Vec<(u32, c_int)> = stopped.take(most).collect();
        for (tid, signal) in let_go {
            self.forget_hold(tid);
            if !sys::has_news(tid) && !self.go_on(job, tid, signal) {
                self.resume(job, tid, 0);
            }
        }
        if is_release_due {
            // They go on as others do when their stop comes.
            self.held.clear();
            self.held_at_calls.clear();
        }
    }

    pub(super) fn place(
        &mut self,
        job: &mut Job,
        tid: u32,
        parent: u32,
        is_thread: bool,
        is_sharing: bool,
    ) -> Verdict {
        let birth = match (is_thread, is_sharing) {
            (true, _) => Birth::Thread,
            (false, true) => Birth::Sharing,
            (false, false) => {
                let (resident, anonymous) = self.files.resident(tid).unwrap_or_default();
                Birth::Own(resident, anonymous)
            }
        };
        job.born(tid, parent, birth);
        self.io.iter_mut().for_each(|io| io.born(tid, parent, is_thread));
        let verdict = self.judge(job, tid, parent, is_thread);
        if verdict == Verdict::Hold {
            self.held.insert(tid, None);
        }
        if let Some(at) = self.unplaced.iter().position(|(unplaced, _)| *unplaced == tid) {
            let (_, signal) = self.unplaced.swap_remove(at);
            if let Some(thread) = job.threads.get_mut(&tid) {
                thread.stops += 1;
            }
            if let Some(held) = self.held.get_mut(&tid) {
                *held = Some(signal);
                return verdict;
            }
            // If it was killed meanwhile it is at its end by now, and is to be looked at there; or
            // that was taken note of together with its birth.
            if !sys::has_news(tid) && !self.go_on(job, tid, signal) {
                self.resume(job, tid, 0);
            }
        }
        verdict
    }

    /// A parent that was killed may never tell of a child: then the child's own word counts.
    pub(super) fn place_by_own_word(&mut self, job: &mut Job, tid: u32) {
        let Some(status) = self.files.status_of(tid) else { return };
        let (Some(pid), Some(parent)) = (status.process, status.parent_pid) else { return };
        if status.tracer == Some(0) {
            return;
        }
        let is_sharing = pid == tid && is_sharing(job, parent, tid, None);
        self.placed_early.push(tid);
        self.place(job, tid, if pid == tid { parent } else { pid }, pid != tid, is_sharing);
    }

    pub(super) fn place_all(&mut self, job: &mut Job) {
        for (tid, _) in self.unplaced.clone() {
            self.place_by_own_word(job, tid);
        }
    }
}

/// Whether a new process uses its parent's memory: no event tells, for clone(2) with CLONE_VM and SIGCHLD is told of as
/// a fork.
fn is_sharing(job: &mut Job, parent: u32, born: u32, told: Option<(u32, c_int)>) -> bool {
    // Where kcmp is forbidden, as in containers, the call itself tells.
    let by_call = |tid| Some(sys::clone_flags(tid)? & libc::CLONE_VM as u64 != 0);
    let known = spaces::share_memory(parent, born).or_else(|| by_call(told?.0));
    if let Some(is_sharing) = known {
        return is_sharing;
    }
    let is_vfork = told.is_some_and(|(_, event)| event == libc::PTRACE_EVENT_VFORK);
    if !is_vfork && job.not_compared.is_none() {
        job.not_compared = spaces::why_not_compared();
    }
    is_vfork
}

fn threads_of(pid: u32) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
