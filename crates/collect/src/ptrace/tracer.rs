//! The thread that traces: waits for stops, looks, lets go on.
//!
//! Reads what waitid(2) and `/proc` say at births, execs and ends; emits them into the [`Job`].
//! Signals pass through as they came, and a stopped group stays stopped. It alone waits for
//! children: a wait by another thread would take stops away from it.

mod call_limit;
mod ending;
mod joining;
mod yielding;

use std::collections::{HashMap, HashSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::c_int;

use super::calls::{Calls, Next, Stops};
use super::files::Files;
use super::fork_limit::Verdict;
use super::io::IoCalls;
use super::job::Job;
use super::program::Programs;
use super::sys::{self, AtCall, Change, What};
use crate::procfs;

/// What the tracer and the rest of weigh share.
pub struct Shared {
    job: Mutex<Job>,
    /// Whether the tracer is to let go of everybody.
    pub is_over: AtomicBool,
    wake: OwnedFd,
}

impl Shared {
    /// For a new job; the descriptor is an eventfd.
    pub fn new(job: Job, wake: OwnedFd) -> Shared {
        Shared { job: Mutex::new(job), is_over: AtomicBool::new(false), wake }
    }

    /// The job. No change to it can be left half done but by a panic, which keeps its numbers.
    pub fn job(&self) -> MutexGuard<'_, Job> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes readable when something should not wait.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd as _;
        self.wake.as_fd()
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The tracer.
pub struct Tracer {
    shared: Arc<Shared>,
    files: Files,
    programs: Programs,
    /// Looks at system calls, if they are wanted.
    calls: Option<Calls>,
    /// Looks at what is read and written by file, if that is wanted.
    io: Option<IoCalls>,
    /// Which calls stop.
    stops: Stops,
    /// Stopped at their birth, of which their parents have not told yet; with the signal.
    unplaced: Vec<(u32, c_int)>,
    /// Placed before their parents have told of them.
    placed_early: Vec<u32>,
    /// Whom others of the job want to trace, and who waits for it, just before the call.
    coveted: Vec<(u32, u32)>,
    /// Threads that wait because of a limit, with the signal of their stop; none where that is still to come.
    held: HashMap<u32, Option<c_int>>,
    /// Those of them who wait at the end of a call: until they were told why.
    held_at_calls: HashSet<u32>,
}

impl Tracer {
    /// One that has seized nobody yet.
    pub fn new(
        shared: Arc<Shared>,
        files: Files,
        stops: Stops,
        (calls, io): (Option<Calls>, Option<IoCalls>),
    ) -> Tracer {
        Tracer {
            shared,
            files,
            programs: Programs::default(),
            calls,
            io,
            stops,
            unplaced: Vec::new(),
            placed_early: Vec::new(),
            coveted: Vec::new(),
            held: HashMap::new(),
            held_at_calls: HashSet::new(),
        }
    }

    /// What it shares with the rest of weigh.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Follows until no child is left, or it is told to let go: the kernel detaches what a thread
    /// has traced when that thread ends.
    pub fn run(&mut self) {
        while !self.shared.is_over.load(Ordering::Acquire) {
            match sys::wait() {
                Ok(change) => {
                    let shared = Arc::clone(&self.shared);
                    let mut job = shared.job();
                    self.handle(&mut job, change);
                    self.let_held_go(&mut job);
                }
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {
                    let shared = Arc::clone(&self.shared);
                    self.let_held_go(&mut shared.job());
                }
                // No child is left. Nobody who is still in the list will be heard of again.
                Err(_) => {
                    let mut job = self.shared.job();
                    let left: Vec<u32> = job.processes.keys().copied().collect();
                    for pid in left {
                        self.io.iter_mut().for_each(|io| io.ends(pid));
                        job.process_ends(pid, None, None);
                    }
                    drop(job);
                    self.shared.wake();
                    self.stay_for_witness();
                    break;
                }
            }
        }
        self.shared.wake();
    }

    /// What the kernel has counted for this thread is known for as long as it lives, and has to be told from what
    /// it has counted for the job.
    fn stay_for_witness(&self) {
        while self.io.as_ref().is_some_and(IoCalls::is_beside_library)
            && !self.shared.is_over.load(Ordering::Acquire)
        {
            sys::pause();
        }
    }

    fn handle(&mut self, job: &mut Job, Change { tid, what }: Change) {
        if let Some(thread) = job.threads.get_mut(&tid)
            && what != What::Ended
        {
            thread.stops += 1;
        }
        if !matches!(what, What::Ended | What::Call | What::Event(libc::PTRACE_EVENT_SECCOMP, _)) {
            self.io.iter_mut().for_each(IoCalls::stopped);
        }
        if !self.coveted.is_empty() && self.hands_over(job, tid, what) {
            return;
        }
        match what {
            What::Ended => self.ended(job, tid),
            What::Stopped => self.untraced_child(job, tid),
            What::Signal(signal) => {
                if let Some(pid) = job.threads.get(&tid).map(|thread| thread.process) {
                    job.guard.meets(pid, signal);
                    job.is_sent(pid, signal, sys::sent(tid));
                }
                self.resume(job, tid, signal);
            }
            What::Call => self.at_call(job, tid),
            What::Event(libc::PTRACE_EVENT_STOP, signal) => self.stopped(job, tid, signal),
            What::Event(libc::PTRACE_EVENT_EXEC, _) => self.execs(job, tid),
            What::Event(libc::PTRACE_EVENT_EXIT, _) => self.leaves(job, tid),
            What::Event(libc::PTRACE_EVENT_SECCOMP, _) => self.at_call(job, tid),
            What::Event(event, _) => self.gives_birth(job, tid, event),
        }
    }

    /// Lets a stopped thread go on, to its next system call if those are looked at.
    fn resume(&self, job: &Job, tid: u32, signal: c_int) {
        let for_counters = self.calls.as_ref().is_some_and(|calls| calls.is_next_wanted(job, tid));
        let pid = || job.threads.get(&tid).map_or(tid, |thread| thread.process);
        let for_files = || self.io.as_ref().is_some_and(|io| io.is_next_wanted(tid, pid));
        match for_counters || job.guard.looks_at_calls() || for_files() {
            true => sys::resume_to_call(tid, signal),
            false => sys::resume(tid, signal),
        }
    }

    /// Ends a stop of a whole process as it has to be: a stopped group stays so until SIGCONT.
    /// False if it should stay so and is not stopped any more.
    fn go_on(&self, job: &Job, tid: u32, signal: c_int) -> bool {
        if is_stop_signal(signal) {
            return sys::leave_stopped(tid);
        }
        self.resume(job, tid, 0);
        true
    }

    /// A thread enters or leaves a system call.
    fn at_call(&mut self, job: &mut Job, tid: u32) {
        let at = sys::at_call(tid);
        let mut next = Next::Pass;
        let pid = job.threads.get(&tid).map(|thread| thread.process);
        if let (Some(io), Some(pid)) = (&mut self.io, pid) {
            match at {
                Some(AtCall::Enters(call)) => io.enters(tid, pid, &call),
                Some(AtCall::Leaves(result)) => io.leaves(tid, pid, result),
                None => {}
            }
        }
        if let Some(calls) = &mut self.calls {
            match at {
                Some(AtCall::Enters(call)) => next = calls.enters(job, tid, &call),
                Some(AtCall::Leaves(result)) => calls.leaves(job, tid, result),
                None => {}
            }
        }
        let is_over = matches!(at, Some(AtCall::Leaves(_)));
        if is_over && job.guard.looks_at_calls() && self.judge_call(job, tid) == Verdict::Hold {
            return self.hold_at_call(tid);
        }
        match next {
            Next::BeTraced if self.may_hand_over(job, tid) => {
                self.let_go_to_another(job, tid);
                sys::detach(tid, 0);
            }
            Next::Trace(whom) if self.may_hand_over(job, whom) => {
                self.coveted.push((whom, tid));
                sys::stop(whom);
            }
            _ => self.resume(job, tid, 0),
        }
    }

    /// A new thread at its beginning, or a thread whose group was stopped or goes on again.
    fn stopped(&mut self, job: &mut Job, tid: u32, signal: c_int) {
        let Some(thread) = job.threads.get(&tid) else {
            // Its parent is about to tell of it; until then it stays as it is.
            sys::take_stop(tid);
            self.unplaced.push((tid, signal));
            return;
        };
        let pid = thread.process;
        if let Some(held) = self.held.get_mut(&tid) {
            sys::take_stop(tid);
            *held = Some(signal);
            return;
        }
        let is_stop = is_stop_signal(signal);
        if let Some(process) = job.processes.get_mut(&pid) {
            let is_news = is_stop && !process.is_stopped;
            process.is_stopped = is_stop;
            if is_news && pid == job.main {
                job.changes.push_back((pid, signal << 8 | 0x7f));
                self.shared.wake();
            }
        }
        self.go_on(job, tid, signal);
    }

    fn execs(&mut self, job: &mut Job, tid: u32) {
        let is_alone = job.processes.get(&tid).is_some_and(|process| process.threads == 1);
        let former = match is_alone {
            true => tid,
            // Perhaps another thread of its process has called it.
            false => {
                sys::take_stop(tid);
                sys::message(tid).unwrap_or(tid)
            }
        };
        let (command, cut) = self.files.command(tid);
        job.execs(tid, former, command, cut);
        if let Some(calls) = &mut self.calls {
            calls.executes(job, tid);
        }
        let program = self.programs.of(tid);
        self.io.iter_mut().for_each(|io| io.executes(tid, former, program.as_ref()));
        if let Some(program) = program {
            if program.traces.is_some() && !self.can_let_go() {
                yielding::warn_of_tracer(job, &program.path.display().to_string());
            } else if let Some(why) = program.traces {
                self.let_go(job, tid, program.path, why);
                sys::detach(tid, 0);
                return;
            }
            let is_other_user = |status: procfs::Status| status.effective_uid != program.runs_as;
            if program.runs_as.is_some() && self.files.status_of(tid).is_some_and(is_other_user) {
                job.warnings.push(format!(
                    "{} (PID {tid}) did not get the rights of user {}: Linux gives none to a \
                     program that is traced by an ordinary user; measure it with --mechanism poll \
                     (of weigh io, preload)",
                    program.path.display(),
                    program.runs_as.unwrap_or_default()
                ));
            }
        }
        self.resume(job, tid, 0);
    }
}

fn is_stop_signal(signal: c_int) -> bool {
    [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal)
}
