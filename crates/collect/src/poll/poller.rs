//! Follows one job by looks at `/proc`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::{
    CollectorState, CollectorStatus, JobReading, MemoryParts, MemoryReading, Population, ProcessEnd,
};
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};
use weigh_schema::{Counter, CounterValues};

use super::certain::CertainSums;
use super::identity::Identity;
use super::listing::ProcessListing;
use super::process::{self, Process};
use super::tree;
use crate::follow::MechanismError;
use crate::procfs::{self, ProcError, Stat};
use crate::rusage::has_no_children;
use crate::spaces;

/// Why a tree cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// The first process cannot be read.
    #[error("cannot follow process {pid}: {source}")]
    Root {
        /// Its PID.
        pid: u32,
        /// Why not.
        source: ProcError,
    },
    /// The list of processes cannot be read.
    #[error("cannot list /proc: {0}")]
    List(std::io::Error),
}

impl From<PollError> for MechanismError {
    fn from(error: PollError) -> MechanismError {
        MechanismError::new("poll", error)
    }
}

/// What it is for, and what it takes.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "poll",
    "processes, CPU, memory, I/O by calls, as /proc shows them now and then",
    Some(
        "it stands in where BPF cannot be used. Run as root, or give the binary CAP_BPF and \
         CAP_PERFMON; the kernel must have BTF",
    ),
)
.asks(SourceTraits {
    mode: SourceMode::Query,
    rights: "none; of processes of other users less is shown",
    scope: "job",
    intrusiveness: Intrusiveness::None,
    cost: "at each look a read or two of each process",
});

/// What one poll found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Poll {
    /// The job as a whole. Counters that are not in `known` mean nothing.
    pub reading: JobReading,
    /// The counters that have a value.
    pub known: BTreeSet<&'static str>,
    /// Processes that have ended since the last poll, as they were last seen.
    pub ended: Vec<ProcessEnd>,
}

impl Poll {
    /// The value of a counter, if it is known.
    pub fn counter(&self, counter: Counter) -> Option<u64> {
        self.known.contains(counter.slot_name()).then(|| self.reading.counters.get(counter))
    }
}

/// Follows one job.
pub struct JobPoller {
    pub(super) root: Identity,
    pub(super) adopters: Vec<u32>,
    pub(super) processes: BTreeMap<Identity, Process>,
    /// What vanished processes did that no living one has taken over.
    left_behind: CounterValues,
    /// Counters only grow, whatever moves from one process to another meanwhile.
    highest: CounterValues,
    population: Population,
    memory: MemoryReading,
    /// The greatest sum of what those held at most that were there at one look or since the last.
    marks_peak: u64,
    is_io_hidden: bool,
    /// Why address spaces cannot be told apart, if they cannot.
    not_compared: Option<String>,
    /// Whether a process was seen that the kernel does not let wait for its children.
    has_unwaited: bool,
    ticks_per_second: u64,
    listing: ProcessListing,
}

impl JobPoller {
    /// Begins to follow the tree below `root`. Orphans that one of `adopters` takes in are of the
    /// job: name weigh itself here if it is a subreaper with no other children.
    pub fn new(root: u32, adopters: &[u32]) -> Result<JobPoller, PollError> {
        let failed = |source| PollError::Root { pid: root, source };
        let stat = process::read_stat(root).map_err(failed)?;
        Ok(JobPoller {
            root: Identity::of(&stat),
            adopters: adopters.to_vec(),
            processes: BTreeMap::new(),
            left_behind: CounterValues::default(),
            highest: CounterValues::default(),
            population: Population::default(),
            memory: MemoryReading::default(),
            marks_peak: 0,
            is_io_hidden: false,
            not_compared: spaces::why_not_compared(),
            has_unwaited: false,
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            listing: ProcessListing::new(root),
        })
    }

    /// Who the command is, and who adopts orphans.
    pub(crate) fn origin(&self) -> (Identity, Vec<u32>) {
        (self.root, self.adopters.clone())
    }

    /// Looks at the job now; `at_ns` is the time since its start.
    pub fn poll(&mut self, at_ns: u64) -> Result<Poll, PollError> {
        let stats = match self.is_over() {
            true => Vec::new(),
            false => {
                let known = self.processes.keys().map(|id| id.pid).collect();
                self.listing.look(&known).map_err(PollError::List)?
            }
        };
        let mut members =
            tree::members(&stats, self.root, &self.adopters, |id| self.processes.contains_key(&id));
        // Parents first, and a process that is gone by its turn counts as gone: then whatever a parent has
        // taken over by the time it is read is not counted with the child again.
        let mut in_order: Vec<&Stat> = members.values().copied().collect();
        in_order.sort_by_key(|stat| Identity::of(stat));
        let users = users_of_others(&in_order);
        for stat in in_order {
            let (tid, space_of) = users.get(&stat.pid).copied().unwrap_or((stat.pid, None));
            let process = self.processes.entry(Identity::of(stat)).or_insert_with(|| {
                self.population.processes_total += 1;
                Process::default()
            });
            if !process.look(stat, self.ticks_per_second, tid, space_of) {
                members.remove(&stat.pid);
            }
            self.is_io_hidden |= process.is_io_hidden();
            self.has_unwaited |= !process.waits_for_children();
        }
        let marks = self.processes.values().map(Process::rss_peak_bytes).sum();
        self.marks_peak = self.marks_peak.max(marks);
        let ended = self.part_with(&members, at_ns);
        self.sum_up(at_ns);
        let reading = JobReading {
            at_ns,
            counters: self.highest.clone(),
            population: self.population.clone(),
            memory: self.memory.clone(),
        };
        Ok(Poll { reading, known: self.known().map(Counter::slot_name).collect(), ended })
    }

    /// Whether nobody of the job can be left: all of them are children of weigh in the end, which adopts them, and it
    /// has none. What there is to list then is the rest of the machine.
    fn is_over(&self) -> bool {
        let adopts = self.adopters.contains(&std::process::id());
        let is_there = |stat: Stat| Identity::of(&stat) == self.root;
        let was_seen = self.population.processes_total > 0;
        adopts
            && was_seen
            && has_no_children()
            && !process::read_stat(self.root.pid).is_ok_and(is_there)
    }

    /// The processes that were alive at the last poll.
    pub fn living(&self) -> Vec<u32> {
        let alive = self.processes.iter().filter(|(_, process)| process.is_alive());
        alive.map(|(id, _)| id.pid).collect()
    }

    /// Whether a process was seen that ignores the end of its children: the kernel keeps nowhere
    /// what those had used.
    pub fn has_unwaited(&self) -> bool {
        self.has_unwaited
    }

    /// What all processes together held at most, if none lived between two looks, and none grew
    /// after the last one that it saw.
    pub fn marks_peak(&self) -> u64 {
        self.marks_peak
    }

    /// The rows of processes that have not ended, as they were last seen.
    pub fn remaining(&self) -> Vec<ProcessEnd> {
        let unreported = self.processes.iter().filter(|(_, p)| !p.is_end_reported);
        unreported
            .map(|(id, process)| {
                let since_root = id.start_ticks.saturating_sub(self.root.start_ticks);
                let started = process::nanoseconds(since_root, self.ticks_per_second);
                ProcessEnd { ended_ns: None, ..process.end(*id, started, started) }
            })
            .collect()
    }

    /// How the collector fares.
    pub fn status(&self) -> CollectorStatus {
        let mut reason =
            "polled: what happens between two polls is missed, peaks of memory too".to_owned();
        if self.is_io_hidden {
            reason += "; the I/O of some processes is hidden from this user";
        }
        if let Some(why) = &self.not_compared {
            reason += "; ";
            reason += why;
        }
        CollectorStatus::new(INFO.name, Mechanism::Proc, CollectorState::Degraded, Some(reason))
    }

    /// Why processes that share one address space count once each; none where they can be told apart.
    pub fn not_compared(&self) -> Option<&str> {
        self.not_compared.as_deref()
    }

    fn known(&self) -> impl Iterator<Item = Counter> + '_ {
        let io = procfs::IO_COUNTERS.iter().filter(|_| !self.is_io_hidden);
        process::STAT_COUNTERS.iter().chain(io).copied()
    }

    /// Takes out those that have vanished and keeps what nobody has taken over.
    fn part_with(&mut self, members: &BTreeMap<u32, &Stat>, at_ns: u64) -> Vec<ProcessEnd> {
        let is_here =
            |id: &Identity| members.get(&id.pid).is_some_and(|s| s.start_ticks == id.start_ticks);
        let (here, gone): (BTreeMap<Identity, Process>, BTreeMap<Identity, Process>) =
            std::mem::take(&mut self.processes).into_iter().partition(|(id, _)| is_here(id));
        self.processes = here;
        let root_ticks = self.root.start_ticks;
        let per_second = self.ticks_per_second;
        let row = |id: &Identity, process: &Process| {
            let since_root = id.start_ticks.saturating_sub(root_ticks);
            process.end(*id, process::nanoseconds(since_root, per_second), at_ns)
        };
        let mut ended = Vec::new();
        for (id, process) in &gone {
            if !self.is_taken_over(process, &gone) {
                process.add_tree_to(&mut self.left_behind);
            }
            if !process.is_end_reported {
                ended.push(row(id, process));
            }
            self.note_child_of(process);
        }
        // A zombie has ended, though its counts stay with it until it is waited for.
        for (id, process) in &mut self.processes {
            if !process.is_alive() && !process.is_end_reported {
                ended.push(row(id, process));
                process.is_end_reported = true;
            }
        }
        ended
    }

    /// Whether a process of the job that is still there has waited for a vanished one: then the
    /// kernel has added its counts to that one's.
    fn is_taken_over(&self, process: &Process, gone: &BTreeMap<Identity, Process>) -> bool {
        let mut parent = process.parent_pid();
        // A chain of vanished parents ends; the bound is for parents that are each other's.
        for _ in 0..=gone.len() {
            if let Some((_, alive)) = self.processes.iter().find(|(id, _)| id.pid == parent) {
                return alive.waits_for_children();
            }
            match gone.iter().find(|(id, _)| id.pid == parent) {
                Some((_, dead)) if dead.waits_for_children() => parent = dead.parent_pid(),
                _ => return false,
            }
        }
        false
    }

    /// So that a parent's own I/O can be told from that of the children it has waited for.
    fn note_child_of(&mut self, child: &Process) {
        let parent = child.parent_pid();
        if let Some((_, alive)) = self.processes.iter_mut().find(|(id, _)| id.pid == parent) {
            alive.note_waited_for(child);
        }
    }

    fn sum_up(&mut self, at_ns: u64) {
        let mut counters = self.left_behind.clone();
        let (mut processes, mut threads) = (0, 0);
        let (mut rss, mut swap, mut virtual_size, mut largest) = (0, 0, 0, 0);
        let (mut spaces, mut hugetlb, mut common) = (0, 0, 0);
        let mut parts = MemoryParts::default();
        for (id, process) in &self.processes {
            process.add_tree_to(&mut counters);
            if process.is_alive() {
                processes += 1;
                threads += process.threads();
            }
            // Memory of another process is looked at there.
            if process.space(*id) != *id || process.rss_bytes() == 0 {
                continue;
            }
            let own = process.parts(process.own_bytes(*id == self.root));
            parts.anonymous += own.anonymous;
            parts.unshared += own.unshared;
            parts.shared += own.shared;
            parts.file += own.file;
            common = common.max(own.shared + own.file);
            spaces += 1;
            rss += process.rss_bytes();
            swap += process.swap_bytes();
            hugetlb += process.hugetlb_bytes();
            virtual_size += process.virtual_bytes();
            largest = largest.max(process.rss_bytes());
        }
        let held = |(id, process): (&Identity, &Process)| {
            (process.image(), process.certain(*id == self.root))
        };
        let certain = || CertainSums::of_images(self.processes.iter().map(held));
        let certain = self.not_compared.is_some().then(certain);
        let peaks = self.processes.values().map(Process::rss_peak_bytes);
        self.memory.process_peak = peaks.fold(self.memory.process_peak, u64::max);
        self.highest = counters.at_least(&self.highest);
        let population = &mut self.population;
        // What was seen as a zombie alone has lived, too.
        let one = u64::from(population.processes_total > 0);
        population.processes = processes;
        population.processes_peak = population.processes_peak.max(processes).max(one);
        population.threads = threads;
        population.threads_peak = population.threads_peak.max(threads).max(one);
        let memory = &mut self.memory;
        if rss > memory.rss_sum_peak {
            (memory.rss_sum_peak, memory.rss_sum_peak_at_ns) = (rss, at_ns);
            (memory.spaces_at_peak, memory.parts_at_peak) = (spaces, Some(parts));
        }
        (memory.rss_sum, memory.swap, memory.virtual_size) = (rss, swap, virtual_size);
        memory.spaces = spaces;
        memory.hugetlb_peak = memory.hugetlb_peak.max(hugetlb);
        // Pages can only be shared through a file, through shared memory, or by a fork.
        let unshared = certain.as_ref().map_or(parts.unshared, |certain| certain.unshared);
        memory.floor = largest.max(unshared + common).min(rss);
        memory.certain = certain.map(|now| now.peaks(memory.certain.as_ref(), largest));
        memory.floor_peak = memory.floor_peak.max(memory.floor);
        memory.likely_peak = memory.floor_peak;
        memory.swap_peak = memory.swap_peak.max(swap);
        memory.virtual_peak = memory.virtual_peak.max(virtual_size);
    }
}

/// Of the processes of a look, those that have to be looked at by another thread than their first one, or that use the
/// memory of one before them: by which thread, and of whom.
fn users_of_others(in_order: &[&Stat]) -> HashMap<u32, (u32, Option<Identity>)> {
    let alive: Vec<&Stat> = in_order.iter().copied().filter(|stat| has_memory(stat)).collect();
    let tids: Vec<u32> = alive.iter().map(|stat| process::thread_with_memory(stat)).collect();
    let first = spaces::first_of_each(&tids);
    let of = |place: usize| {
        let user = (first[place] != place).then(|| Identity::of(alive[first[place]]));
        (alive[place].pid, (tids[place], user))
    };
    (0..alive.len()).map(of).collect()
}

/// Whether a process has an address space, perhaps by threads that outlived its first one.
fn has_memory(stat: &Stat) -> bool {
    stat.virtual_bytes > 0 || stat.threads > 1
}
