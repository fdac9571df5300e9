//! Reads and writes of one job, counted by a library in its dynamic programs, and by the kernel side whatever that
//! does not answer for: static programs, the loader, calls past the C library, io_uring, mapped memory.
//!
//! Emits what both tell, in the kernel side's words, so that a file and process is one row, and says of each row
//! who counted in it. Nothing is counted by both, for the library says before each call that it will count it
//! (`bpf/io/marks.h`). Refuses processes that run already: programs get the library when they begin.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;

use weigh_schema::io::{Event, Field, FileId, Grounds, Process, Sources, Tally, Trust, Use, Who};
use weigh_schema::{Mechanism, Quality};

use super::layout::Same;
use super::{FollowIo, KernelIo, LibraryIo, qualities};
use crate::follow::FollowError;
use crate::preload::PreloadError;
use crate::procfs;

/// The kernel side does not look at reads that the library counts.
const NOT_SEEN: [Field; 3] = [Field::Cached, Field::AheadUnused, Field::AheadDoubts];
const WHY_NOT_SEEN: &str = "the kernel side passes over the reads that the library counts, and they are what uses \
                            pages: --mechanism bpf tells it";

/// Both.
pub struct BesideIo {
    kernel: KernelIo,
    library: LibraryIo,
    words: Words,
    ends: Ends,
    /// What the library has told, until all is taken in that says which file is which.
    waiting: Vec<Event>,
}

impl BesideIo {
    /// Loads the kernel side's programs, and puts the library where the command's programs find it.
    pub fn open(command: &OsStr) -> Result<BesideIo, FollowError> {
        let library = LibraryIo::open(command)?;
        let kernel = KernelIo::open_beside(library.let_answer()?)?;
        let words =
            Words { are_pids_other: !procfs::is_initial_pid_namespace(), ..Words::default() };
        Ok(BesideIo { kernel, library, words, ends: Ends::default(), waiting: Vec::new() })
    }

    /// All that the kernel side has told up to now.
    fn take_in_kernel(&mut self, events: &mut Vec<Event>) {
        loop {
            let told = self.kernel.records();
            if told.is_empty() {
                return;
            }
            told.sames().for_each(|same| self.words.learn(same));
            for event in told.events(self.kernel.began_ns()) {
                match event {
                    Event::Used(used) => events.push(Event::Used(Box::new(of_kernel(*used)))),
                    Event::Named(named) => {
                        self.words.named.insert(named.file);
                        events.push(Event::Named(named));
                    }
                    Event::Ended(process) => {
                        events.push(Event::Ended(self.ends.of_kernel(process)))
                    }
                    // `Asked` is told where ends are not learnt of, which is nowhere here.
                    event @ (Event::Unlinked(_) | Event::Called(_) | Event::Asked(_)) => {
                        events.push(event)
                    }
                }
            }
        }
    }

    fn of_library(&mut self, event: Event) -> Option<Event> {
        Some(match event {
            Event::Used(used) => Event::Used(Box::new(self.words.used(*used))),
            Event::Named(mut named) => {
                named.file = self.words.file(named.file);
                // The kernel side knows paths as a whole, and addresses.
                if self.words.named.contains(&named.file) {
                    return None;
                }
                Event::Named(named)
            }
            Event::Ended(mut process) => {
                process.pid = self.words.pid(process.pid);
                // What the library does not see of it the kernel side does.
                process.moves_unseen = false;
                Event::Ended(self.ends.of_library(process)?)
            }
            Event::Unlinked(file) => Event::Unlinked(self.words.file(file)),
            event @ (Event::Called(_) | Event::Asked(_)) => event,
        })
    }
}

impl FollowIo for BesideIo {
    fn arm(&mut self, pid: u32, pidfd: BorrowedFd<'_>) -> Result<(), FollowError> {
        self.kernel.arm(pidfd)?;
        self.library.arm(pid, pidfd)?;
        self.library.begin_at(self.kernel.began_ns());
        Ok(())
    }

    fn begin(&mut self) {
        self.kernel.begin();
        self.library.begin_at(self.kernel.began_ns());
    }

    fn join(&mut self, _: u32) -> Result<(), FollowError> {
        Err(PreloadError::RunsAlready.into())
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        self.library.variables()
    }

    fn is_member(&self, pid: u32) -> bool {
        self.kernel.is_member(pid)
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.kernel.wake_fds().to_vec()
    }

    fn reap(&mut self) {
        self.library.reap();
    }

    fn events(&mut self) -> Vec<Event> {
        // Which file is which was told before the library had a place for it: so it is known when all is taken in
        // that came before this look.
        self.waiting.extend(self.library.events());
        let mut events = Vec::new();
        self.take_in_kernel(&mut events);
        let waiting = std::mem::take(&mut self.waiting);
        events.extend(waiting.into_iter().filter_map(|event| self.of_library(event)));
        events
    }

    fn each_open_use(&self, show: &mut dyn FnMut(Use)) -> Result<(), FollowError> {
        self.kernel.each_open_use(&mut |used| show(of_kernel(used)))?;
        self.library.each_open_use(&mut |used| show(self.words.used(used)))
    }

    fn processes(&self) -> Result<Vec<Process>, FollowError> {
        let mut living = self.kernel.processes()?;
        for process in self.library.processes()? {
            let pid = self.words.pid(process.pid);
            let process = Process { moves_unseen: false, ..process };
            living.iter_mut().filter(|known| known.pid == pid).for_each(|to| add(to, &process));
        }
        Ok(living)
    }

    fn open_requests(&self) -> Result<Vec<Use>, FollowError> {
        Ok(self.kernel.open_requests()?.into_iter().map(of_kernel).collect())
    }

    fn rest(&self) -> Option<Use> {
        let (kernel, library) = (self.kernel.rest(), self.library.rest());
        match (kernel.map(of_kernel), library) {
            (Some(mut all), Some(library)) => {
                all.numbers.fold(&library.numbers);
                Some(all)
            }
            (kernel, library) => kernel.or(library),
        }
    }

    fn forget_names(&mut self, files: &[FileId]) {
        self.kernel.forget_names(files);
        let marked: Vec<FileId> = files.iter().filter_map(|file| self.words.forget(file)).collect();
        self.library.forget_names(&marked);
    }

    fn elapsed_ns(&self) -> u64 {
        self.kernel.elapsed_ns()
    }

    fn tally(&self) -> Tally {
        let (kernel, library) = (self.kernel.tally(), self.library.tally());
        Tally {
            rest_calls: kernel.rest_calls + library.rest_calls,
            // Of what the library answers for it is not known.
            freeing_calls: None,
            ..kernel
        }
    }

    fn grounds(&self) -> Grounds {
        let mut notes = self.kernel.missing().to_vec();
        let unread = self.kernel.unread_marks();
        if unread > 0 {
            notes.push(format!(
                "{unread} calls may be counted twice: whether the library counts them, too, could not be read"
            ));
        }
        let not_seen = || Trust { quality: Quality::Unavailable, reason: WHY_NOT_SEEN.to_string() };
        Grounds {
            mechanism: Mechanism::PreloadBpf,
            quality: if unread > 0 { Quality::Estimated } else { Quality::Exact },
            qualities: NOT_SEEN
                .iter()
                .map(|field| (field.key(), not_seen()))
                .chain(qualities(&self.kernel.tally()))
                .collect(),
            notes,
            ..Grounds::default()
        }
    }

    fn detach(&mut self) {
        self.library.detach();
        self.kernel.detach();
    }
}

/// Without what is not known where the library counts.
fn of_kernel(mut used: Use) -> Use {
    NOT_SEEN.iter().for_each(|field| used.numbers.set(*field, 0));
    Use { sources: Sources::BPF, ..used }
}

/// What is counted of a process by its path.
pub(super) fn add(to: &mut Process, more: &Process) {
    to.path_calls += more.path_calls;
    to.path_ns += more.path_ns;
    to.failed_opens += more.failed_opens;
    to.moves_unseen |= more.moves_unseen;
}

/// What the library knows by other numbers than the kernel side.
#[derive(Default)]
struct Words {
    files: HashMap<FileId, FileId>,
    /// The other way round.
    marked: HashMap<FileId, FileId>,
    pids: HashMap<u32, u32>,
    /// Whether the programs see other numbers of processes than the kernel side tells.
    are_pids_other: bool,
    /// Files that the kernel side has named.
    named: HashSet<FileId>,
}

impl Words {
    fn learn(&mut self, Same { marked, known }: Same) {
        self.files.insert(marked.0, known.0);
        self.marked.insert(known.0, marked.0);
        if self.are_pids_other {
            self.pids.insert(marked.1, known.1);
        }
    }

    fn file(&self, marked: FileId) -> FileId {
        self.files.get(&marked).copied().unwrap_or(marked)
    }

    fn pid(&self, marked: u32) -> u32 {
        self.pids.get(&marked).copied().unwrap_or(marked)
    }

    fn used(&self, used: Use) -> Use {
        let who = Who { pid: self.pid(used.who.pid), tid: 0 };
        Use { file: self.file(used.file), who, sources: Sources::PRELOAD, ..used }
    }

    /// A file that has no row any more. Returns how the library knows it, where another process may have it
    /// open still: so that stays known.
    fn forget(&mut self, known: &FileId) -> Option<FileId> {
        self.named.remove(known);
        self.marked.get(known).copied()
    }
}

/// Processes that have ended, by what one of both has told, until the other one has.
#[derive(Default)]
pub(super) struct Ends {
    by_kernel: HashMap<u32, Process>,
    by_library: HashMap<u32, Process>,
}

impl Ends {
    /// The kernel side tells of all processes.
    pub(super) fn of_kernel(&mut self, mut process: Process) -> Process {
        match self.by_library.remove(&process.pid) {
            Some(counted) => add(&mut process, &counted),
            None => drop(self.by_kernel.insert(process.pid, process.clone())),
        }
        process
    }

    /// Whether the kernel side has told of its end, and the library not yet.
    pub(super) fn is_known(&self, pid: u32) -> bool {
        self.by_kernel.contains_key(&pid)
    }

    /// What is told of it anew, if it has been told already.
    pub(super) fn of_library(&mut self, counted: Process) -> Option<Process> {
        let Some(mut process) = self.by_kernel.remove(&counted.pid) else {
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
        let kernel = Process { pid: 7, path_calls: 3, ended_ns: 9, ..Process::default() };
        let library = Process { pid: 7, path_calls: 4, failed_opens: 1, ..Process::default() };
        let whole = Process { path_calls: 7, failed_opens: 1, ..kernel.clone() };
        let mut ends = Ends::default();
        assert_eq!(ends.of_kernel(kernel.clone()), kernel);
        assert_eq!(ends.of_library(library.clone()), Some(whole.clone()));
        assert_eq!(ends.of_library(library), None);
        assert_eq!(ends.of_kernel(kernel), whole);
    }

    #[test]
    fn a_file_has_the_kernels_numbers_once_they_are_told() {
        let (marked, known) = (
            FileId { inode: 5, generation: 1, device: 2 },
            FileId { inode: 5, generation: 9, device: 3 },
        );
        let mut words = Words::default();
        let used = || Use { file: marked, who: Who { pid: 7, tid: 0 }, ..Use::default() };
        assert_eq!(words.used(used()).file, marked);
        words.learn(Same { marked: (marked, 7), known: (known, 70) });
        assert_eq!((words.used(used()).file, words.used(used()).who.pid), (known, 7));
        assert_eq!(words.forget(&known), Some(marked));
        words.are_pids_other = true;
        words.learn(Same { marked: (marked, 7), known: (known, 70) });
        assert_eq!(words.used(used()).who.pid, 70);
    }
}
