//! What each process did with each file, as far as it came here.
//!
//! Reads what the file system served; emits [`Event`]s, which are added up where those of `weigh io` are.
//! Keeps no more files and processes than are in use, once it has handed over what it had.

mod processes;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use weigh_schema::io::{Counting, Event, Field, FileId, Moved, Named, Span, Transfer, Use};

use crate::inodes::Inode;
use processes::Processes;

/// So many files and processes are kept before those that nobody has open are handed over.
const MANY: usize = 4096;

macro_rules! calls {
    ($($call:ident $name:literal $field:ident;)*) => {
        /// What was asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call { $($call),* }

        const CALLS: &[Call] = &[$(Call::$call),*];

        impl Call {
            fn name(self) -> &'static str {
                match self { $(Call::$call => $name),* }
            }

            /// The time that it belongs to.
            fn time(self) -> Field {
                match self { $(Call::$call => Field::$field),* }
            }
        }
    };
}

calls! {
    Open "open" MetadataTime;
    Close "close" MetadataTime;
    Read "read" ReadTime;
    Write "write" WriteTime;
    Copy "copy_file_range" WriteTime;
    Sync "fsync" SyncTime;
    Truncate "truncate" MetadataTime;
    Allocate "fallocate" MetadataTime;
    Seek "lseek" MetadataTime;
    Attributes "chmod, chown, utimensat" MetadataTime;
    List "getdents64" MetadataTime;
    Extended "xattr" MetadataTime;
}

/// What the slowest call of a file was, by its number.
pub fn call_name(number: u64) -> String {
    CALLS.get(number as usize).map_or("?", |call| call.name()).to_string()
}

/// A piece that was read or written.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Read (0) or written (1).
    pub direction: usize,
    /// How.
    pub kind: Transfer,
    /// Where it begins.
    pub from: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many were asked for.
    pub asked: u64,
    /// Whether it goes past the page cache.
    pub is_direct: bool,
}

/// What is kept of a file and process while it is in use.
#[derive(Debug, Default)]
pub struct Kept {
    counting: Counting,
    opened: u32,
}

impl Kept {
    /// Counts one more.
    pub fn count(&mut self, field: Field) {
        self.counting.count(field);
    }

    /// Adds to a number.
    pub fn add(&mut self, field: Field, more: u64) {
        self.counting.add(field, more);
    }

    /// It was opened.
    pub fn open(&mut self, truncates: bool) {
        self.opened += 1;
        self.count(Field::Opens);
        if truncates {
            self.count(Field::Truncates);
        }
    }

    /// The last open was the kernel's own.
    pub fn is_no_open(&mut self) {
        let opens = self.counting.used.numbers.get(Field::Opens);
        self.counting.used.numbers.set(Field::Opens, opens.saturating_sub(1));
    }

    /// What was written is on its way to the device.
    pub fn sync(&mut self) {
        self.counting.synced();
    }

    /// A piece was read or written by a call.
    pub fn piece(&mut self, piece: &Piece) {
        self.counting.moved(&Moved {
            transfer: piece.kind,
            direction: piece.direction,
            calls: 1,
            bytes: piece.bytes,
            from: Some(piece.from),
            direct: piece.is_direct.then_some(piece.asked),
        });
    }
}

/// All of it.
#[derive(Debug)]
pub struct Accounts {
    began: Instant,
    kept: Mutex<All>,
    processes: Processes,
}

#[derive(Debug, Default)]
struct All {
    uses: HashMap<(FileId, u32), Kept>,
    named: HashSet<FileId>,
    names: Vec<Named>,
}

impl Accounts {
    /// Nothing yet.
    pub fn new() -> Accounts {
        Accounts { began: Instant::now(), kept: Mutex::default(), processes: Processes::new() }
    }

    fn kept(&self) -> MutexGuard<'_, All> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// The process of a thread. The kernel names none for what it does by itself.
    pub fn process(&self, thread: u32) -> u32 {
        self.processes.of(thread, self.now())
    }

    /// The process of a thread that may not be looked at now, if it has asked for something before.
    pub fn known_process(&self, thread: u32) -> Option<u32> {
        self.processes.known_of(thread)
    }

    /// A process asks for something by a path.
    pub fn path_call(&self, thread: u32, since: Instant) {
        let pid = self.process(thread);
        self.processes.path_call(pid, since.elapsed().as_nanos() as u64);
    }

    /// A process could not open something.
    pub fn failed_open(&self, thread: u32) {
        self.processes.failed_open(self.process(thread));
    }

    /// A process did something with a file.
    pub fn did(
        &self,
        pid: u32,
        inode: &Inode,
        call: Call,
        since: Instant,
        what: impl FnOnce(&mut Kept),
    ) {
        let took = since.elapsed().as_nanos() as u64;
        let now = self.now().max(1);
        let mut all = self.kept();
        all.name(inode);
        let kept = all.uses.entry((inode.file, pid)).or_default();
        let used = &mut kept.counting.used;
        (used.file, used.who.pid, used.object) = (inode.file, pid, inode.object);
        let began_ns = now.saturating_sub(took);
        kept.counting.timed(&Span { began_ns, ended_ns: now, number: call as u64 });
        kept.counting.add(call.time(), took);
        what(kept);
    }

    /// A process that had a file open has closed it for good.
    pub fn released(&self, pid: u32, file: FileId, is_deleted: bool) {
        if let Some(kept) = self.kept().uses.get_mut(&(file, pid)) {
            kept.opened = kept.opened.saturating_sub(1);
            kept.counting.used.is_deleted = is_deleted;
        }
    }

    /// What there is too much of to be kept: what is open stays, for how a process goes through a file is
    /// known by its last access.
    pub fn overflow(&self) -> Vec<Event> {
        let mut all = self.kept();
        if all.uses.len() < MANY {
            return Vec::new();
        }
        let done = all.uses.extract_if(|_, kept| kept.opened == 0);
        let done: Vec<Use> = done.map(|(_, kept)| kept.counting.used).collect();
        let names = std::mem::take(&mut all.names);
        drop(all);
        self.told(done, names)
    }

    /// Everything that is known and was not handed over.
    pub fn rest(&self) -> Vec<Event> {
        let mut all = self.kept();
        let uses = all.uses.drain().map(|(_, kept)| kept.counting.used).collect();
        let names = std::mem::take(&mut all.names);
        drop(all);
        self.told(uses, names)
    }

    /// The same, and it is kept.
    pub fn so_far(&self) -> Vec<Event> {
        let all = self.kept();
        let uses = all.uses.values().map(|kept| kept.counting.used.clone()).collect();
        let names = all.names.clone();
        drop(all);
        self.told(uses, names)
    }

    fn told(&self, uses: Vec<Use>, names: Vec<Named>) -> Vec<Event> {
        let uses = uses.into_iter().map(|used| Event::Used(Box::new(used)));
        let processes = self.processes.known().into_iter().map(Event::Ended);
        names.into_iter().map(Event::Named).chain(uses).chain(processes).collect()
    }

    /// Names that have left the book are told again when their files are used again.
    pub fn forget_names(&self, files: &[FileId]) {
        let mut all = self.kept();
        for file in files {
            all.named.remove(file);
        }
    }
}

impl All {
    fn name(&mut self, inode: &Inode) {
        if !self.named.insert(inode.file) {
            return;
        }
        let name = std::fs::read_link(inode.link()).unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        self.names.push(Named { file: inode.file, object: inode.object, name });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_names() {
        assert_eq!(call_name(Call::Copy as u64), "copy_file_range");
        assert_eq!(call_name(999), "?");
    }
}
