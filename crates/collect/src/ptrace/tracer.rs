//! The thread that traces: waits for stops, looks, lets go on.
//!
//! Reads what waitid(2) and `/proc` say at births, execs and ends; emits them into the [`Job`].
//! Signals pass through as they came, and a stopped group stays stopped. It alone waits for
//! children: a wait by another thread would take stops away from it.

use std::collections::{HashMap, HashSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::c_int;
use weigh_schema::Counter;
use weigh_schema::event::{Crossing, Event};

use super::calls::{Calls, Next, Stops};
use super::files::Files;
use super::guard::{Guard, Verdict};
use super::io::IoCalls;
use super::job::{Birth, Job};
use super::program::Programs;
use super::refusal::{self, TraceError};
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
    /// Who waits because of a limit, with the signal of his stop; none where that is still to come.
    held: HashMap<u32, Option<c_int>>,
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
        }
    }

    /// What it shares with the rest of weigh.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Begins to trace all threads of a process that runs. Those that they start meanwhile are told of by them.
    pub fn join(&mut self, pid: u32) -> Result<(), TraceError> {
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
        job.guard = guard;
        for tid in &seized {
            let birth = if *tid == pid { Birth::Own(0, 0) } else { Birth::Thread };
            job.born(*tid, pid, birth);
        }
        self.io.iter_mut().for_each(|io| io.joins(pid, seized.len()));
        // From this stop on they stop at their calls.
        seized.iter().for_each(|tid| sys::stop(*tid));
        Ok(())
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
                    break;
                }
            }
        }
        self.shared.wake();
    }

    fn handle(&mut self, job: &mut Job, Change { tid, what }: Change) {
        if let Some(thread) = job.threads.get_mut(&tid)
            && what != What::Ended
        {
            thread.stops += 1;
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
        match for_counters || self.io.as_ref().is_some_and(|io| io.is_next_wanted(tid)) {
            true => sys::resume_to_call(tid, signal),
            false => sys::resume(tid, signal),
        }
    }

    /// Whether a process can do without its tracer.
    fn can_let_go(&self) -> bool {
        self.stops == Stops::All
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

    /// Whether a process can be left to another tracer, for which it has to be stopped.
    fn may_hand_over(&self, job: &mut Job, tid: u32) -> bool {
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
    fn hands_over(&mut self, job: &mut Job, tid: u32, what: What) -> bool {
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

    fn let_go_to_another(&mut self, job: &mut Job, tid: u32) {
        let program = std::fs::read_link(format!("/proc/{tid}/exe")).unwrap_or_default();
        self.let_go(job, tid, program, "was traced by another process of the job");
    }

    fn let_go(&mut self, job: &mut Job, tid: u32, program: PathBuf, why: &'static str) {
        let mut seen = job.threads.get(&tid).map(|thread| thread.seen.clone()).unwrap_or_default();
        self.files.all(tid, tid, &mut seen);
        self.io.iter_mut().for_each(|io| io.lets_go(tid, program.display().to_string()));
        job.let_go(tid, program, why, seen);
        self.shared.wake();
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

    fn gives_birth(&mut self, job: &mut Job, tid: u32, event: c_int) {
        let born = sys::message(tid);
        let parent = job.threads.get(&tid).map(|thread| thread.process);
        let (Some(born), Some(parent)) = (born, parent) else {
            self.resume(job, tid, 0);
            return;
        };
        let is_thread = event == libc::PTRACE_EVENT_CLONE && self.files.is_thread_of(parent, born);
        let is_sharing = !is_thread
            && event != libc::PTRACE_EVENT_FORK
            && sys::share_memory(parent, born).unwrap_or(event == libc::PTRACE_EVENT_VFORK);
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
                super::send(pid, &[libc::SIGKILL]);
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
        let at_ns = job.now_ns();
        for (metric, observed) in crossed {
            job.events.push_back(Event::Limit(Crossing {
                metric: metric.to_owned(),
                at_ns,
                observed: observed as f64,
                pid: Some(parent),
                tid: parent,
                held: verdict == Verdict::Hold,
                stack: Vec::new(),
            }));
            self.shared.wake();
        }
        if verdict == Verdict::Kill {
            super::send(if is_thread { parent } else { tid }, &[libc::SIGKILL]);
        } else if let Some(signal) =
            (!is_thread).then(|| job.guard.inherited(parent, tid)).flatten()
        {
            super::send(tid, &[signal]);
        }
        verdict
    }

    /// Those who wait because of a limit go on if they have met with a signal meanwhile, or as far
    /// as there is room for them.
    fn let_held_go(&mut self, job: &mut Job) {
        let is_release_due = std::mem::take(&mut job.guard.is_release_due);
        if self.held.is_empty() || !is_release_due && !job.guard.has_room(&job.population) {
            return;
        }
        let stopped = self.held.iter().filter_map(|(tid, signal)| Some((*tid, (*signal)?)));
        // One at a time where it is for the room that another has left.
        let most = if is_release_due { usize::MAX } else { 1 };
        let let_go: Vec<(u32, c_int)> = stopped.take(most).collect();
        for (tid, signal) in let_go {
            self.held.remove(&tid);
            if !sys::has_news(tid) && !self.go_on(job, tid, signal) {
                self.resume(job, tid, 0);
            }
        }
        if is_release_due {
            // They go on as others do when their stop comes.
            self.held.clear();
        }
    }

    fn place(
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
    fn place_by_own_word(&mut self, job: &mut Job, tid: u32) {
        let Some(status) = self.files.status_of(tid) else { return };
        let (Some(pid), Some(parent)) = (status.process, status.parent_pid) else { return };
        if status.tracer == Some(0) {
            return;
        }
        let is_sharing = pid == tid && sys::share_memory(parent, tid).unwrap_or(false);
        self.placed_early.push(tid);
        self.place(job, tid, if pid == tid { parent } else { pid }, pid != tid, is_sharing);
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
        self.io.iter_mut().for_each(|io| io.executes(tid, former));
        let program = self.programs.of(tid);
        if let Some(program) = program {
            if program.traces.is_some() && !self.can_let_go() {
                warn_of_tracer(job, &program.path.display().to_string());
            } else if let Some(why) = program.traces {
                self.let_go(job, tid, program.path, why);
                sys::detach(tid, 0);
                return;
            }
            let is_other_user = |status: procfs::Status| status.effective_uid != program.runs_as;
            if program.runs_as.is_some() && self.files.status_of(tid).is_some_and(is_other_user) {
                job.warnings.push(format!(
                    "{} (PID {tid}) did not get the rights of user {}: Linux gives none to a \
                     program that is traced by an ordinary user; measure it with --mechanism poll",
                    program.path.display(),
                    program.runs_as.unwrap_or_default()
                ));
            }
        }
        self.resume(job, tid, 0);
    }

    /// A thread at its end, all its own counters still there; at the end of the last one of its
    /// process the memory is complete.
    fn leaves(&mut self, job: &mut Job, tid: u32) {
        self.held.remove(&tid);
        if !self.unplaced.is_empty() {
            self.place_all(job);
        }
        self.looks_at_leaving(job, tid);
        self.resume(job, tid, 0);
    }

    fn looks_at_leaving(&mut self, job: &mut Job, tid: u32) {
        let Some(pid) = job.threads.get(&tid).map(|thread| thread.process) else { return };
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
            job.hidden.insert(process.command.first().cloned().unwrap_or_default());
        }
    }

    /// A thread that has ended: CPU time, faults and switches hold its end too, the giving back of
    /// its memory included.
    fn ended(&mut self, job: &mut Job, tid: u32) {
        self.held.remove(&tid);
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
        }
        if let (Some(process), Some(stat)) = (job.processes.get_mut(&pid), stat)
            && tid == pid
        {
            process.name = stat.name;
        }
    }

    fn place_all(&mut self, job: &mut Job) {
        for (tid, _) in self.unplaced.clone() {
            self.place_by_own_word(job, tid);
        }
    }

    /// A child of weigh that is not traced: the command itself after it was let go, or an orphan
    /// that came to weigh.
    fn untraced_child(&mut self, job: &mut Job, tid: u32) {
        if let Some(end) = sys::take(tid)
            && tid == job.main
        {
            job.changes.push_back((tid, end.status));
            self.shared.wake();
        }
    }
}

fn threads_of(pid: u32) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// One that wants to trace, and can not, because its calls fail without weigh.
fn warn_of_tracer(job: &mut Job, program: &str) {
    let warning = format!(
        "{program} traces others, which fails under --seccomp: its filter makes weigh          indispensable as their tracer; leave --seccomp out"
    );
    if !job.warnings.contains(&warning) {
        job.warnings.push(warning);
    }
}

fn is_stop_signal(signal: c_int) -> bool {
    [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal)
}
