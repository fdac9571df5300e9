//! A job that is traced by ptrace(2).
//!
//! Opens and ends the tracing, and hands over what the tracer knows.

use std::collections::VecDeque;
use std::os::unix::thread::JoinHandleExt as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use weigh_schema::CounterValues;
use weigh_schema::event::{Event, JobReading};

use super::birth::Birth;
use super::calls::{self, Calls, Stopping, Stops};
use super::files::Files;
use super::fork_limit::Guard;
use super::io::{Counts, IoCalls, SharedCounts};
use super::job::Job;
use super::library::Library;
use super::refusal::{self, TraceError};
use super::rss_sampler::RssSampler;
use super::tracer::{Shared, Tracer};
use super::untraced::UntracedTrees;
use super::{sys, trial};
use crate::call_filter::CallFilter;
use crate::follow::{JobDetail, RunningOffer};
use crate::io::detail::{RowScope, Telling};
use crate::preload::{LibraryEntry, SharedJob};
use crate::{clock, last_resort, rusage};

/// A job that is traced.
pub struct TracedJob {
    pub(super) shared: Arc<Shared>,
    pub(super) detail: JobDetail,
    pub(super) stops: Stops,
    pub(super) counts: Option<SharedCounts>,
    pub(super) filter: Option<CallFilter>,
    /// A library that counts in the programs that it is in.
    pub(super) library: Option<LibraryEntry>,
    /// Its side of the job, where that is followed for more than what is read and written.
    pub(super) beside: Option<SharedJob>,
    pub(super) tracer: Option<JoinHandle<()>>,
    pub(super) files: Files,
    pub(super) looks: RssSampler,
    pub(super) untraced: UntracedTrees,
    /// Counters only grow, whatever moves from the living to the ended meanwhile.
    pub(super) highest: CounterValues,
    /// They as they were told last.
    pub(super) told: CounterValues,
    pub(super) reading: JobReading,
    pub(super) events: VecDeque<Event>,
}

impl TracedJob {
    /// Whether it attaches to processes that run already.
    pub const RUNNING: RunningOffer = Ok(());

    /// Whether a process can be traced here at all, tried with one.
    pub fn check() -> Result<(), TraceError> {
        trial::try_out().map_err(|error| refusal::why(None, error))
    }

    /// One that traces nobody yet. From here on weigh adopts the job's orphans.
    pub fn new() -> Result<TracedJob, TraceError> {
        TracedJob::that_sees(JobDetail::default(), Stops::All)
    }

    /// The same; system calls are looked at too if that is wanted.
    pub fn that_sees(detail: JobDetail, stops: Stops) -> Result<TracedJob, TraceError> {
        TracedJob::open(detail, stops, None)
    }

    /// The same; what is read and written is counted by file, too.
    pub fn that_counts(
        detail: JobDetail,
        stops: Stops,
        telling: Telling,
        apart: RowScope,
    ) -> Result<TracedJob, TraceError> {
        let stop_seconds = trial::stop_seconds().map_err(|error| refusal::why(None, error))?;
        let counts = SharedCounts::new(Counts::new(telling, apart, stop_seconds));
        TracedJob::open(detail, stops, Some(counts))
    }

    /// The same, but nothing of programs that a library is in, which counts by itself. They stop at births, execs
    /// and ends alone.
    pub fn that_counts_beside(library: LibraryEntry) -> Result<TracedJob, TraceError> {
        let nothing_else = JobDetail::default();
        let mut job =
            TracedJob::that_counts(nothing_else, Stops::All, Telling::Sums, RowScope::Processes)?;
        job.library = Some(library);
        Ok(job)
    }

    fn open(
        detail: JobDetail,
        stops: Stops,
        counts: Option<SharedCounts>,
    ) -> Result<TracedJob, TraceError> {
        let stopping = Stopping { wanted: detail.calls.then_some(detail), files: counts.is_some() };
        let are_calls_looked_at = detail.calls || counts.is_some();
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
            detail,
            stops,
            counts,
            filter,
            library: None,
            beside: None,
            tracer: None,
            files,
            looks: RssSampler::new(),
            untraced: UntracedTrees::new(),
            highest: CounterValues::default(),
            told: CounterValues::default(),
            reading: JobReading::default(),
            events: VecDeque::new(),
        })
    }

    /// Has a thread of its own begin to trace, and go on.
    pub(super) fn start(
        &mut self,
        begin: impl FnOnce(&mut Tracer) -> Result<(), TraceError> + Send + 'static,
    ) -> Result<(), TraceError> {
        let is_indispensable = self.filter.is_some();
        let (say, said) = mpsc::channel();
        let calls = self.detail.calls.then(|| Calls::new(self.detail, self.stops));
        let library = self.library.clone().and_then(Library::new);
        let io = self.counts.clone().map(|counts| IoCalls::new(counts, self.stops, library));
        let tracer = Tracer::new(Arc::clone(&self.shared), open_proc()?, self.stops, (calls, io));
        if let Some(counts) = &self.counts {
            counts.get().begin(clock::monotonic_ns());
        }
        let thread = std::thread::Builder::new()
            .name("tracer".into())
            .spawn(move || trace(tracer, begin, say, is_indispensable))
            .map_err(|error| TraceError::Call { call: "create a thread", error })?;
        self.tracer = Some(thread);
        let error = || std::io::ErrorKind::BrokenPipe.into();
        said.recv().map_err(|_| TraceError::Call { call: "trace", error: error() })?
    }

    /// All threads of a process that runs are traced from now on.
    pub fn join(&mut self, pid: u32) -> Result<(), TraceError> {
        sys::hear_of_ends_only();
        self.start(move |tracer| tracer.join(pid))?;
        self.looks = RssSampler::new();
        Ok(())
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

    /// A library counts in the programs that it is in; `beside` is its side of the job.
    pub(crate) fn set_library(&mut self, library: LibraryEntry, beside: Option<SharedJob>) {
        (self.library, self.beside) = (Some(library), beside);
    }

    /// Forgets what there is to report of processes: a caller that asks for files alone does not get it.
    pub fn forget_events(&mut self) {
        let _ = rustix::io::read(self.shared.wake_fd(), &mut [0u8; 8]);
        let mut job = self.shared.job();
        job.events.clear();
        job.let_go.clear();
    }

    /// Lets go of everybody: the kernel does it when the thread that traces ends.
    pub(crate) fn stop_tracing(&mut self) {
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
    is_indispensable: bool,
) {
    sys::be_interruptible();
    last_resort::traces(is_indispensable);
    let outcome = begin(&mut tracer);
    let is_traced = outcome.is_ok();
    let _ = said.send(outcome);
    if is_traced {
        tracer.run();
    }
    last_resort::traces_no_more();
}

pub(super) fn seize(shared: &Shared, pid: u32, is_filtered: bool) -> Result<(), TraceError> {
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

impl Drop for TracedJob {
    fn drop(&mut self) {
        self.stop_tracing();
    }
}
