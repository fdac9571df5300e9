//! A thread and a process as their tracer knows them.

use weigh_schema::event::ProcessEnd;
use weigh_schema::{Counter, CounterValues};

use super::birth::Birth;
use super::calls::entered::Entered;
use super::peak::HeldMemory;
use super::sys::Ended;
use crate::procfs::Status;

/// A traced thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its process.
    pub process: u32,
    /// Told apart from any other that has or will have its number.
    pub id: u64,
    /// How often it was stopped: each time it has given up its CPU for weigh's sake.
    pub stops: u64,
    /// Whether a reading held its counters before its end. The kernel splits CPU time by ticks
    /// anew each time it is asked, for threads and for processes apart, and neither takes back what
    /// it said: so what was told by one is not to be told by the other.
    pub is_told: bool,
    /// Whether it has passed the stop at its end.
    pub is_leaving: bool,
    /// Its counters when they were last read, and what was counted of its calls.
    pub seen: CounterValues,
    /// The system call that it is in, if what comes of it is of interest.
    pub call: Option<Entered>,
    /// Its counters when the job began, if it is older.
    pub before: CounterValues,
    /// What limits on calls know of its own counters.
    pub noted: CounterValues,
}

impl Thread {
    /// Takes what the kernel kept of the whole process, where that was this thread and no other.
    pub fn set_usage(&mut self, end: &Ended) {
        if !self.is_told {
            self.seen.set(Counter::UserTicks, end.cpu_ns.0);
            self.seen.set(Counter::SystemTicks, end.cpu_ns.1);
        }
        let pairs = [
            (Counter::MinorFaults, end.faults.0),
            (Counter::MajorFaults, end.faults.1),
            (Counter::VoluntarySwitches, end.switches.0),
            (Counter::InvoluntarySwitches, end.switches.1),
        ];
        for (counter, value) in pairs {
            self.seen.set(counter, value);
        }
    }

    /// What it has done for the job, without what is weigh's doing.
    pub fn own_counters(&self) -> CounterValues {
        own(&self.seen, &self.before, self.stops)
    }

    /// How much its own counters have grown since this was asked last.
    pub fn take_growth(&mut self) -> CounterValues {
        let now = self.own_counters();
        let mut growth = CounterValues::default();
        for &counter in Counter::ALL {
            growth.set(counter, now.get(counter).saturating_sub(self.noted.get(counter)));
        }
        self.noted = now;
        growth
    }
}

/// What is left of counters without those from before the job, and without the stops.
pub fn own(seen: &CounterValues, before: &CounterValues, stops: u64) -> CounterValues {
    let mut own = CounterValues::default();
    for &counter in Counter::ALL {
        own.set(counter, seen.get(counter).saturating_sub(before.get(counter)));
    }
    let switches = own.get(Counter::VoluntarySwitches).saturating_sub(stops);
    own.set(Counter::VoluntarySwitches, switches);
    own
}

/// Memory of a process since its last exec, as last seen, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Resident.
    pub resident: u64,
    /// Its high-water mark.
    pub resident_peak: u64,
    /// Of the resident size, what is neither a file's nor shared memory.
    pub anonymous: u64,
    /// The same when it was forked: still its parent's, perhaps.
    pub anonymous_at_birth: u64,
    /// Size of the address space.
    pub size: u64,
    /// Its high-water mark.
    pub virtual_peak: u64,
    /// Swapped out.
    pub swap: u64,
    /// The most that was seen of that.
    pub swap_peak: u64,
    /// Of the resident size, shared memory.
    pub shared: u64,
    /// Huge pages of hugetlbfs.
    pub hugetlb: u64,
    /// The most that was seen of that.
    pub hugetlb_peak: u64,
    /// Whether it is another process's memory.
    pub is_shared: bool,
    /// The high-water marks, resident and virtual, when the job began, if it is older: they tell nothing of the job
    /// until they are passed.
    pub marks_before: (u64, u64),
}

impl Memory {
    /// The high-water mark from before the job, where the job has not passed it.
    pub fn mark_not_passed(&self) -> Option<u64> {
        Some(self.marks_before.0).filter(|mark| *mark > self.resident_peak)
    }

    /// What it adds to a sum of resident sizes, at most.
    pub fn held(&self) -> HeldMemory {
        match self.is_shared {
            true => HeldMemory::default(),
            false => HeldMemory {
                bytes: self.resident_peak,
                inherited: self.anonymous_at_birth.min(self.resident_peak),
                spaces: 1,
            },
        }
    }

    /// Takes in what was read.
    pub fn see(&mut self, status: &Status) {
        let Some(resident) = status.rss_bytes else { return };
        self.resident = resident;
        let passed =
            |mark: Option<u64>, before| mark.filter(|mark| *mark > before).unwrap_or_default();
        let mark = passed(status.rss_peak_bytes, self.marks_before.0);
        self.resident_peak = self.resident_peak.max(resident).max(mark);
        self.anonymous = status.anonymous_bytes.unwrap_or_default();
        self.shared = status.shared_bytes.unwrap_or_default();
        self.hugetlb = status.hugetlb_bytes.unwrap_or_default();
        self.hugetlb_peak = self.hugetlb_peak.max(self.hugetlb);
        self.size = status.virtual_bytes.unwrap_or_default();
        let mark = passed(status.virtual_peak_bytes, self.marks_before.1);
        self.virtual_peak = self.virtual_peak.max(self.size).max(mark);
        self.swap = status.swap_bytes.unwrap_or_default();
        self.swap_peak = self.swap_peak.max(self.swap);
    }
}

/// The greatest resident size of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Over all programs that it executed.
    pub greatest: u64,
    /// Of the last one; 0 if that is not known.
    pub last: u64,
    /// What the marks have less.
    pub missing: u64,
}

/// A traced process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The one that started it.
    pub parent_pid: u32,
    /// Told apart from any other that has or will have its number.
    pub id: u64,
    /// When it was started.
    pub started_ns: u64,
    /// Its threads that were not reaped yet.
    pub threads: u64,
    /// Of these, those that have not come to their end.
    pub running: u64,
    /// What its ended threads have done.
    pub counters: CounterValues,
    /// Its memory.
    pub memory: Memory,
    /// The number of its address space: processes that use one memory have the same.
    pub space: u64,
    /// The most that it is known to have held before its last exec.
    pub held_before: u64,
    /// The greatest that a descendant held which it may have waited for.
    pub descendants_peak: u64,
    /// The nearest living one it descends from, and how many say so of this one.
    pub ancestor: Option<u32>,
    /// See `ancestor`.
    pub children: u64,
    /// Number in the bound of what was held.
    pub moment: u64,
    /// Number in the bound of what was missed.
    pub missing: u64,
    /// Whether it never had a second thread nor a child: then what the kernel keeps of it and of
    /// all that it has waited for is what this one thread has done.
    pub is_plain: bool,
    /// Whether the I/O of a thread of it could not be read at its end.
    pub is_io_lost: bool,
    /// How many programs it has executed.
    pub execs: u64,
    /// Whether it ever used its parent's memory.
    pub has_shared: bool,
    /// Whether it was last known to be stopped.
    pub is_stopped: bool,
    /// Its user.
    pub uid: Option<u32>,
    /// The kernel's name for it.
    pub name: String,
    /// Its arguments.
    pub command: Vec<String>,
}

impl Process {
    /// A process that was just born.
    pub fn new(pid: u32, parent_pid: u32, id: u64, started_ns: u64, birth: Birth) -> Process {
        let is_shared = birth == Birth::Sharing;
        let mut memory = Memory { is_shared, ..Memory::default() };
        if let Birth::Own(resident, anonymous) = birth {
            memory.resident_peak = resident;
            memory.anonymous_at_birth = anonymous;
        }
        Process {
            pid,
            parent_pid,
            id,
            started_ns,
            threads: 1,
            running: 1,
            counters: CounterValues::default(),
            memory,
            space: id,
            held_before: 0,
            descendants_peak: 0,
            ancestor: None,
            children: 0,
            moment: 0,
            missing: 0,
            is_plain: true,
            is_io_lost: false,
            execs: 0,
            has_shared: is_shared,
            is_stopped: false,
            uid: None,
            name: String::new(),
            command: Vec::new(),
        }
    }

    /// It ran before the job began. What the kernel keeps of it as a whole holds that, too, and its children's.
    pub fn has_run_before(&mut self, command: Vec<String>, status: Option<&Status>) {
        (self.execs, self.command) = (1, command);
        (self.is_plain, self.has_shared) = (false, true);
        let Some(status) = status else { return };
        let mark = |mark: Option<u64>| mark.unwrap_or_default();
        self.memory.marks_before = (mark(status.rss_peak_bytes), mark(status.virtual_peak_bytes));
        self.memory.see(status);
        (self.uid, self.name) = (status.uid, status.name.clone());
    }

    /// It has new memory, the `space`, and a new program.
    pub fn executes(&mut self, held: u64, space: u64, command: &[String]) {
        self.held_before = self.held_before.max(held);
        (self.memory, self.space) = (Memory::default(), space);
        self.execs += 1;
        self.command = command.to_vec();
    }

    /// The greatest resident size that it ever had, that of the program that it ended as, and by how
    /// much the marks that were counted with may be too low.
    ///
    /// The mark of memory that an exec gives up is gone when the tracer hears of the exec. The
    /// kernel keeps the greatest over all execs (`ru_maxrss`), but wait4(2) gives only the greater
    /// of that and of the same of all children that the process has waited for; and a process that
    /// used its parent's memory until its exec is charged with that. So it is taken where it is
    /// greater than anything that could have come from there.
    pub fn peak(&self, held: u64, reach: Option<u64>, not_its_own: u64) -> Peak {
        let known = self.memory.resident_peak.max(self.held_before);
        let Some(reach) =
            reach.filter(|reach| *reach > not_its_own && *reach > known && !self.has_shared)
        else {
            return Peak { greatest: known, last: self.memory.resident_peak, missing: 0 };
        };
        // Without an exec it is but a newer reading of the same mark; so it is where it is hardly
        // more: before Linux 6.2 threads keep the last pages they took to themselves until they end.
        let is_only_mark = self.execs == 0 || held == 0 && self.held_before == 0;
        match is_only_mark || reach <= held + held / 64 + (1 << 20) {
            true => Peak { greatest: reach, last: reach, missing: reach - held },
            false => Peak {
                greatest: reach,
                last: self.memory.resident_peak,
                missing: reach - self.held_before,
            },
        }
    }

    /// Its row. Memory that is another's is not told as its own.
    pub fn row(&self, ended_ns: Option<u64>, status: Option<i32>) -> ProcessEnd {
        let memory = if self.memory.is_shared { Memory::default() } else { self.memory };
        ProcessEnd {
            pid: self.pid,
            parent_pid: self.parent_pid,
            started_ns: self.started_ns,
            ended_ns,
            wait_status: status.map(|status| status as u32),
            uid: self.uid.unwrap_or(u32::MAX),
            name: self.name.clone(),
            command: self.command.clone(),
            counters: self.counters.clone(),
            is_io_lost: self.is_io_lost,
            rss_peak_bytes: memory.resident_peak,
            virtual_peak_bytes: memory.virtual_peak,
            swap_peak_bytes: memory.swap_peak,
        }
    }
}
