//! Measuring without rights, exactly: the job is traced with ptrace(2).
//!
//! Each thread stops at births, execs and its own end; there the numbers that the kernel keeps of it
//! are read from `/proc` while it can not change or vanish. If calls are wanted (level 3), it stops
//! at those too, at all of them or at those that a filter in the job picks out. Emits counters,
//! population, bounds of memory, a row for each process, and the files that were opened. Signals, job control, exit statuses
//! and the order of things are the job's own; if weigh is killed, the kernel detaches and the job
//! goes on.
//!
//! What it gives up: a process can have one tracer only, so programs that trace others (`strace`,
//! debuggers, leak checkers) are let go at their exec and looked at in `/proc` with all their
//! descendants (one that is linked statically is recognised by its own symbols; if it has none, by its
//! code, as far as that is looked through; else at level 3 by its call of ptrace(2), and at level 2 the
//! kernel refuses it that call); set-user-ID programs
//! do not get their rights, because Linux gives none under an ordinary user's tracer (a warning
//! says so); at level 2 what is in no file of `/proc` is unknown (network, opened files, …); peaks of several
//! processes together are bounded, not exact. Being stopped costs the job some microseconds for
//! each process and signal. While weigh itself is stopped, so is whoever comes to such a point.
//! A filter of calls can not be taken back: without its tracer they fail with ENOSYS, so it is put
//! into a job only if the user asks for it, and nobody under it is let go.
//! Refuses where ptrace(2) is forbidden, and says by whom.

mod calls;
mod files;
mod guard;
mod io;
mod job;
mod library;
mod looks;
mod notes;
mod peak;
mod process;
mod program;
mod refusal;
mod sys;
mod tracer;
mod trial;
mod untraced;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::os::unix::thread::JoinHandleExt as _;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weigh_schema::event::{
    CollectorState, CollectorStatus, Event, FileKey, JobReading, Note, ProcessEnd,
};
use weigh_schema::{CounterValues, Mechanism};

use self::io::IoCalls;
pub(crate) use self::io::{Counts, SharedCounts};
use crate::call_filter::CallFilter;
use crate::follow::{Follow, FollowError, Hold, Wanted};
use crate::io::{Apart, BesideTracedIo, FollowIo, SharedJob, Telling, TracedIo};
use crate::preload::LibraryEntry;
use crate::{clock, host, rusage, signals};
pub use calls::Stops;
use calls::{Calls, Stopping};
use files::Files;
use guard::Guard;
use job::{Birth, Job};
use library::Library;
use looks::Looks;
pub use refusal::TraceError;
use tracer::{Shared, Tracer};
use untraced::UntracedTrees;

use libc::{SIGCONT, SIGSTOP, SIGTERM};

/// How long the tracer may take to learn that a stop it was just told of is over.
const STALE: Duration = Duration::from_millis(10);

/// A job that is traced.
pub struct TracedJob {
    shared: Arc<Shared>,
    wanted: Wanted,
    stops: Stops,
    counts: Option<SharedCounts>,
    filter: Option<CallFilter>,
    /// A library that counts in the programs that it is in.
    library: Option<LibraryEntry>,
    /// Its side of the job, where that is followed for more than what is read and written.
    beside: Option<SharedJob>,
    tracer: Option<JoinHandle<()>>,
    files: Files,
    looks: Looks,
    untraced: UntracedTrees,
    /// Counters only grow, whatever moves from the living to the ended meanwhile.
    highest: CounterValues,
    /// They as they were told last.
    told: CounterValues,
    reading: JobReading,
    events: VecDeque<Event>,
}

impl TracedJob {
    /// Whether a process can be traced here at all, tried with one.
    pub fn check() -> Result<(), TraceError> {
        trial::try_out().map_err(|error| refusal::why(None, error))
    }

    /// One that traces nobody yet. From here on weigh adopts the job's orphans.
    pub fn new() -> Result<TracedJob, TraceError> {
        TracedJob::that_sees(Wanted { calls: false, network: false, files: false }, Stops::All)
    }

    /// The same; system calls are looked at too if that is wanted.
    pub fn that_sees(wanted: Wanted, stops: Stops) -> Result<TracedJob, TraceError> {
        TracedJob::open(wanted, stops, None)
    }

    /// The same; what is read and written is counted by file, too.
    pub fn that_counts(
        wanted: Wanted,
        stops: Stops,
        telling: Telling,
        apart: Apart,
    ) -> Result<TracedJob, TraceError> {
        let stop_seconds = trial::stop_seconds().map_err(|error| refusal::why(None, error))?;
        let counts = SharedCounts::new(Counts::new(telling, apart, stop_seconds));
        TracedJob::open(wanted, stops, Some(counts))
    }

    /// The same, but nothing of programs that a library is in, which counts by itself. They stop at births, execs
    /// and ends alone.
    pub fn that_counts_beside(library: LibraryEntry) -> Result<TracedJob, TraceError> {
        let nothing_else = Wanted { calls: false, network: false, files: false };
        let mut job =
            TracedJob::that_counts(nothing_else, Stops::All, Telling::Sums, Apart::Processes)?;
        job.library = Some(library);
        Ok(job)
    }

    fn open(
        wanted: Wanted,
        stops: Stops,
        counts: Option<SharedCounts>,
    ) -> Result<TracedJob, TraceError> {
        let stopping = Stopping { wanted: wanted.calls.then_some(wanted), files: counts.is_some() };
        let are_calls_looked_at = wanted.calls || counts.is_some();
        // Without any such look nothing stops that a filter could spare.
        let stops = if are_calls_looked_at { stops } else { Stops::All };
        let filter = (stops == Stops::Filtered).then(|| calls::filter(stopping));
        if let Some(filter) = &filter {
            let call = "put a filter of system calls into force";
            filter.try_out().map_err(|error| TraceError::Call { call, error })?;
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| TraceError::Call { call: "eventfd", error: error.into() })?;
        let files = open_proc()?;
        rusage::adopt_orphans();
        Ok(TracedJob {
            shared: Arc::new(Shared::new(Job::new(0, 0), wake)),
            wanted,
            stops,
            counts,
            filter,
            library: None,
            beside: None,
            tracer: None,
            files,
            looks: Looks::new(),
            untraced: UntracedTrees::new(),
            highest: CounterValues::default(),
            told: CounterValues::default(),
            reading: JobReading::default(),
            events: VecDeque::new(),
        })
    }

    /// Looks at what is due.
    fn look(&mut self, at_once: bool) {
        if at_once || Instant::now() >= self.looks.next() {
            self.looks.look(&self.shared, &mut self.files);
        }
        self.untraced.look(&self.shared, &mut self.files, &mut self.events);
    }

    /// The counters of all threads, living and ended.
    fn counters(&mut self) -> CounterValues {
        let (mut sum, living) = {
            let job = self.shared.job();
            let living: Vec<_> = job.threads.iter().map(|(tid, t)| (*tid, t.clone())).collect();
            (job.ended.clone(), living)
        };
        let mut read = Vec::with_capacity(living.len());
        for (tid, mut thread) in living {
            let is_io_seen = self.files.all(thread.process, tid, &mut thread.seen);
            read.push((tid, thread, is_io_seen == Some(false)));
        }
        let mut job = self.shared.job();
        for (tid, mut thread, is_hidden) in read {
            // Who is not there any more may have been somebody else when he was read.
            if let Some(now) = job.threads.get_mut(&tid).filter(|now| now.id == thread.id) {
                now.is_told = true;
                // It may be at one more stop, of which the tracer has not heard yet.
                thread.stops = now.stops + 1;
                untraced::add(&mut sum, &thread.own_counters());
                // On its way to its end everything is hidden; by then it was looked at.
                if is_hidden && !now.is_leaving {
                    job.hidden.insert(host::process_name(thread.process).unwrap_or_default());
                }
            }
        }
        sum
    }

    /// Has a thread of its own begin to trace, and go on.
    fn start(
        &mut self,
        begin: impl FnOnce(&mut Tracer) -> Result<(), TraceError> + Send + 'static,
    ) -> Result<(), TraceError> {
        let (say, said) = mpsc::channel();
        let calls = self.wanted.calls.then(|| Calls::new(self.wanted, self.stops));
        let library = self.library.clone().and_then(Library::new);
        let io = self.counts.clone().map(|counts| IoCalls::new(counts, self.stops, library));
        let tracer = Tracer::new(Arc::clone(&self.shared), open_proc()?, self.stops, (calls, io));
        if let Some(counts) = &self.counts {
            counts.get().begin(clock::monotonic_ns());
        }
        let thread = std::thread::Builder::new()
            .name("tracer".into())
            .spawn(move || trace(tracer, begin, say))
            .map_err(|error| TraceError::Call { call: "create a thread", error })?;
        self.tracer = Some(thread);
        let error = || std::io::ErrorKind::BrokenPipe.into();
        said.recv().map_err(|_| TraceError::Call { call: "trace", error: error() })?
    }

    /// All threads of a process that runs are traced from now on.
    pub fn join(&mut self, pid: u32) -> Result<(), TraceError> {
        sys::hear_of_ends_only();
        self.start(move |tracer| tracer.join(pid))
    }

    /// Whether a process is traced.
    pub fn is_member(&self, pid: u32) -> bool {
        self.shared.job().processes.contains_key(&pid)
    }

    /// How many threads are traced.
    pub fn threads(&self) -> u64 {
        self.shared.job().threads.len() as u64
    }

    /// What happened to programs because they are traced.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.job().warnings.clone()
    }

    /// What is counted by file, if that is wanted.
    pub(crate) fn counts(&self) -> Option<SharedCounts> {
        self.counts.clone()
    }

    /// Forgets what there is to tell of processes: who asks for files alone is not told.
    pub fn forget_events(&mut self) {
        let _ = rustix::io::read(self.shared.wake_fd(), &mut [0u8; 8]);
        let mut job = self.shared.job();
        job.events.clear();
        job.let_go.clear();
    }

    /// The counters without what a library in the job has read itself. It tells of that a little later than the
    /// kernel does.
    fn without_librarys_reads(&self) -> CounterValues {
        let mut counters = self.highest.clone();
        let Some(library) = &self.beside else { return counters };
        let is_over = self.shared.job().population.processes == 0;
        if is_over {
            // A look that fails leaves the last one standing.
            let _ = library.borrow_mut().read();
        }
        library.borrow().take_own_reads_from(&mut counters);
        if is_over { counters } else { counters.at_least(&self.told) }
    }

    /// The job as it is known without looking again.
    fn sum_up(&self, counters: CounterValues) -> JobReading {
        let job = self.shared.job();
        let mut memory = self.looks.memory.clone();
        memory.process_peak = job.process_peak();
        memory.virtual_peak = memory.virtual_peak.max(job.single.0);
        memory.swap_peak = memory.swap_peak.max(job.single.1);
        memory.floor_peak = memory.floor_peak.max(memory.process_peak);
        memory.rss_sum_peak = memory.rss_sum_peak.max(job.upper_bound()).max(memory.floor_peak);
        let mut reading = JobReading {
            at_ns: job.now_ns(),
            counters,
            population: job.population.clone(),
            memory,
        };
        // Let go, and not taken over yet.
        reading.population.processes += job.let_go.len() as u64;
        reading.population.processes_total += job.let_go.len() as u64;
        drop(job);
        self.untraced.add_to(&mut reading);
        reading
    }

    fn findings(&self) -> notes::Findings {
        let job = self.shared.job();
        let mut hidden: Vec<String> = job.hidden.iter().cloned().collect();
        hidden.sort();
        let upper = job.upper_bound();
        let seen = self.looks.memory.rss_sum_peak.max(job.process_peak());
        let wanted = (self.wanted.network, self.wanted.files);
        let calls = self.wanted.calls.then(|| notes::CallFindings::of(&job.calls, wanted));
        notes::Findings {
            calls,
            hidden,
            lost: job.unseen_io,
            untraced: self.untraced.reasons(),
            cpu_by_ticks: job.cpu_by_ticks,
            rss_sum: (seen, upper),
        }
    }

    /// Those who wait because of a limit go on, to meet a signal that they were sent. Only the thread
    /// that traces can let them.
    fn let_held_go(&self) {
        let Some(tracer) = &self.tracer else { return };
        if !self.shared.job().guard.is_set() {
            return;
        }
        self.shared.job().guard.is_release_due = true;
        while self.shared.job().guard.is_release_due && !tracer.is_finished() {
            // SAFETY: the thread is joined in `stop_tracing` only, which takes it away from here.
            unsafe { sys::interrupt(tracer.as_pthread_t()) };
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Lets go of everybody: the kernel does it when the thread that traces ends.
    fn stop_tracing(&mut self) {
        let Some(tracer) = self.tracer.take() else { return };
        self.shared.is_over.store(true, Ordering::Release);
        // A signal that comes just before the thread begins to wait is lost: send it again.
        while !tracer.is_finished() {
            // SAFETY: the thread is joined below only.
            unsafe { sys::interrupt(tracer.as_pthread_t()) };
            std::thread::sleep(Duration::from_micros(200));
        }
        let _ = tracer.join();
    }
}

fn open_proc() -> Result<Files, TraceError> {
    Files::open().map_err(|error| TraceError::Call { call: "open /proc", error: error.into() })
}

/// Begins to trace; says so, or why not, and then follows until nobody is left.
fn trace(
    mut tracer: Tracer,
    begin: impl FnOnce(&mut Tracer) -> Result<(), TraceError>,
    said: mpsc::Sender<Result<(), TraceError>>,
) {
    sys::be_interruptible();
    let outcome = begin(&mut tracer);
    let is_traced = outcome.is_ok();
    let _ = said.send(outcome);
    if is_traced {
        tracer.run();
    }
}

fn seize(shared: &Shared, pid: u32, is_filtered: bool) -> Result<(), TraceError> {
    sys::seize(pid, is_filtered).map_err(|error| refusal::why(Some(pid), error))?;
    let mut files = open_proc()?;
    let mut before = CounterValues::default();
    files.all(pid, pid, &mut before);
    let inherited = files.status_of(pid).and_then(|s| s.rss_peak_bytes).unwrap_or_default();
    let mut job = shared.job();
    let guard = std::mem::replace(&mut job.guard, Guard::new());
    *job = Job::new(pid, inherited);
    job.guard = guard;
    job.born(pid, std::process::id(), Birth::Own(0, 0));
    if let Some(thread) = job.threads.get_mut(&pid) {
        (thread.seen, thread.before) = (before.clone(), before);
    }
    Ok(())
}

impl Follow for TracedJob {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Ptrace
    }

    fn arm(&mut self, pid: u32, _pidfd: BorrowedFd<'_>) -> Result<(), FollowError> {
        sys::hear_of_ends_only();
        let is_filtered = self.filter.is_some();
        self.start(move |tracer| seize(tracer.shared(), pid, is_filtered))?;
        self.looks = Looks::new();
        Ok(())
    }

    fn counted_io(&self) -> Option<Box<dyn FollowIo>> {
        Some(Box::new(TracedIo::of(self.counts.clone()?)))
    }

    fn count_beside_library(
        &mut self,
        command: &OsStr,
    ) -> Result<Option<Box<dyn FollowIo>>, FollowError> {
        // A filter would have calls stop in the library's programs, too.
        let Some(counts) = self.counts.clone().filter(|_| self.filter.is_none()) else {
            return Ok(None);
        };
        let (both, job, entry) = BesideTracedIo::beside(counts, command)?;
        (self.library, self.beside) = (Some(entry), job);
        Ok(Some(Box::new(both)))
    }

    fn filter(&self) -> Option<&CallFilter> {
        self.filter.as_ref()
    }

    fn waits_for_children(&self) -> bool {
        true
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.wake_fd())
    }

    fn next_look(&self) -> Option<Instant> {
        Some(self.looks.next().min(self.untraced.next()))
    }

    fn next_child(&mut self) -> std::io::Result<Option<(Pid, ExitStatus)>> {
        let change = self.shared.job().changes.pop_front();
        if let Some((pid, status)) = change
            && ExitStatus::from_raw(status).stopped_signal().is_some()
        {
            // Where weigh was stopped itself, as by Ctrl-Z, the tracer learns of the command's stop
            // only after both were let go on.
            std::thread::sleep(STALE);
            let job = self.shared.job();
            if job.processes.get(&pid).is_none_or(|process| !process.is_stopped) {
                return Ok(None);
            }
        }
        Ok(change.and_then(|(pid, status)| {
            Some((Pid::from_raw(pid as i32)?, ExitStatus::from_raw(status)))
        }))
    }

    fn events(&mut self) -> Vec<Event> {
        let _ = rustix::io::read(self.shared.wake_fd(), &mut [0u8; 8]);
        self.look(false);
        let mut events: Vec<Event> = std::mem::take(&mut self.shared.job().events).into();
        events.extend(self.events.drain(..));
        events
    }

    fn read(&mut self) -> Result<JobReading, FollowError> {
        self.look(true);
        let counters = self.counters();
        self.highest = counters.at_least(&self.highest);
        self.told = self.without_librarys_reads();
        self.reading = self.sum_up(self.told.clone());
        Ok(self.reading.clone())
    }

    fn glance(&self) -> JobReading {
        self.sum_up(self.told.clone())
    }

    fn ended_ns(&self) -> Option<u64> {
        if self.untraced.processes() > 0 {
            return None;
        }
        self.shared.job().ended_ns.max(self.untraced.ended_ns)
    }

    fn living(&self) -> Vec<ProcessEnd> {
        let mut living = self.shared.job().living();
        let untraced = self.untraced.living().into_iter();
        living.extend(untraced.map(|pid| ProcessEnd { pid, ..ProcessEnd::default() }));
        for process in &mut living {
            process.name = host::process_name(process.pid).unwrap_or_default();
        }
        living
    }

    fn processes(&mut self) -> Vec<ProcessEnd> {
        let mut rows = self.living();
        let is_traced = |row: &ProcessEnd| self.shared.job().processes.contains_key(&row.pid);
        rows.retain(is_traced);
        for row in &mut rows {
            let threads: Vec<_> = {
                let job = self.shared.job();
                let of_it = job.threads.iter().filter(|(_, thread)| thread.process == row.pid);
                of_it.map(|(tid, thread)| (*tid, thread.clone())).collect()
            };
            for (tid, mut thread) in threads {
                self.files.all(row.pid, tid, &mut thread.seen);
                untraced::add(&mut row.counters, &thread.own_counters());
            }
        }
        rows.extend(self.untraced.remaining());
        rows
    }

    fn signal(&mut self, to: Option<u32>, list: &[i32]) -> usize {
        let is_meant = |pid: &u32| to.is_none_or(|to| to == *pid);
        // While the job is held nobody is reaped, so no number is given to somebody else.
        let mut job = self.shared.job();
        let pids: Vec<u32> = job.processes.keys().copied().filter(is_meant).collect();
        let reached = pids.iter().filter(|pid| send(**pid, list)).count();
        if let Some(first) = list.iter().find(|signal| [SIGTERM, SIGSTOP].contains(*signal)) {
            pids.iter().for_each(|pid| job.guard.tells(*pid, *first));
        }
        drop(job);
        if list.contains(&SIGCONT) {
            self.let_held_go();
        }
        let untraced: Vec<u32> = self.untraced.living().into_iter().filter(is_meant).collect();
        reached + signals::send_to_all(&untraced, list)
    }

    fn set_limits(
        &mut self,
        limits: &[(&str, f64, f64)],
        hold: Hold,
    ) -> Result<Vec<String>, FollowError> {
        let mut job = self.shared.job();
        let taken = limits.iter().filter(|(metric, most, _)| job.guard.set(metric, *most, hold));
        Ok(taken.map(|(metric, ..)| (*metric).to_owned()).collect())
    }

    fn release(&mut self) -> Result<(), FollowError> {
        self.shared.job().guard.release();
        self.let_held_go();
        Ok(())
    }

    fn set_ending(&mut self) -> Result<(), FollowError> {
        self.shared.job().guard.end();
        Ok(())
    }

    fn set_killing(&mut self) -> Result<(), FollowError> {
        self.shared.job().guard.kill();
        Ok(())
    }

    fn statuses(&self) -> Vec<CollectorStatus> {
        let findings = self.findings();
        let job = self.shared.job();
        let mut reasons = job.warnings.clone();
        reasons.extend(findings.untraced);
        if !findings.hidden.is_empty() {
            let hidden = findings.hidden.join(", ");
            reasons.push(format!("the I/O of these is hidden from this user: {hidden}"));
        }
        if job.unseen_ends > 0 {
            reasons.push(format!(
                "{} threads were killed so soon after another stop that they were not looked at at \
                 their end: their peak of memory is the last one seen, the I/O of {} is lost",
                job.unseen_ends, job.unseen_io
            ));
        }
        let status =
            if reasons.is_empty() { CollectorState::Active } else { CollectorState::Degraded };
        vec![CollectorStatus {
            name: "processes".to_owned(),
            mechanism: Mechanism::Ptrace,
            status,
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            lost: job.unseen_io,
        }]
    }

    fn notes(&mut self) -> Vec<Note> {
        notes::notes(&self.findings())
    }

    fn counts_opens(&self) -> Result<(), String> {
        match self.wanted.calls && self.wanted.files {
            true => Ok(()),
            false => Err("only level 3 looks at files".to_owned()),
        }
    }

    fn take_opens(&mut self, key: &FileKey) -> Option<u64> {
        self.shared.job().calls.opens.take(key)
    }

    fn close(mut self: Box<Self>) {
        self.stop_tracing();
    }
}

impl Drop for TracedJob {
    fn drop(&mut self) {
        self.stop_tracing();
    }
}

/// Sends signals to a process that can not be reaped meanwhile.
fn send(pid: u32, list: &[i32]) -> bool {
    let opened: Option<OwnedFd> =
        Pid::from_raw(pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    opened.is_some_and(|pidfd| {
        list.iter().filter(|signal| signals::send(pidfd.as_fd(), **signal).is_ok()).count() > 0
    })
}
