//! What each process does with each file, as the tracer counts it: shared by the thread that traces and
//! the one that reports.
//!
//! Takes what was done; emits the same events as the kernel side of `weigh io`. Knows no system call.

use std::collections::{BTreeSet, HashMap, HashSet};

use weigh_schema::byte_text;
use weigh_schema::io::{
    Called, Counting, Deed, Event, Field, FileId, Moved, Named, Object, Price, Process, Span,
    Tally, Transfer, Use, Who,
};

use super::files::Referred;
use super::witness::Witness;
use crate::io::detail::{RowScope, Telling};

/// So many files and processes are kept at one moment, as in the kernel.
const MOST_USES: usize = 32_768;

/// One thing that was done with a file.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// What.
    pub deed: Deed,
    /// How many calls it counts for: none if it failed.
    pub calls: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Where in the file.
    pub from: Option<u64>,
    /// Whether it went past the page cache.
    pub is_direct: bool,
    /// Of an open: whether it makes the file empty.
    pub truncates: bool,
    /// The number of the error, or 0.
    pub error: i32,
    /// Bytes asked for.
    pub asked: Option<u64>,
    /// The call.
    pub span: Span,
    /// Whether the call's time is counted here: of a copy it is once.
    pub is_timed: bool,
}

impl Done {
    /// How, and in which direction, if it moves anything.
    pub fn transfer(&self) -> Option<(Transfer, usize)> {
        match self.deed {
            Deed::Read(transfer) => Some((transfer, 0)),
            Deed::Write(transfer) => Some((transfer, 1)),
            _ => None,
        }
    }

    fn time_ns(&self) -> u64 {
        if self.is_timed { self.span.time_ns() } else { 0 }
    }

    fn count_in(&self, counting: &mut Counting) {
        if let Some((transfer, direction)) = self.transfer() {
            let (calls, bytes, from) = (self.calls, self.bytes, self.from);
            let direct = self.is_direct.then_some(bytes);
            counting.moved(&Moved { transfer, direction, calls, bytes, from, direct });
        }
        counting.did(self.deed, self.time_ns());
        counting.add(Field::Truncates, u64::from(self.truncates));
        counting.add(Field::Failed, u64::from(self.error != 0));
        let began_ns = self.span.ended_ns.saturating_sub(self.time_ns());
        counting.timed(&Span { began_ns, ..self.span });
    }
}

/// A process of the job.
#[derive(Debug, Default)]
struct Member {
    process: Process,
    /// What its descriptors were last seen to refer to.
    descriptors: HashMap<i32, Referred>,
    /// What is kept of it.
    uses: HashSet<(FileId, Who)>,
}

/// All of it.
pub struct Counts {
    began_ns: u64,
    has_begun: bool,
    telling: Telling,
    apart: RowScope,
    members: HashMap<u32, Member>,
    uses: HashMap<(FileId, Who), Counting>,
    rest: Counting,
    named: HashMap<FileId, String>,
    gone: HashSet<FileId>,
    given_again: HashMap<FileId, u32>,
    events: Vec<Event>,
    tally: Tally,
    /// What it costs the job.
    pub price: Price,
    /// What was counted that the kernel counts by itself, too.
    pub witness: Witness,
    /// Processes in whose present, or last, programs calls were looked at.
    traced: HashSet<u32>,
    /// Programs that were let go, because something else traces them.
    pub untraced: BTreeSet<String>,
    /// Calls of which it is not known what they had done when their threads were killed.
    pub cut_off: u64,
    /// Programs whose descriptors the kernel hides.
    pub hidden: BTreeSet<String>,
    /// Programs that use io_uring.
    pub by_uring: BTreeSet<String>,
    /// Programs that use native AIO.
    pub by_aio: BTreeSet<String>,
    /// Programs whose calls have numbers that are not known here.
    pub unknown: BTreeSet<String>,
    /// 32-bit programs: their calls have numbers of their own, which are known, but not what they do here.
    pub foreign: BTreeSet<String>,
}

impl Counts {
    /// Of nobody so far; one stop is known to take so long.
    pub fn new(telling: Telling, apart: RowScope, stop_seconds: f64) -> Counts {
        Counts {
            began_ns: crate::clock::monotonic_ns(),
            has_begun: false,
            telling,
            apart,
            members: HashMap::new(),
            uses: HashMap::new(),
            rest: Counting::default(),
            named: HashMap::new(),
            gone: HashSet::new(),
            given_again: HashMap::new(),
            events: Vec::new(),
            tally: Tally { freeing_calls: Some(0), ..Tally::default() },
            price: Price { stop_seconds, ..Price::default() },
            witness: Witness::default(),
            traced: HashSet::new(),
            untraced: BTreeSet::new(),
            cut_off: 0,
            hidden: BTreeSet::new(),
            by_uring: BTreeSet::new(),
            by_aio: BTreeSet::new(),
            unknown: BTreeSet::new(),
            foreign: BTreeSet::new(),
        }
    }

    /// Times are counted from here, unless they are already. Returns from when.
    pub fn begin(&mut self, now_ns: u64) -> u64 {
        if !self.has_begun {
            (self.began_ns, self.has_begun) = (now_ns, true);
        }
        self.began_ns
    }

    /// A moment as it is told.
    pub fn since(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.began_ns)
    }

    /// Whether what a process does is counted.
    pub fn is_member(&self, pid: u32) -> bool {
        self.members.contains_key(&pid)
    }

    /// A process of its own; it has its parent's descriptors.
    pub fn born(&mut self, pid: u32, parent: u32, name: Option<String>, at_ns: u64) {
        let above = self.members.get(&parent);
        let is_counted_above = above.is_some();
        let descriptors = above.map(|above| above.descriptors.clone()).unwrap_or_default();
        let inherited = above.map(|above| above.process.name.clone()).unwrap_or_default();
        let process = Process {
            pid,
            parent: if is_counted_above { parent } else { 0 },
            name: name.unwrap_or(inherited),
            started_ns: self.since(at_ns).max(1),
            ..Process::default()
        };
        self.members.insert(pid, Member { process, descriptors, uses: HashSet::new() });
    }

    /// One more thread.
    pub fn thread_begins(&mut self) {
        self.tally.threads += 1;
    }

    /// The kernel's name for it.
    pub fn rename(&mut self, pid: u32, name: Option<String>) {
        if let (Some(member), Some(name)) = (self.members.get_mut(&pid), name) {
            member.process.name = name;
        }
    }

    /// What a process is called.
    pub fn name_of(&self, pid: u32) -> String {
        self.members.get(&pid).map(|member| member.process.name.clone()).unwrap_or_default()
    }

    /// Which descriptors of a process were used so far.
    pub fn descriptors(&self, pid: u32) -> Vec<i32> {
        let of = |member: &Member| member.descriptors.keys().copied().collect();
        self.members.get(&pid).map(of).unwrap_or_default()
    }

    /// A file that has the number of one that is gone is another one. When both were made does not always tell: file
    /// systems have times by ticks of milliseconds. A file that has no name and is open is not gone: it may get one (O_TMPFILE).
    pub fn kept_apart(&mut self, mut found: Referred) -> Referred {
        let number = found.file;
        if found.is_deleted {
            self.has_no_name(number);
        } else if self.gone.remove(&number) && !self.is_open(&self.present(number)) {
            *self.given_again.entry(number).or_default() += 1;
        }
        found.file = self.present(number);
        found
    }

    /// The file that has a number now.
    fn present(&self, number: FileId) -> FileId {
        let times = self.given_again.get(&number).copied().unwrap_or(0);
        FileId { generation: number.generation.wrapping_add(times), ..number }
    }

    fn has_no_name(&mut self, number: FileId) {
        if self.gone.len() == MOST_USES {
            self.gone.clear();
        }
        self.gone.insert(number);
    }

    fn is_open(&self, file: &FileId) -> bool {
        let descriptors = self.members.values().flat_map(|member| member.descriptors.values());
        descriptors.into_iter().any(|referred| referred.file == *file)
    }

    /// A file has lost its last name.
    pub fn loses_name(&mut self, number: FileId) {
        self.has_no_name(number);
        let file = self.present(number);
        if self.named.contains_key(&file) {
            self.events.push(Event::Unlinked(file));
        }
    }

    /// What a descriptor refers to now.
    pub fn refers(&mut self, pid: u32, fd: i32, now: Option<Referred>) {
        let Some(member) = self.members.get_mut(&pid) else { return };
        let before = match now {
            Some(now) => member.descriptors.insert(fd, now),
            None => member.descriptors.remove(&fd),
        };
        match (before, now) {
            (Some(before), Some(now)) if before.file == now.file => {
                if before.is_deleted != now.is_deleted {
                    self.set_deleted(pid, &now);
                }
            }
            (Some(before), _) => self.is_perhaps_done_with(pid, before.file),
            (None, _) => {}
        }
    }

    fn set_deleted(&mut self, pid: u32, now: &Referred) {
        let Some(member) = self.members.get(&pid) else { return };
        for key in member.uses.iter().filter(|(file, _)| *file == now.file) {
            if let Some(counting) = self.uses.get_mut(key) {
                counting.used.is_deleted = now.is_deleted;
            }
        }
    }

    /// A process is done with a file when none of its descriptors refers to it any more.
    fn is_perhaps_done_with(&mut self, pid: u32, file: FileId) {
        let Some(member) = self.members.get_mut(&pid) else { return };
        if member.descriptors.values().any(|other| other.file == file) {
            return;
        }
        let done: Vec<_> = member.uses.extract_if(|(of, _)| *of == file).collect();
        done.iter().for_each(|key| self.hand_over(key));
    }

    fn hand_over(&mut self, key: &(FileId, Who)) {
        if let Some(counting) = self.uses.remove(key) {
            self.events.push(Event::Used(Box::new(counting.used)));
        }
    }

    /// Whether a file has a name by now.
    pub fn is_named(&self, file: &FileId) -> bool {
        self.named.contains_key(file)
    }

    /// A file is called so.
    pub fn set_name(&mut self, referred: &Referred, name: String) {
        if self.named.get(&referred.file) == Some(&name) {
            return;
        }
        self.named.insert(referred.file, name.clone());
        let Referred { file, object, .. } = *referred;
        self.events.push(Event::Named(Named { file, object, name }));
    }

    /// Something was done with a file, or with one that is not known.
    pub fn did(&mut self, who: Who, referred: Option<&Referred>, done: &Done) {
        self.tell(who, referred.map(|referred| referred.file), done);
        self.witness.did(who.tid, done);
        let key = Who { tid: if self.apart == RowScope::Threads { who.tid } else { 0 }, ..who };
        let Some(referred) = referred else { return self.did_in_rest(done) };
        let key = (referred.file, key);
        if !self.uses.contains_key(&key) && self.uses.len() >= MOST_USES {
            return self.did_in_rest(done);
        }
        let counting = self.uses.entry(key).or_default();
        let used = &mut counting.used;
        (used.file, used.who) = key;
        (used.object, used.is_deleted) = (referred.object, referred.is_deleted);
        done.count_in(counting);
        if let Some(member) = self.members.get_mut(&who.pid) {
            member.uses.insert(key);
        }
    }

    /// Whether the calls of a process are looked at from now on.
    pub fn set_traced(&mut self, pid: u32, is_traced: bool) {
        match is_traced {
            true => self.traced.insert(pid),
            false => self.traced.remove(&pid),
        };
    }

    /// Whether they are, or were when it ended.
    pub fn is_traced(&self, pid: u32) -> bool {
        self.traced.contains(&pid)
    }

    /// Of many files: no place in one means anything.
    fn did_in_rest(&mut self, done: &Done) {
        if done.error == 0 {
            self.tally.rest_calls += 1;
            Done { from: None, ..*done }.count_in(&mut self.rest);
        }
    }

    /// A call that names a file by its path and opens nothing, or an open that failed.
    pub fn by_path(&mut self, who: Who, done: &Done) {
        self.tell(who, None, done);
        let Some(member) = self.members.get_mut(&who.pid) else { return };
        match done.deed {
            Deed::Open => member.process.failed_opens += 1,
            _ => member.process.path_calls += 1,
        }
        member.process.path_ns += done.time_ns();
    }

    fn tell(&mut self, who: Who, file: Option<FileId>, done: &Done) {
        if self.telling == Telling::Each {
            self.events.push(Event::Called(Called {
                file,
                pid: who.pid,
                tid: who.tid,
                deed: done.deed,
                number: done.span.number,
                calls: done.calls as u32,
                bytes: done.bytes,
                from: done.from,
                asked: done.asked,
                error: -done.error,
                time_ns: done.time_ns(),
                ended_ns: done.span.ended_ns,
            }));
        }
    }

    /// A call may have freed space of a file system.
    pub fn frees(&mut self) {
        self.tally.freeing_calls = self.tally.freeing_calls.map(|calls| calls + 1);
    }

    /// Requests that are served without a call are made by this process from now on.
    pub fn moves_unseen(&mut self, pid: u32) {
        if let Some(member) = self.members.get_mut(&pid) {
            member.process.moves_unseen = true;
        }
    }

    /// A call of a program whose numbers are others'.
    pub fn foreign(&mut self, pid: u32) {
        if let Some(member) = self.members.get_mut(&pid) {
            member.process.foreign_calls += 1;
            let name = byte_text::shown(&member.process.name);
            if !self.foreign.contains(&name) {
                self.foreign.insert(name);
            }
        }
    }

    /// A process has ended, or is not traced any more.
    pub fn ends(&mut self, pid: u32, at_ns: u64) {
        let Some(mut member) = self.members.remove(&pid) else { return };
        member.uses.iter().for_each(|key| self.hand_over(key));
        member.process.ended_ns = self.since(at_ns).max(1);
        self.events.push(Event::Ended(member.process));
    }

    /// What has come since the last time.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// What is open still.
    pub fn open_uses(&self) -> impl Iterator<Item = &Use> {
        self.uses.values().map(|counting| &counting.used)
    }

    /// The processes that live.
    pub fn living(&self) -> Vec<Process> {
        self.members.values().map(|member| member.process.clone()).collect()
    }

    /// What found no room by file.
    pub fn rest(&self) -> Option<Use> {
        (self.tally.rest_calls > 0)
            .then(|| Use { object: Object::Unknown, ..self.rest.used.clone() })
    }

    /// Has names told again.
    pub fn forget_names(&mut self, files: &[FileId]) {
        files.iter().for_each(|file| {
            self.named.remove(file);
        });
    }

    /// How much was seen.
    pub fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_given_again_is_of_another_file() {
        let mut counts = Counts::new(Telling::Sums, RowScope::Processes, 0.0);
        let file = FileId { device: 1, inode: 7, generation: 5 };
        let mut seen = |is_deleted| {
            counts.kept_apart(Referred { file, object: Object::Regular, is_deleted }).file
        };
        let first = seen(false);
        assert_eq!((first, seen(false), seen(true), seen(true)), (file, file, file, file));
        let second = seen(false);
        assert!(second != first && seen(false) == second && seen(true) == second);
        assert!(![first, second].contains(&seen(false)));
    }
}
