//! The job as its tracer knows it: threads, processes, sums.
//!
//! Takes births, ends and what was read at them; emits counters, population, bounds of memory,
//! and a row for each process that has ended. Knows no system call.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use weigh_schema::byte_text;
use weigh_schema::event::{Event, Population, ProcessEnd};
use weigh_schema::summary::{Sender, SenderKind};
use weigh_schema::{Counter, CounterValues, Mechanism};

use super::birth::Birth;
use super::calls::findings::Findings;
use super::fork_limit::Guard;
use super::peak::{HeldMemory, UpperBound};
use super::process::{Memory, Process, Thread};
use super::sys::Sent;
use crate::clock::Moment;
use crate::signals::{sender_of, sent_by_kernel};

/// A process that is not traced, and why.
#[derive(Clone, Debug)]
pub struct Untraced {
    /// The process.
    pub pid: u32,
    /// Its program.
    pub program: PathBuf,
    /// Why it cannot be traced.
    pub why: &'static str,
    /// What was known of it by then.
    pub row: ProcessEnd,
}

/// The job.
pub struct Job {
    /// When it began.
    pub begun: Moment,
    /// The process that executes the command.
    pub main: u32,
    /// What it had started before the job began: not of the job.
    pub children_before: HashSet<u32>,
    /// All that is traced, by thread number.
    pub threads: HashMap<u32, Thread>,
    /// All that is traced, by process number.
    pub processes: HashMap<u32, Process>,
    /// What all ended threads have done.
    pub ended: CounterValues,
    /// Processes and threads.
    pub population: Population,
    /// The greatest resident size of one process.
    pub process_peak: u64,
    /// The greatest sizes of single processes: virtual, swapped out.
    pub single: (u64, u64),
    /// The most that one of them was seen to hold in huge pages of hugetlbfs.
    pub single_hugetlb: u64,
    /// When the last process ended, if none is left.
    pub ended_ns: Option<u64>,
    /// What is to be told.
    pub events: VecDeque<Event>,
    /// Children of weigh that have ended or stopped, with their status words.
    pub changes: VecDeque<(u32, i32)>,
    /// Processes that were let go, to be followed otherwise.
    pub let_go: Vec<Untraced>,
    /// The last signal that the command's process was to get, and who sent it, where that can be told.
    pub sent: Option<(i32, Sender)>,
    /// Sentences for the user.
    pub warnings: Vec<String>,
    /// Processes whose I/O may not be read.
    pub hidden: HashSet<String>,
    /// Threads whose end came without the stop at which they are looked at.
    pub unseen_ends: u64,
    /// Of these, those whose I/O could not be read later either.
    pub unseen_io: u64,
    /// What is known of the calls that it makes, if they are looked at.
    pub calls: Findings,
    /// The greatest high-water mark from before the job that ended or given up memory has not passed.
    pub mark_not_passed: u64,
    /// Whether CPU time had to be taken from clock ticks.
    pub cpu_by_ticks: bool,
    /// Why processes with one address space may have been taken for several.
    pub not_compared: Option<String>,
    /// Limits on how many there may be.
    pub guard: Guard,
    /// What weigh itself held when it made the process for the command.
    inherited: u64,
    upper: UpperBound,
    /// By how much marks of memory that was given up at an exec were too low.
    missing: UpperBound,
    next_id: u64,
}

impl Job {
    /// A job that is to begin with one process; `inherited` is the resident size of that one.
    pub fn new(main: u32, inherited: u64) -> Job {
        Job {
            begun: Moment::now(),
            main,
            children_before: HashSet::new(),
            threads: HashMap::new(),
            processes: HashMap::new(),
            ended: CounterValues::default(),
            population: Population::default(),
            process_peak: 0,
            single: (0, 0),
            single_hugetlb: 0,
            ended_ns: None,
            events: VecDeque::new(),
            changes: VecDeque::new(),
            let_go: Vec::new(),
            sent: None,
            warnings: Vec::new(),
            hidden: HashSet::new(),
            unseen_ends: 0,
            unseen_io: 0,
            calls: Findings::default(),
            mark_not_passed: 0,
            cpu_by_ticks: false,
            not_compared: None,
            guard: Guard::new(),
            inherited,
            upper: UpperBound::default(),
            missing: UpperBound::default(),
            next_id: 0,
        }
    }

    /// A process is to get a signal. Of what a program can pretend nothing is taken for true.
    pub fn is_sent(&mut self, pid: u32, signal: i32, sent: Option<Sent>) {
        if pid != self.main {
            return;
        }
        let sender = sent.and_then(|Sent { code, pid, uid }| {
            let kind = match pid {
                _ if code > 0 => return Some(sent_by_kernel(Mechanism::Ptrace)),
                _ if ![libc::SI_USER, libc::SI_TKILL].contains(&code) => return None,
                _ if pid == self.main => SenderKind::Itself,
                _ if self.processes.contains_key(&pid) => SenderKind::Job,
                _ => SenderKind::Other,
            };
            Some(sender_of(kind, pid, uid, Mechanism::Ptrace))
        });
        self.sent = sender.map(|sender| (signal, sender));
    }

    /// The name of the program that a thread executes.
    pub fn program_of(&self, tid: u32) -> String {
        let process = self.threads.get(&tid).and_then(|t| self.processes.get(&t.process));
        process
            .and_then(|p| p.command.first())
            .map(|word| byte_text::shown(word))
            .unwrap_or_default()
    }

    /// A thread has opened a file; its path, if that is known.
    pub fn file_opened(&mut self, tid: u32, path: Option<&[u8]>) {
        let Some(pid) = self.threads.get(&tid).map(|thread| thread.process) else { return };
        let Some(id) = self.processes.get(&pid).map(|process| process.id) else { return };
        self.events.extend(self.calls.opens.opened(pid, id, path));
    }

    /// Nanoseconds since the beginning.
    pub fn now_ns(&self) -> u64 {
        self.begun.elapsed_ns()
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// One more thread, in `process` or, if it is a process of its own, started by it.
    pub fn born(&mut self, tid: u32, process: u32, birth: Birth) {
        let pid = if birth == Birth::Thread { process } else { tid };
        let id = self.new_id();
        self.threads.insert(tid, Thread { process: pid, id, ..Thread::default() });
        self.population.threads += 1;
        self.population.threads_peak = self.population.threads_peak.max(self.population.threads);
        if birth == Birth::Thread {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.threads += 1;
                process.running += 1;
                process.is_plain = false;
            }
            return;
        }
        let mut child = Process::new(pid, process, id, self.now_ns(), birth);
        child.moment = self.upper.begin();
        child.missing = self.missing.begin();
        if let Some(parent) = self.processes.get_mut(&process) {
            parent.children += 1;
            parent.is_plain = false;
            child.ancestor = Some(process);
            child.uid = parent.uid;
            if birth == Birth::Sharing {
                child.space = parent.space;
            }
        }
        self.processes.insert(pid, child);
        let population = &mut self.population;
        population.processes += 1;
        population.processes_total += 1;
        population.processes_peak = population.processes_peak.max(population.processes);
        self.ended_ns = None;
    }

    /// A process executes a program: what it held before is given up.
    pub fn execs(&mut self, pid: u32, former: u32, command: Vec<String>, cut: bool) {
        if former != pid {
            // The thread that called exec goes on under the number of the first one, whose zombie
            // nobody gets to see.
            self.thread_ends(pid);
            if let Some(thread) = self.threads.remove(&former) {
                self.threads.insert(pid, thread);
            }
        }
        let at_ns = self.now_ns();
        let new_space = self.new_id();
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let own_before = pid != self.main || process.execs > 0;
        let before = (process.space, process.memory);
        let held = if own_before { before.1.held() } else { HeldMemory::default() };
        let not_passed = before.1.mark_not_passed().unwrap_or_default();
        self.mark_not_passed = self.mark_not_passed.max(not_passed);
        if held.spaces > 0 {
            self.single.0 = self.single.0.max(before.1.virtual_peak);
            self.single.1 = self.single.1.max(before.1.swap_peak);
            self.single_hugetlb = self.single_hugetlb.max(before.1.hugetlb_peak);
        }
        self.upper.end(process.moment, held);
        process.moment = self.upper.begin();
        process.executes(held.bytes, new_space, &command);
        self.hand_over(before.0, before.1);
        self.events.push_back(Event::Exec { pid, at_ns, command, cut });
    }

    /// A process is done with an address space. One that has only used it has it for its own now.
    fn hand_over(&mut self, space: u64, memory: Memory) {
        if memory.is_shared {
            return;
        }
        let users = self.processes.values_mut().filter(|p| p.space == space && p.memory.is_shared);
        let Some(heir) = users.min_by_key(|process| process.id) else { return };
        heir.memory = memory;
        self.upper.end(heir.moment, HeldMemory::default());
        heir.moment = self.upper.begin();
    }

    /// A thread is no more; its last counters are those it was last given.
    pub fn thread_ends(&mut self, tid: u32) {
        let Some(thread) = self.threads.remove(&tid) else { return };
        let seen = thread.own_counters();
        self.unseen_ends += u64::from(!thread.is_leaving);
        self.population.threads = self.population.threads.saturating_sub(1);
        let Some(process) = self.processes.get_mut(&thread.process) else { return };
        process.threads = process.threads.saturating_sub(1);
        if !thread.is_leaving {
            process.running = process.running.saturating_sub(1);
        }
        for &counter in Counter::ALL {
            let value = seen.get(counter);
            process.counters.set(counter, process.counters.get(counter) + value);
            self.ended.set(counter, self.ended.get(counter) + value);
        }
    }

    /// A process is no more. `reach` is the greatest resident size of it or of any child it has
    /// waited for, over all its execs; none if that is not known.
    pub fn process_ends(&mut self, pid: u32, status: Option<i32>, reach: Option<u64>) {
        let now_ns = self.now_ns();
        let Some(mut process) = self.processes.remove(&pid) else { return };
        let is_copy_of_weigh = pid == self.main && process.execs == 0;
        let held = if is_copy_of_weigh { HeldMemory::default() } else { process.memory.held() };
        self.upper.end(process.moment, held);
        let not_passed = process.memory.mark_not_passed().unwrap_or_default();
        self.mark_not_passed = self.mark_not_passed.max(not_passed);
        self.hand_over(process.space, process.memory);
        let not_its_own = if pid == self.main {
            // weigh's own copy grows until it has become the command, by what it touches: by
            // libraries, a few MiB at most.
            process.descendants_peak.max(self.inherited * 2 + (4 << 20))
        } else {
            process.descendants_peak
        };
        let peak = process.peak(held.bytes, reach, not_its_own);
        self.missing
            .end(process.missing, HeldMemory { bytes: peak.missing, ..HeldMemory::default() });
        process.memory.resident_peak = peak.last;
        self.process_peak = self.process_peak.max(peak.greatest);
        self.single.0 = self.single.0.max(process.memory.virtual_peak);
        self.single.1 = self.single.1.max(process.memory.swap_peak);
        self.single_hugetlb = self.single_hugetlb.max(process.memory.hugetlb_peak);
        self.part_from_family(&process, peak.greatest);
        self.forget(&mut process, now_ns);
        let end = process.row(Some(now_ns), status);
        self.events.push_back(Event::ProcessEnd(Box::new(end)));
    }

    /// A process is no longer traced, and does not end. From here on it is counted, from its very
    /// beginning, by its follower; its present thread has done `seen`.
    pub fn let_go(&mut self, pid: u32, program: PathBuf, why: &'static str, seen: CounterValues) {
        let now_ns = self.now_ns();
        let Some(mut process) = self.processes.remove(&pid) else { return };
        for &counter in Counter::ALL {
            let by_ended_threads = process.counters.get(counter);
            if counter.task_field().is_none() {
                // What its calls have done so far nobody else will tell.
                self.ended.set(counter, self.ended.get(counter) + seen.get(counter));
                continue;
            }
            self.ended.set(counter, self.ended.get(counter) - by_ended_threads);
            process.counters.set(counter, by_ended_threads + seen.get(counter));
        }
        self.upper.end(process.moment, HeldMemory::default());
        self.missing.end(process.missing, HeldMemory::default());
        self.hand_over(process.space, process.memory);
        self.part_from_family(&process, 0);
        self.forget(&mut process, now_ns);
        self.population.processes_total -= 1;
        let row = process.row(None, None);
        self.let_go.push(Untraced { pid, program, why, row });
    }

    fn forget(&mut self, process: &mut Process, now_ns: u64) {
        self.population.processes = self.population.processes.saturating_sub(1);
        self.guard.forget(process.pid);
        // Threads that the kernel told nothing more of, as when somebody else has reaped them.
        for tid in self.tids_of(process.pid) {
            self.threads.remove(&tid);
            self.population.threads = self.population.threads.saturating_sub(1);
        }
        if self.population.processes == 0 {
            self.ended_ns = Some(now_ns);
        }
    }

    fn tids_of(&self, pid: u32) -> Vec<u32> {
        self.threads.iter().filter(|(_, t)| t.process == pid).map(|(tid, _)| *tid).collect()
    }

    /// Those above it may have waited for it; those below it go to the one above.
    fn part_from_family(&mut self, process: &Process, peak: u64) {
        let peak = peak.max(process.descendants_peak);
        if let Some(above) = process.ancestor.and_then(|pid| self.processes.get_mut(&pid)) {
            above.descendants_peak = above.descendants_peak.max(peak);
            above.children += process.children;
            above.children -= 1;
        }
        if process.children > 0 {
            for below in self.processes.values_mut().filter(|p| p.ancestor == Some(process.pid)) {
                below.ancestor = process.ancestor;
            }
        }
    }

    /// No sum of resident sizes was ever greater.
    pub fn upper_bound(&self) -> HeldMemory {
        let held: HashMap<u64, HeldMemory> = self
            .processes
            .values()
            .filter(|p| p.pid != self.main || p.execs > 0)
            .map(|p| (p.moment, p.memory.held()))
            .collect();
        let of = |moment| held.get(&moment).copied().unwrap_or_default();
        self.upper.with_living(of) + self.missing.with_living(|_| HeldMemory::default())
    }

    /// The greatest resident size that one process is known to have had.
    pub fn process_peak(&self) -> u64 {
        let living = self.processes.values().filter(|p| p.pid != self.main || p.execs > 0);
        let known = living.map(|p| p.memory.resident_peak.max(p.held_before));
        known.max().unwrap_or_default().max(self.process_peak)
    }

    /// A process of the job may have held up to this: so much it had held before the job, and no process is known to have
    /// held more since.
    pub fn mark_not_passed(&self) -> Option<u64> {
        let living = self.processes.values().filter_map(|process| process.memory.mark_not_passed());
        living.chain([self.mark_not_passed]).max().filter(|mark| *mark > self.process_peak())
    }

    /// The rows of the living.
    pub fn living(&self) -> Vec<ProcessEnd> {
        self.processes.values().map(|process| process.row(None, None)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESIDENT: u64 = 100 << 20;

    /// One that has executed a program, holds memory, and has children that use it.
    fn with_guests(guests: std::ops::Range<u32>) -> Job {
        let mut job = Job::new(1, 0);
        job.born(1, 0, Birth::Own(0, 0));
        job.execs(1, 1, vec!["program".to_owned()], false);
        for guest in guests {
            job.born(guest, 1, Birth::Sharing);
        }
        for process in job.processes.values_mut() {
            process.memory.resident_peak = RESIDENT;
            process.memory.resident = RESIDENT;
        }
        job
    }

    fn upper(job: &Job) -> (u64, u64) {
        let upper = job.upper_bound();
        (upper.bytes, upper.spaces)
    }

    #[test]
    fn an_address_space_counts_once_for_all_who_use_it() {
        let mut job = with_guests(2..6);
        assert_eq!(upper(&job), (RESIDENT, 1));
        (2..6).for_each(|pid| job.process_ends(pid, Some(0), None));
        job.process_ends(1, Some(0), None);
        assert_eq!(upper(&job), (RESIDENT, 1));
        let rows: Vec<u64> = job
            .events
            .iter()
            .filter_map(|event| match event {
                Event::ProcessEnd(row) => Some(row.rss_peak_bytes),
                _ => None,
            })
            .collect();
        assert_eq!(rows, [0, 0, 0, 0, RESIDENT]);
    }

    #[test]
    fn it_outlives_the_one_that_it_was_made_for() {
        let mut job = with_guests(2..4);
        job.process_ends(1, Some(0), None);
        assert!(!job.processes[&2].memory.is_shared && job.processes[&3].memory.is_shared);
        assert_eq!(upper(&job), (RESIDENT, 1));
        // The next one executes a program: what it leaves is the last one's.
        job.execs(2, 2, vec!["another".to_owned()], false);
        assert!(!job.processes[&3].memory.is_shared);
        job.process_ends(3, Some(0), None);
        assert_eq!(upper(&job).0, RESIDENT);
    }
}
