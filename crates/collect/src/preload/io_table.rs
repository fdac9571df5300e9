//! What each process does with each file, as the library of level 4 counts it in the second shared file.
//!
//! Emits the same events as the kernel side of `weigh io`: names, uses that a process is done with,
//! processes that have ended; and at any time what is open still. What was counted before a process was
//! killed is there. Refuses to judge times before the processor's counter is known: they are taken in ticks.

mod read;
mod unlinked;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weigh_schema::event::ProcessEnd;
use weigh_schema::io::{Event, Field, FileId, Numbers, Process, Tally, Transfer, Use};

use super::layout::{FLAG_AIO, FLAG_BY_NUMBER, FLAG_URING};
use super::pid_namespace::{NamespacePids, shown};
use super::process;
use super::shared_file::{RunFolder, SharedFile};
use super::uses_layout::{
    BYTES, HEAD, MAGIC, PROCESS, PROCESS_BYTES, PROCESSES, PROCESSES_AT, ROOM_STEP, STATES_AT,
    SUFFIX, UNLINKED_AT, USE_BEGUN, USE_BYTES, USE_DONE, USE_FREE, USE_OPEN, USES, USES_AT,
};
use crate::calls::shim::ticks::{TickRate, Ticks};
use crate::shared_map::SharedMap;
use read::Words;

/// The file, as it is made.
pub const FILE: SharedFile = SharedFile { suffix: SUFFIX, bytes: BYTES, begins_with };

/// Uses that there is room for ahead of those that were taken, as of slots.
const AHEAD: [usize; 2] = [8 * ROOM_STEP, 64 * ROOM_STEP];

/// Processes that there is room for at the beginning.
const FIRST_PROCESSES: usize = 8 * ROOM_STEP;

fn processes(from: usize, to: usize) -> Range<usize> {
    PROCESSES_AT + PROCESS_BYTES * from..PROCESSES_AT + PROCESS_BYTES * to
}

fn uses(from: usize, to: usize) -> Range<usize> {
    USES_AT + USE_BYTES * from..USES_AT + USE_BYTES * to
}

/// The head and all states, and the first of all others.
fn begins_with(can_grow: bool) -> Vec<Range<usize>> {
    let head = 0..processes(0, FIRST_PROCESSES).end;
    vec![head, uses(0, AHEAD[usize::from(!can_grow)]), UNLINKED_AT..BYTES]
}

/// What was seen of that which the kernel's own accounting has, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witnessed {
    /// Bytes and calls: read.
    pub read: (u64, u64),
    /// Written.
    pub written: (u64, u64),
    /// Calls that failed, which may be among the kernel's.
    pub failed: (u64, u64),
    /// Read to start programs.
    pub start: (u64, u64),
    /// What is among what was read to start programs, and was counted by another before they were executed.
    pub start_again: (u64, u64),
}

impl Witnessed {
    /// With what another has seen.
    pub fn plus(&self, more: &Witnessed) -> Witnessed {
        let plus = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
        let less =
            |a: (u64, u64), b: (u64, u64)| (a.0.saturating_sub(b.0), a.1.saturating_sub(b.1));
        let again = plus(self.start_again, more.start_again);
        Witnessed {
            read: plus(self.read, more.read),
            written: plus(self.written, more.written),
            failed: plus(self.failed, more.failed),
            start: less(plus(self.start, more.start), again),
            start_again: (0, 0),
        }
    }
}

/// The file, and what was read of it.
pub struct UsageTable {
    map: SharedMap,
    /// How many uses there is to be room for beyond those that were taken.
    ahead: usize,
    ticks: Ticks,
    pace: TickRate,
    began_ns: u64,
    arrived: Vec<Event>,
    /// What files were called last, and when who called them so began to use them.
    named: HashMap<FileId, (u64, String)>,
    living: Vec<Process>,
    /// The slots of those, and of those that have just ended, and when their processes were started.
    owners: HashMap<usize, u64>,
    hidden: NamespacePids,
    /// By the numbers of processes: what those that have ended had counted beside their uses.
    beside: [u64; PROCESS.len()],
    threads: u64,
    /// What was handed out of it.
    given: Numbers,
    /// Looks at a file without its last name that its teller has not told of whole.
    waited: u32,
}

impl UsageTable {
    /// Begins the file.
    pub fn new(map: SharedMap) -> UsageTable {
        let ticks = Ticks::begin();
        let uses = UsageTable {
            ahead: AHEAD[usize::from(!map.can_grow())],
            map,
            pace: ticks.pace(),
            ticks,
            began_ns: crate::clock::monotonic_ns(),
            arrived: Vec::new(),
            named: HashMap::new(),
            living: Vec::new(),
            owners: HashMap::new(),
            hidden: NamespacePids::default(),
            beside: [0; PROCESS.len()],
            threads: 0,
            given: Numbers::default(),
            waited: 0,
        };
        uses.head("is_by_counter").store(u64::from(uses.ticks.is_known()), Ordering::Relaxed);
        // The first one is the rest.
        uses.head("used").store(1, Ordering::Relaxed);
        uses.head("room").store(uses.ahead as u64, Ordering::Relaxed);
        uses.head("process_room").store(FIRST_PROCESSES as u64, Ordering::Relaxed);
        uses.head("magic").store(MAGIC, Ordering::Release);
        uses
    }

    /// Makes room before it is taken: for uses, and for the processes of so many slots.
    fn keep_ahead(&self, slots: usize) {
        let room = self.room("room", USES);
        let more = (room + self.ahead).min(USES);
        if self.used() + self.ahead > room && room < more {
            self.grow("room", uses(room, more), more);
        }
        let room = self.room("process_room", PROCESSES);
        if room < slots {
            self.grow("process_room", processes(room, slots), slots);
        }
    }

    fn room(&self, name: &str, most: usize) -> usize {
        (self.head(name).load(Ordering::Acquire) as usize).min(most)
    }

    /// Where there is no room, what finds none is counted.
    fn grow(&self, name: &str, part: Range<usize>, to: usize) {
        if self.map.make_room(part).is_ok() {
            self.head(name).fetch_max(to as u64, Ordering::AcqRel);
        }
    }

    /// Whether a program has cut the file.
    pub fn is_cut(&self) -> bool {
        self.map.is_cut()
    }

    /// The command is about to begin: times are counted from here.
    pub fn begin(&mut self) {
        self.began_ns = crate::clock::monotonic_ns();
    }

    /// Times are counted from this moment of the monotonic clock.
    pub fn begin_at(&mut self, began_ns: u64) {
        self.began_ns = began_ns;
    }

    /// How long ago that was.
    pub fn elapsed_ns(&self) -> u64 {
        crate::clock::monotonic_ns().saturating_sub(self.began_ns)
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so long, aligned to a page, and lives as long as `self`; others write
        // it at any time, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.map.start().cast().as_ptr(), BYTES / 8) }
    }

    fn head(&self, name: &str) -> &AtomicU64 {
        let at = HEAD.iter().position(|field| *field == name);
        &self.words()[at.unwrap_or(0)]
    }

    fn number(&self, name: &str) -> u64 {
        self.head(name).load(Ordering::Relaxed)
    }

    fn state(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the states lie there, one of four bytes for each use; the index is below their number.
        unsafe { &*self.map.start().as_ptr().add(STATES_AT + 4 * index.min(USES - 1)).cast() }
    }

    fn use_words(&self, index: usize) -> &[AtomicU64] {
        let at = (USES_AT + USE_BYTES * index) / 8;
        &self.words()[at..at + USE_BYTES / 8]
    }

    fn used(&self) -> usize {
        (self.head("used").load(Ordering::Acquire) as usize).min(self.room("room", USES))
    }

    fn read(&self, index: usize) -> Words {
        let words = self.use_words(index).iter();
        Words::new(words.map(|word| word.load(Ordering::Relaxed)).collect())
    }

    fn owner(&self, index: usize) -> usize {
        self.use_words(index)[read::at("slot")].load(Ordering::Relaxed) as usize
    }

    fn process_words(&self, slot: usize) -> [u64; PROCESS.len()] {
        if slot >= self.room("process_room", PROCESSES) {
            return [0; PROCESS.len()];
        }
        let at = (PROCESSES_AT + PROCESS_BYTES * slot) / 8;
        std::array::from_fn(|i| self.words()[at + i].load(Ordering::Relaxed))
    }

    /// Takes in what is done with. `ended` are processes whose slots are about to be given back.
    pub fn look(
        &mut self,
        shared: &RunFolder,
        tally: &super::process_table::Tally,
        ended: &[(usize, ProcessEnd)],
    ) {
        self.keep_ahead(shared.room());
        self.hidden.clone_from(&tally.hidden);
        let gone: HashSet<usize> = ended.iter().map(|(slot, _)| *slot).collect();
        let started_ns = |slot: usize| shared.slots[slot].started_ns.load(Ordering::Relaxed);
        let living = tally.living.iter().map(|process| process.slot);
        self.owners =
            living.chain(gone.iter().copied()).map(|slot| (slot, started_ns(slot))).collect();
        self.pace = self.ticks.pace();
        for index in 1..self.used() {
            match self.state(index).load(Ordering::Acquire) {
                USE_DONE => self.hand_over(index),
                USE_OPEN if gone.contains(&self.owner(index)) => self.hand_over(index),
                USE_BEGUN if gone.contains(&self.owner(index)) => self.give_back(index),
                USE_OPEN => self.tell_first_name(&self.read(index)),
                _ => {}
            }
        }
        self.take_unlinked();
        for (slot, row) in ended {
            let flags = shared.slots[*slot].flags.load(Ordering::Relaxed);
            self.end(*slot, row, moves_unseen(flags) || tally.is_blind_in(row.pid, flags));
        }
        self.living = tally.living.iter().map(|process| self.so_far(process, tally)).collect();
    }

    fn hand_over(&mut self, index: usize) {
        let words = self.read(index);
        self.tell_first_name(&words);
        if let Some(used) = self.used_of(&words) {
            self.tell_later_name(&words, used.numbers.get(Field::First));
            self.given.fold(&used.numbers);
            self.arrived.push(Event::Used(Box::new(used)));
        }
        self.give_back(index);
    }

    /// For others to use it: nobody counts in it any more.
    fn give_back(&self, index: usize) {
        let words = self.use_words(index);
        // A killed process may have held it.
        words[read::at("lock")].store(0, Ordering::Relaxed);
        self.state(index).store(USE_FREE, Ordering::Release);
        let free = self.head("free");
        let mut first = free.load(Ordering::Acquire);
        loop {
            words[read::at("next_free")].store(first & 0xffff_ffff, Ordering::Release);
            let mine = ((first >> 32).wrapping_add(1) & 0xffff_ffff) << 32 | index as u64;
            match free.compare_exchange_weak(first, mine, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    fn tell_first_name(&mut self, words: &Words) {
        if !self.named.contains_key(&words.file()) {
            let named = words.named();
            self.named.insert(named.file, (0, named.name.clone()));
            self.arrived.push(Event::Named(named));
        }
    }

    /// Who began to use it later than others may know it by another name.
    fn tell_later_name(&mut self, words: &Words, first_ns: u64) {
        let named = words.named();
        let Some((told_ns, told)) = self.named.get_mut(&named.file) else { return };
        if *told_ns > first_ns {
            return;
        }
        *told_ns = first_ns;
        if *told != named.name {
            told.clone_from(&named.name);
            self.arrived.push(Event::Named(named));
        }
    }

    fn used_of(&self, words: &Words) -> Option<Use> {
        let slot = words.get("slot") as usize;
        let started_ns = self.owners.get(&slot).copied().unwrap_or_default();
        let pid = shown(self.hidden.pid_since(words.pid(), started_ns));
        words.used(pid, &self.pace, self.began_ns)
    }

    fn end(&mut self, slot: usize, row: &ProcessEnd, moves_unseen: bool) {
        let numbers = self.process_words(slot);
        let at = (PROCESSES_AT + PROCESS_BYTES * slot) / 8;
        // For the slot's next process.
        if slot < self.room("process_room", PROCESSES) {
            let words = self.words()[at..at + PROCESS.len()].iter();
            words.for_each(|word| word.store(0, Ordering::Relaxed));
        }
        self.beside.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        self.threads += 1;
        let process = Process { moves_unseen, ..self.process(numbers, row) };
        self.arrived.push(Event::Ended(process));
    }

    fn process(&self, numbers: [u64; PROCESS.len()], row: &ProcessEnd) -> Process {
        Process {
            pid: row.pid,
            parent: row.parent_pid,
            name: row.name.clone(),
            started_ns: row.started_ns,
            ended_ns: row.ended_ns.unwrap_or_default(),
            path_calls: numbers[beside("path_calls")],
            path_ns: self.pace.span_ns(numbers[beside("path_time")]),
            failed_opens: numbers[beside("failed_opens")],
            foreign_calls: 0,
            moves_unseen: false,
        }
    }

    fn so_far(&self, process: &process::Process, tally: &super::process_table::Tally) -> Process {
        let row = process.end(tally.epoch_ns, None, None);
        let known = self.process(self.process_words(process.slot), &row);
        let moves_unseen =
            moves_unseen(process.flags) || tally.is_blind_in(process.pid, process.flags);
        Process { moves_unseen, ..known }
    }

    /// What has come since the last time.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.arrived)
    }

    /// What is open still.
    pub fn open_uses(&self) -> impl Iterator<Item = Use> + '_ {
        let open = |index: &usize| self.state(*index).load(Ordering::Acquire) == USE_OPEN;
        (1..self.used()).filter(open).filter_map(|i| self.used_of(&self.read(i)))
    }

    /// The processes that live.
    pub fn living(&self) -> &[Process] {
        &self.living
    }

    /// What found no room by file.
    pub fn rest(&self) -> Option<Use> {
        self.read(0).used(0, &self.pace, self.began_ns)
    }

    /// Has names told again.
    pub fn forget_names(&mut self, files: &[FileId]) {
        files.iter().for_each(|file| {
            self.named.remove(file);
        });
    }

    /// How much was seen.
    pub fn tally(&self, living: u64) -> Tally {
        Tally {
            threads: self.threads + living,
            living,
            rest_calls: self.number("rest_calls"),
            ..Tally::default()
        }
    }

    /// What all processes did that the kernel counts by itself, too.
    pub fn witnessed(&self) -> Witnessed {
        let mut all = self.given.clone();
        self.open_uses().for_each(|used| all.fold(&used.numbers));
        self.rest().iter().for_each(|rest| all.fold(&rest.numbers));
        let mut beside_all = self.beside;
        for slot in self.owners.keys() {
            let numbers = self.process_words(*slot);
            beside_all.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
        let by = |way: usize, bytes: &str, calls: &str| {
            let kinds =
                [Transfer::Plain, Transfer::Positioned, Transfer::Vectored, Transfer::Copied];
            let sum = |of: &[[u64; 2]; 8]| kinds.iter().map(|kind| of[*kind as usize][way]).sum();
            let (bytes_all, calls_all): (u64, u64) = (sum(&all.bytes), sum(&all.calls));
            (
                bytes_all.saturating_sub(beside_all[beside(bytes)]),
                calls_all.saturating_sub(beside_all[beside(calls)]),
            )
        };
        Witnessed {
            read: by(0, "uncounted_read_bytes", "uncounted_read_calls"),
            written: by(1, "uncounted_written_bytes", "uncounted_write_calls"),
            start: (beside_all[beside("start_read_bytes")], beside_all[beside("start_read_calls")]),
            start_again: (0, 0),
            failed: (beside_all[beside("failed_reads")], beside_all[beside("failed_writes")]),
        }
    }

    /// Processes whose address space had no room for the file, and those whose streams are not seen.
    pub fn blind(&self) -> (u64, u64) {
        (self.number("refused"), self.number("without_streams"))
    }
}

/// Whether a process with these flags has requests served, or made calls, that the library does not count.
fn moves_unseen(flags: u32) -> bool {
    flags & (FLAG_URING | FLAG_AIO | FLAG_BY_NUMBER) != 0
}

/// The place of a process's number.
fn beside(name: &str) -> usize {
    PROCESS.iter().position(|field| *field == name).unwrap_or(0)
}
