//! Reads and writes as a tracer sees them: of all programs, static ones too, without any rights.
//!
//! Emits the same as the kernel side, and what it costs the job: each call is stopped at twice. Refuses
//! processes that the kernel does not let be traced.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::process::ExitStatus;

use rustix::process::Pid;
use weigh_schema::io::{Event, Field, FileId, Process, ReportBasis, Tally, Transfer, Trust, Use};
use weigh_schema::{Mechanism, Quality};

use super::detail::{RowScope, Telling};
use crate::follow::{
    Attachment, Children, CommandSetup, FileEvents, FileMechanism, FileState, JobDetail,
    JobReader as _, MechanismError, RunningAttachment,
};
use crate::preload::LibraryEntry;
use crate::ptrace::{SharedCounts, Stops, TraceError, TracedJob};

const NO_CALL: &str = "memory that is mapped is read and written without any call, and a tracer does not see what the \
                       page cache does for it: that takes bpf";
const NO_CACHE: &str = "a tracer does not see what the page cache does: that takes bpf";
const STOPPED: &str =
    "the time of a call has the stops at it in it, which take longer than most calls";

/// What the tracer counts; and the job, unless somebody else follows it.
pub struct TracedIo {
    counts: SharedCounts,
    job: Option<TracedJob>,
    /// What happened to programs because they were traced.
    warnings: Vec<String>,
    /// Children that had ended or stopped when the tracer went, and nobody had asked for yet.
    children: VecDeque<(Pid, ExitStatus)>,
}

impl TracedIo {
    /// Gets ready to trace.
    pub fn open(stops: Stops, telling: Telling, apart: RowScope) -> Result<TracedIo, TraceError> {
        let nothing_else = JobDetail::default();
        TracedIo::of_job(TracedJob::that_counts(nothing_else, stops, telling, apart)?)
    }

    /// Gets ready to trace, but for what is done by programs that a library is in.
    pub(super) fn open_beside(library: LibraryEntry) -> Result<TracedIo, TraceError> {
        TracedIo::of_job(TracedJob::that_counts_beside(library)?)
    }

    fn of_job(job: TracedJob) -> Result<TracedIo, TraceError> {
        let nothing = || std::io::ErrorKind::NotFound.into();
        let counts =
            job.counts().ok_or_else(|| TraceError::Call { call: "count", error: nothing() })?;
        Ok(TracedIo { counts, job: Some(job), warnings: Vec::new(), children: VecDeque::new() })
    }

    /// Whether any program's calls were looked at.
    pub(super) fn has_looked_at_calls(&self) -> bool {
        self.counts.get().price.look_seconds > 0.0
    }

    /// What is counted.
    pub(super) fn counts(&self) -> &SharedCounts {
        &self.counts
    }

    /// Of a job that somebody else follows.
    pub(crate) fn of(counts: SharedCounts) -> TracedIo {
        TracedIo { counts, job: None, warnings: Vec::new(), children: VecDeque::new() }
    }
}

impl FileEvents for TracedIo {
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.job.iter().filter_map(TracedJob::wake_fd).collect()
    }

    fn elapsed_ns(&self) -> u64 {
        self.counts.get().since(crate::clock::monotonic_ns())
    }

    fn events(&mut self) -> Vec<Event> {
        self.job.iter_mut().for_each(TracedJob::forget_events);
        self.counts.get().events()
    }

    fn forget_names(&mut self, files: &[FileId]) {
        self.counts.get().forget_names(files);
    }

    fn tally(&self) -> Tally {
        let living = self.job.as_ref().map_or(0, TracedJob::threads);
        Tally { living, ..self.counts.get().tally() }
    }

    fn grounds(&self) -> ReportBasis {
        // First: the tracer holds the job while it takes the counts.
        let warnings = self.job.as_ref().map_or_else(|| self.warnings.clone(), TracedJob::warnings);
        let counts = self.counts.get();
        let mut notes = Vec::new();
        let mut note = |programs: &BTreeSet<String>, what: &str| {
            if !programs.is_empty() {
                let names: Vec<&str> = programs.iter().map(String::as_str).collect();
                notes.push(format!("{what}: {}", names.join(", ")));
            }
        };
        note(
            &counts.untraced,
            "not followed, because a process can have one tracer only and these trace, or are traced by, others",
        );
        note(&counts.hidden, "the kernel hides from this user what descriptors refer to of");
        note(&counts.foreign, "nothing is counted of 32-bit programs");
        note(&counts.unknown, "calls whose numbers are not known here are made by");
        if counts.cut_off > 0 {
            notes.push(format!(
                "{} threads were killed in a call, and what it had done could not be asked: that is missing",
                counts.cut_off
            ));
        }
        let mut qualities = BTreeMap::from([
            (Transfer::Mapped.name().to_string(), unavailable(NO_CALL)),
            (Field::Filled.key(), unavailable(NO_CACHE)),
            (Field::Cached.key(), unavailable(NO_CACHE)),
            (Field::AheadUnused.key(), unavailable(NO_CACHE)),
            (Field::DeviceRead.key(), unavailable(NO_CACHE)),
            (Field::DeviceWritten.key(), unavailable(NO_CACHE)),
        ]);
        for time in [Field::ReadTime, Field::WriteTime, Field::MetadataTime, Field::SyncTime] {
            let trust = Trust { quality: Quality::Estimated, reason: STOPPED.to_string() };
            qualities.insert(time.key(), trust);
        }
        let by_kernel = [
            (Transfer::Uring, "io_uring", &counts.by_uring),
            (Transfer::Aio, "native AIO", &counts.by_aio),
        ];
        for (kind, name, programs) in by_kernel {
            if !programs.is_empty() {
                let names: Vec<&str> = programs.iter().map(String::as_str).collect();
                let reason = format!(
                    "{name} was used by {}: its requests are served without a call that says what was moved",
                    names.join(", ")
                );
                qualities.insert(kind.name().to_string(), unavailable(&reason));
            }
        }
        let unseen = counts.by_uring.len() + counts.by_aio.len();
        let is_all = notes.is_empty() && unseen == 0;
        notes.extend(warnings);
        let mut price = counts.price;
        price.seconds = price.stops_total as f64 * price.stop_seconds + price.look_seconds;
        ReportBasis {
            mechanism: Mechanism::Ptrace,
            quality: if is_all { Quality::Exact } else { Quality::Estimated },
            witness: None,
            price: Some(price),
            qualities,
            notes,
        }
    }

    fn detach(&mut self) {
        // The kernel lets everybody go when the thread that traces ends.
        if let Some(mut job) = self.job.take() {
            job.stop_tracing();
            self.children.extend(std::iter::from_fn(|| job.next_child().ok().flatten()));
            self.warnings = job.warnings();
        }
    }
}

impl FileState for TracedIo {
    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), MechanismError> {
        self.counts.get().open_uses().for_each(|used| show(used.clone()));
        Ok(())
    }

    fn processes(&self) -> Result<Vec<Process>, MechanismError> {
        Ok(self.counts.get().living())
    }

    fn is_member(&self, pid: u32) -> bool {
        match &self.job {
            Some(job) => job.is_member(pid),
            None => self.counts.get().is_member(pid),
        }
    }

    fn rest(&self) -> Option<Use> {
        self.counts.get().rest()
    }
}

impl Attachment for TracedIo {
    fn command_setup(&self) -> CommandSetup<'_> {
        self.job.as_ref().map(Attachment::command_setup).unwrap_or_default()
    }

    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        self.job.as_mut().map_or(Ok(()), |job| job.arm(pid, pidfd))
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Ok(self)
    }
}

impl RunningAttachment for TracedIo {
    fn join(&mut self, pid: u32) -> Result<(), MechanismError> {
        Ok(self.job.as_mut().map_or(Ok(()), |job| job.join(pid))?)
    }
}

impl Children for TracedIo {
    fn is_exclusive(&self) -> bool {
        self.job.is_some()
    }

    fn next_child(&mut self) -> std::io::Result<Option<(Pid, ExitStatus)>> {
        match &mut self.job {
            Some(job) => job.next_child(),
            None => Ok(self.children.pop_front()),
        }
    }

    fn let_go(&mut self) {
        self.detach();
    }
}

impl FileMechanism for TracedIo {
    fn attachment(&mut self) -> Option<&mut dyn Attachment> {
        Some(self)
    }

    fn children(&mut self) -> Option<&mut dyn Children> {
        Some(self)
    }
}

fn unavailable(reason: &str) -> Trust {
    Trust { quality: Quality::Unavailable, reason: reason.to_string() }
}
