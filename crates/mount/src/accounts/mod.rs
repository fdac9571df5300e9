//! What each process did with each file, as far as it came here.
//!
//! Reads what the file system served; emits [`Event`]s, which are added up where those of `weigh io` are.
//! Keeps no more files and processes than are in use, once it has handed over what it had; of calls that are
//! told one by one, as many as there is room for, and counts the others.

mod done;
mod processes;

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use weigh_schema::byte_text;
use weigh_schema::io::{
    Called, Counting, Deed, Event, FileId, Named, Process, Span, Untold, Use, Who,
};

use crate::inodes::Inode;
pub use done::{Call, Done, Piece, call_name};
use processes::Processes;

/// So many files and processes are kept before those that nobody has open are handed over.
const MANY: usize = 4096;
/// So many calls wait to be told: some 30 MB.
const MOST_CALLED: usize = 262_144;

/// How finely it is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Each call is told.
    pub each_call: bool,
    /// Each thread's numbers are its own.
    pub by_thread: bool,
}

/// What is kept of a file and process while it is in use.
#[derive(Debug, Default)]
struct OpenUsage {
    counting: Counting,
    opened: u32,
}

/// All of it.
#[derive(Debug)]
pub struct Accounts {
    began: Instant,
    detail: Detail,
    kept: Mutex<All>,
    processes: Processes,
}

#[derive(Debug, Default)]
struct All {
    uses: HashMap<(FileId, Who), OpenUsage>,
    /// What the book was told.
    named: HashMap<FileId, Named>,
    names: Vec<Named>,
    called: Vec<Called>,
    untold: Untold,
    is_stopped: bool,
    /// Everything that was counted before has been told.
    is_over: bool,
}

impl Accounts {
    /// Nothing yet.
    pub fn new(detail: Detail) -> Accounts {
        let (kept, processes) = (Mutex::default(), Processes::new());
        Accounts { began: Instant::now(), detail, kept, processes }
    }

    fn kept(&self) -> MutexGuard<'_, All> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it has gone on.
    pub fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// A thread and its process. The kernel names none for what it does by itself.
    pub fn who(&self, thread: u32) -> Who {
        Who { pid: self.processes.of(thread, self.now()), tid: thread }
    }

    /// The same of a thread that may not be looked at now, if it has asked for something before.
    pub fn known(&self, thread: u32) -> Option<Who> {
        Some(Who { pid: self.processes.known_of(thread)?, tid: thread })
    }

    /// Whose the numbers are.
    fn apart(&self, who: Who) -> Who {
        if self.detail.by_thread { who } else { Who { tid: 0, ..who } }
    }

    /// A process asks for something by a path; what came of it, below 0 an error.
    pub fn path_call(&self, thread: u32, call: Call, since: Instant, came: i32) {
        let (who, took) = (self.who(thread), since.elapsed().as_nanos() as u64);
        let mut all = self.kept();
        if all.is_stopped {
            return;
        }
        self.processes.path_call(who.pid, took);
        self.tell(&mut all, who, took, Called { error: came, ..done::blank(call) });
    }

    /// A process could not open something.
    pub fn failed_open(&self, thread: u32, since: Instant, error: i32) {
        let (who, took) = (self.who(thread), since.elapsed().as_nanos() as u64);
        let mut all = self.kept();
        if all.is_stopped {
            return;
        }
        self.processes.failed_open(who.pid);
        self.tell(&mut all, who, took, Called { error, ..done::blank(Call::Open) });
    }

    /// A process could not read or write: nothing is counted, for nothing was moved.
    pub fn failed(&self, who: Who, inode: &Inode, call: Call, since: Instant, error: i32) {
        let took = since.elapsed().as_nanos() as u64;
        let mut all = self.kept();
        if self.detail.each_call && !all.is_stopped {
            all.name(inode);
            let row = Called { file: Some(inode.file), error, ..done::blank(call) };
            self.tell(&mut all, who, took, row);
        }
    }

    /// A process did something with a file.
    pub fn did(&self, who: Who, inode: &Inode, since: Instant, done: Done) {
        let took = since.elapsed().as_nanos() as u64;
        let now = self.now().max(1);
        let mut all = self.kept();
        if all.is_stopped {
            return;
        }
        all.name(inode);
        let (call, whose) = (done.call(), self.apart(who));
        let kept = all.uses.entry((inode.file, whose)).or_default();
        let used = &mut kept.counting.used;
        (used.file, used.who, used.object) = (inode.file, whose, inode.object);
        let began_ns = now.saturating_sub(took);
        kept.counting.timed(&Span { began_ns, ended_ns: now, number: call as u64 });
        kept.counting.add(call.time(), took);
        kept.opened += u32::from(matches!(done, Done::Opened { .. }));
        done.count(&mut kept.counting);
        self.tell(&mut all, who, took, Called { file: Some(inode.file), ..done.row() });
    }

    /// One call, where each is wanted.
    fn tell(&self, all: &mut All, who: Who, time_ns: u64, row: Called) {
        if !self.detail.each_call {
            return;
        }
        if all.called.len() >= MOST_CALLED {
            all.untold.calls_total += 1;
            match row.deed {
                Deed::Read(_) => all.untold.read_bytes += row.bytes,
                Deed::Write(_) => all.untold.written_bytes += row.bytes,
                _ => {}
            }
            return;
        }
        let (pid, tid, ended_ns) = (who.pid, who.tid, self.now().max(1));
        all.called.push(Called { pid, tid, time_ns, ended_ns, ..row });
    }

    /// A process that had a file open has closed it for good.
    pub fn released(&self, who: Who, file: FileId, is_deleted: bool) {
        let whose = self.apart(who);
        if let Some(kept) = self.kept().uses.get_mut(&(file, whose)) {
            kept.opened = kept.opened.saturating_sub(1);
            kept.counting.used.is_deleted = is_deleted;
        }
    }

    /// From now on nothing is counted, and everything that was is handed over.
    pub fn stop(&self) {
        self.kept().is_stopped = true;
    }

    /// Calls that could not be told, since there was no room.
    pub fn untold(&self) -> Untold {
        self.kept().untold
    }

    /// What there is to tell by now: names, calls, and what there is too much of to be kept. What is open
    /// stays, for how a process goes through a file is known by its last access.
    pub fn events(&self) -> Vec<Event> {
        let mut all = self.kept();
        let uses: Vec<Use> = match (all.is_stopped, all.uses.len() >= MANY) {
            (true, _) => all.uses.drain().map(|(_, kept)| kept.counting.used).collect(),
            (false, true) => {
                let done = all.uses.extract_if(|_, kept| kept.opened == 0);
                done.map(|(_, kept)| kept.counting.used).collect()
            }
            (false, false) => Vec::new(),
        };
        let names = std::mem::take(&mut all.names);
        let called = std::mem::take(&mut all.called);
        let mut processes = self.processes.asked(if all.is_stopped { 0 } else { MANY });
        if all.is_over {
            // They came later: they are looked at, and not counted.
            processes.clear();
        }
        all.is_over = all.is_stopped;
        drop(all);
        told(names, uses, processes, called)
    }

    /// What is not told by now, and is kept.
    pub fn so_far(&self) -> Vec<Event> {
        let all = self.kept();
        if all.is_over {
            return Vec::new();
        }
        let uses = all.uses.values().map(|kept| kept.counting.used.clone()).collect();
        let (names, processes) = (all.names.clone(), self.processes.asked_so_far());
        drop(all);
        told(names, uses, processes, Vec::new())
    }

    /// Names that have left the book are told again when their files are used again; those of files that are
    /// in use here at once, for the row that comes of it may be the last.
    pub fn forget_names(&self, files: &[FileId]) {
        let mut all = self.kept();
        let All { uses, named, names, .. } = &mut *all;
        let used: HashSet<FileId> = uses.keys().map(|(file, _)| *file).collect();
        for file in files {
            match named.get(file) {
                Some(name) if used.contains(file) => names.push(name.clone()),
                _ => drop(named.remove(file)),
            }
        }
    }
}

fn told(
    names: Vec<Named>,
    uses: Vec<Use>,
    processes: Vec<Process>,
    called: Vec<Called>,
) -> Vec<Event> {
    let uses = uses.into_iter().map(|used| Event::Used(Box::new(used)));
    let processes = processes.into_iter().map(Event::Asked);
    let called = called.into_iter().map(Event::Called);
    names.into_iter().map(Event::Named).chain(uses).chain(processes).chain(called).collect()
}

impl All {
    fn name(&mut self, inode: &Inode) {
        if self.named.contains_key(&inode.file) {
            return;
        }
        let name = std::fs::read_link(inode.link()).unwrap_or_default();
        let name = byte_text::keep(name.as_os_str().as_bytes());
        let named = Named { file: inode.file, object: inode.object, name };
        self.named.insert(inode.file, named.clone());
        self.names.push(named);
    }
}

#[cfg(test)]
mod tests;
