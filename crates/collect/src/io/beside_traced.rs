//! Reads and writes of one job without any rights, counted by a library in its dynamic programs, and by a tracer in
//! those that it cannot be in: static ones, those of another C library, those without its environment.
//!
//! Emits what both tell, in one row for each file and process, and says of each row who counted in it. Nothing is
//! counted by both, for who counts is settled at each exec. Refuses processes that run already: programs get the
//! library when they begin.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use weigh_schema::io::{Event, Field, FileId, Process, ReportBasis, Sources, Tally, Use};
use weigh_schema::{Mechanism, Quality};

use super::library::LibraryIo;
use super::traced::TracedIo;
use crate::clock::monotonic_ns;
use crate::follow::{
    Attachment, Children, CommandSetup, FileCounts, FileEvents, FileMechanism, FileState,
    MechanismError, RunningAttachment,
};
use crate::preload::{LibraryEntry, PreloadError, SharedJob};
use crate::ptrace::{SharedCounts, TracedJob};

/// Both.
pub struct BesideTracedIo {
    traced: TracedIo,
    library: LibraryIo,
    ends: Ends,
    /// Files that the tracer has named.
    named: HashSet<FileId>,
}

impl BesideTracedIo {
    /// Gets ready to trace, and puts the library where the command's programs find it.
    pub fn open(command: &OsStr) -> Result<BesideTracedIo, MechanismError> {
        let library = LibraryIo::open(command)?;
        let traced = TracedIo::open_beside(library.entry()?)?;
        Ok(BesideTracedIo::of(traced, library))
    }

    /// Beside the tracer that follows the job; and the library's side of that, and where it is to be expected.
    pub(crate) fn beside(
        counts: SharedCounts,
        command: &OsStr,
    ) -> Result<(BesideTracedIo, Option<SharedJob>, LibraryEntry), MechanismError> {
        let library = LibraryIo::open(command)?;
        let (job, entry) = (library.job(), library.entry()?);
        Ok((BesideTracedIo::of(TracedIo::of(counts), library), job, entry))
    }

    fn of(traced: TracedIo, mut library: LibraryIo) -> BesideTracedIo {
        let counts = traced.counts().clone();
        library.let_others_count(move |pid| counts.get().is_traced(pid));
        BesideTracedIo { traced, library, ends: Ends::default(), named: HashSet::new() }
    }

    fn of_tracer(&mut self, event: Event) -> Event {
        match event {
            Event::Used(used) => Event::Used(Box::new(of_tracer(*used))),
            Event::Named(named) => {
                self.named.insert(named.file);
                Event::Named(named)
            }
            Event::Ended(process) => Event::Ended(self.ends.of_tracer(process)),
            event @ (Event::Unlinked(_) | Event::Called(_) | Event::Asked(_)) => event,
        }
    }

    fn of_library(&mut self, event: Event) -> Option<Event> {
        Some(match event {
            Event::Used(used) => Event::Used(Box::new(of_library(*used))),
            // The tracer knows addresses.
            Event::Named(named) if self.named.contains(&named.file) => return None,
            Event::Ended(process) => match self.traced.is_member(process.pid) {
                false if !self.ends.is_known(process.pid) => Event::Ended(process),
                _ => Event::Ended(self.ends.of_library(process)?),
            },
            event @ (Event::Named(_) | Event::Unlinked(_) | Event::Called(_) | Event::Asked(_)) => {
                event
            }
        })
    }
}

impl FileCounts for TracedJob {
    fn counted(&self) -> Option<Box<dyn FileMechanism>> {
        Some(Box::new(TracedIo::of(self.counts()?)))
    }

    fn count_beside_library(
        &mut self,
        command: &OsStr,
    ) -> Result<Option<Box<dyn FileMechanism>>, MechanismError> {
        // A filter would have calls stop in the library's programs, too.
        let is_filtered = self.command_setup().filter.is_some();
        let Some(counts) = self.counts().filter(|_| !is_filtered) else { return Ok(None) };
        let (both, job, entry) = BesideTracedIo::beside(counts, command)?;
        self.set_library(entry, job);
        Ok(Some(Box::new(both)))
    }
}

impl FileEvents for BesideTracedIo {
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.traced.wake_fds()
    }

    fn elapsed_ns(&self) -> u64 {
        self.traced.elapsed_ns()
    }

    fn events(&mut self) -> Vec<Event> {
        // A process that has ended for the library has ended for the tracer, or is known to it still.
        let of_library = self.library.events();
        let of_tracer = self.traced.events();
        let mut events: Vec<Event> =
            of_tracer.into_iter().map(|event| self.of_tracer(event)).collect();
        events.extend(of_library.into_iter().filter_map(|event| self.of_library(event)));
        events
    }

    fn forget_names(&mut self, files: &[FileId]) {
        files.iter().for_each(|file| {
            self.named.remove(file);
        });
        self.traced.forget_names(files);
        self.library.forget_names(files);
    }

    fn tally(&self) -> Tally {
        let (traced, library) = (self.traced.tally(), self.library.tally());
        Tally {
            // A process that was let go, and its children, the library alone knows.
            living: traced.living.max(library.living),
            rest_calls: traced.rest_calls + library.rest_calls,
            // Of what the library answers for it is not known.
            freeing_calls: None,
            ..traced
        }
    }

    fn grounds(&self) -> ReportBasis {
        let traced = self.traced.grounds();
        let witnessed = self.traced.counts().get().witness.all;
        let mut all = self.library.grounds_beside(&witnessed);
        let times = [Field::ReadTime, Field::WriteTime, Field::MetadataTime, Field::SyncTime];
        let is_time = |key: &String| times.iter().any(|time| time.key() == *key);
        let has_traced = self.traced.has_looked_at_calls();
        let of_tracer = traced.qualities.into_iter();
        for (key, trust) in of_tracer.filter(|(key, _)| has_traced || !is_time(key)) {
            // What neither sees has the library's reason.
            all.qualities.entry(key).or_insert(trust);
        }
        all.notes.extend(traced.notes);
        ReportBasis {
            mechanism: Mechanism::PreloadPtrace,
            quality: match (all.quality, traced.quality) {
                (Quality::Exact, Quality::Exact) => Quality::Exact,
                _ => Quality::Estimated,
            },
            price: traced.price,
            ..all
        }
    }

    fn detach(&mut self) {
        // The library's last look first: what the tracer's thread has read is told from what the job has for as
        // long as that lives.
        self.library.detach();
        self.traced.detach();
    }
}

impl FileState for BesideTracedIo {
    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), MechanismError> {
        self.traced.each_open_use(&mut |used| show(of_tracer(used)))?;
        self.library.each_open_use(&mut |used| show(of_library(used)))
    }

    fn processes(&self) -> Result<Vec<Process>, MechanismError> {
        let mut living = self.traced.processes()?;
        for process in self.library.processes()? {
            match living.iter_mut().find(|known| known.pid == process.pid) {
                Some(known) => add(known, &process),
                None if self.ends.is_known(process.pid) => {}
                None => living.push(process),
            }
        }
        Ok(living)
    }

    fn is_member(&self, pid: u32) -> bool {
        self.traced.is_member(pid) || self.library.is_member(pid)
    }

    fn rest(&self) -> Option<Use> {
        match (self.traced.rest().map(of_tracer), self.library.rest()) {
            (Some(mut all), Some(library)) => {
                all.numbers.fold(&library.numbers);
                Some(all)
            }
            (traced, library) => traced.or(library),
        }
    }
}

impl Attachment for BesideTracedIo {
    fn command_setup(&self) -> CommandSetup<'_> {
        self.library.command_setup()
    }

    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), MechanismError> {
        self.traced.arm(pid, pidfd)?;
        self.library.arm(pid, pidfd)?;
        let began_ns = self.traced.counts().get().begin(monotonic_ns());
        self.library.begin_at(began_ns);
        Ok(())
    }

    fn running(&mut self) -> Result<&mut dyn RunningAttachment, MechanismError> {
        Err(PreloadError::RunsAlready.into())
    }
}

impl FileMechanism for BesideTracedIo {
    fn attachment(&mut self) -> Option<&mut dyn Attachment> {
        Some(self)
    }

    fn children(&mut self) -> Option<&mut dyn Children> {
        self.traced.children()
    }
}

fn of_tracer(used: Use) -> Use {
    Use { sources: Sources::PTRACE, ..used }
}

fn of_library(used: Use) -> Use {
    Use { sources: Sources::PRELOAD, ..used }
}

/// What is counted of a process by its path.
fn add(to: &mut Process, more: &Process) {
    to.path_calls += more.path_calls;
    to.path_ns += more.path_ns;
    to.failed_opens += more.failed_opens;
    to.moves_unseen |= more.moves_unseen;
}

/// Processes that have ended, by what one of both has told, until the other one has.
#[derive(Default)]
struct Ends {
    by_tracer: HashMap<u32, Process>,
    by_library: HashMap<u32, Process>,
}

impl Ends {
    /// The tracer tells of those that it followed to their end.
    fn of_tracer(&mut self, mut process: Process) -> Process {
        match self.by_library.remove(&process.pid) {
            Some(counted) => add(&mut process, &counted),
            None => drop(self.by_tracer.insert(process.pid, process.clone())),
        }
        process
    }

    /// Whether the tracer has told of its end, and the library not yet.
    fn is_known(&self, pid: u32) -> bool {
        self.by_tracer.contains_key(&pid)
    }

    /// What is told of it anew, if it has been told already.
    fn of_library(&mut self, counted: Process) -> Option<Process> {
        let Some(mut process) = self.by_tracer.remove(&counted.pid) else {
            self.by_library.insert(counted.pid, counted);
            return None;
        };
        add(&mut process, &counted);
        Some(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_with_what_both_have_counted_whoever_comes_first() {
        let traced = Process { pid: 7, path_calls: 3, ended_ns: 9, ..Process::default() };
        let library = Process { pid: 7, path_calls: 4, failed_opens: 1, ..Process::default() };
        let whole = Process { path_calls: 7, failed_opens: 1, ..traced.clone() };
        let mut ends = Ends::default();
        assert_eq!(ends.of_tracer(traced.clone()), traced);
        assert_eq!(ends.of_library(library.clone()), Some(whole.clone()));
        assert_eq!(ends.of_library(library), None);
        assert_eq!(ends.of_tracer(traced), whole);
    }
}
