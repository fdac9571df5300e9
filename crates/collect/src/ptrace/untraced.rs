//! The part of the job that is not traced: programs that trace others themselves, and what the
//! kernel was told to keep from the tracer (`CLONE_UNTRACED`).
//!
//! Looks at `/proc` now and then, as [`JobPoller`] does; emits what was seen.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use weigh_schema::CounterValues;
use weigh_schema::event::{Event, JobReading, ProcessEnd};

use super::files::Files;
use super::job::Untraced;
use super::tracer::Shared;
use crate::poll::JobPoller;

/// Time between looks at those that are not traced.
const BETWEEN_POLLS: Duration = Duration::from_millis(50);

/// Time between searches for some that nobody told of.
const BETWEEN_SEARCHES: Duration = Duration::from_millis(500);

struct Tree {
    root: Untraced,
    poller: Option<JobPoller>,
    last: JobReading,
}

/// All parts that are not traced.
pub struct UntracedTrees {
    trees: Vec<Tree>,
    next_poll: Instant,
    next_search: Instant,
    /// When the last of them was seen to have ended.
    pub ended_ns: Option<u64>,
}

impl UntracedTrees {
    /// None so far.
    pub fn new() -> UntracedTrees {
        let now = Instant::now();
        UntracedTrees {
            trees: Vec::new(),
            next_poll: now + BETWEEN_POLLS,
            next_search: now + BETWEEN_SEARCHES,
            ended_ns: None,
        }
    }

    /// When to look again.
    pub fn next(&self) -> Instant {
        if self.trees.is_empty() { self.next_search } else { self.next_poll.min(self.next_search) }
    }

    /// Looks at those that are known, takes over those that were let go, and searches for others.
    pub fn look(&mut self, shared: &Shared, files: &mut Files, events: &mut VecDeque<Event>) {
        let (let_go, at_ns) = {
            let mut job = shared.job();
            (std::mem::take(&mut job.let_go), job.now_ns())
        };
        let is_news = !let_go.is_empty();
        for root in let_go {
            self.follow(root, at_ns, events);
        }
        let now = Instant::now();
        if now >= self.next_search {
            self.next_search = now + BETWEEN_SEARCHES;
            self.search(shared, files, events);
        }
        if !is_news && now < self.next_poll {
            return;
        }
        self.next_poll = now + BETWEEN_POLLS;
        let had_living = self.processes() > 0;
        for tree in &mut self.trees {
            let Some(poll) = tree.poller.as_mut().and_then(|p| p.poll(at_ns).ok()) else {
                continue;
            };
            tree.last = poll.reading;
            tell_of_ends(poll.ended, tree.root.row.started_ns, events);
        }
        if had_living && self.processes() == 0 {
            self.ended_ns = Some(at_ns);
        }
    }

    fn follow(&mut self, root: Untraced, at_ns: u64, events: &mut VecDeque<Event>) {
        let mut poller = JobPoller::new(root.pid, &[]).ok();
        let first = poller.as_mut().and_then(|poller| poller.poll(at_ns).ok());
        let first = first.filter(|poll| poll.reading.population.processes_total > 0);
        let Some(first) = first else {
            // Gone already: what was known when it was let go is all there is.
            let mut last = JobReading { counters: root.row.counters.clone(), ..Default::default() };
            last.population.processes_total = 1;
            let row = ProcessEnd { ended_ns: Some(at_ns), ..root.row.clone() };
            events.push_back(Event::ProcessEnd(Box::new(row)));
            self.ended_ns = Some(at_ns);
            self.trees.push(Tree { root, poller: None, last });
            return;
        };
        tell_of_ends(first.ended, root.row.started_ns, events);
        if first.reading.population.processes == 0 {
            self.ended_ns = Some(at_ns);
        }
        self.trees.push(Tree { root, poller, last: first.reading });
    }

    /// A process that is a child of a traced one, or of weigh, and is not traced.
    fn search(&mut self, shared: &Shared, files: &mut Files, events: &mut VecDeque<Event>) {
        let (threads, mut known): (Vec<(u32, u32)>, HashSet<u32>) = {
            let job = shared.job();
            let threads = job.threads.iter().map(|(tid, thread)| (thread.process, *tid)).collect();
            (threads, job.children_before.iter().copied().chain([job.main]).collect())
        };
        let own = std::process::id();
        known.extend(threads.iter().map(|(_, tid)| *tid));
        for (pid, tid) in threads.into_iter().chain([(own, own)]) {
            for child in files.children(pid, tid) {
                let is_followed = known.contains(&child)
                    || self.living().contains(&child)
                    || shared.job().threads.contains_key(&child);
                let status = (!is_followed).then(|| files.status_of(child)).flatten();
                if status.is_some_and(|s| s.tracer == Some(0) && s.rss_bytes.is_some()) {
                    let program = std::fs::read_link(format!("/proc/{child}/exe"));
                    let at_ns = shared.job().now_ns();
                    let row = ProcessEnd {
                        pid: child,
                        parent_pid: pid,
                        started_ns: at_ns,
                        ..Default::default()
                    };
                    let program = program.unwrap_or_default();
                    let why = "was created with CLONE_UNTRACED";
                    self.follow(Untraced { pid: child, program, why, row }, at_ns, events);
                }
            }
        }
    }

    /// How many of them live.
    pub fn processes(&self) -> u64 {
        self.trees.iter().map(|tree| tree.last.population.processes).sum()
    }

    /// Which ones live.
    pub fn living(&self) -> Vec<u32> {
        self.trees.iter().filter_map(|t| t.poller.as_ref()).flat_map(JobPoller::living).collect()
    }

    /// The rows of those that have not ended.
    pub fn remaining(&self) -> Vec<ProcessEnd> {
        self.trees.iter().filter_map(|t| t.poller.as_ref()).flat_map(JobPoller::remaining).collect()
    }

    /// Adds what they have to a reading.
    pub fn add_to(&self, reading: &mut JobReading) {
        for JobReading { counters, population, memory, .. } in self.trees.iter().map(|t| &t.last) {
            add(&mut reading.counters, counters);
            let sum = &mut reading.population;
            sum.processes += population.processes;
            sum.processes_total += population.processes_total;
            sum.threads += population.threads;
            sum.processes_peak = sum.processes_peak.max(sum.processes);
            sum.threads_peak = sum.threads_peak.max(sum.threads);
            let sums = &mut reading.memory;
            sums.spaces += memory.spaces;
            sums.spaces_at_peak += memory.spaces_at_peak;
            sums.likely_peak = sums.likely_peak.max(memory.likely_peak);
            sums.hugetlb_peak = sums.hugetlb_peak.max(memory.hugetlb_peak);
            sums.rss_sum += memory.rss_sum;
            sums.swap += memory.swap;
            sums.virtual_size += memory.virtual_size;
            sums.rss_sum_peak += memory.rss_sum_peak;
            sums.floor_peak = sums.floor_peak.max(memory.floor_peak);
            sums.process_peak = sums.process_peak.max(memory.process_peak);
            sums.swap_peak = sums.swap_peak.max(memory.swap_peak).max(sums.swap);
            sums.virtual_peak = sums.virtual_peak.max(memory.virtual_peak).max(sums.virtual_size);
        }
    }

    /// What the user should know of each.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self
            .trees
            .iter()
            .map(|tree| {
                format!(
                    "{} {}, so it and its descendants were not traced but looked at in /proc every \
                     {} ms: processes that came and went in between are missing",
                    tree.root.program.display(),
                    tree.root.why,
                    BETWEEN_POLLS.as_millis()
                )
            })
            .collect();
        reasons.dedup();
        reasons
    }
}

/// The poller counts time from the start of its first process.
fn tell_of_ends(ended: Vec<ProcessEnd>, root_started_ns: u64, events: &mut VecDeque<Event>) {
    events.extend(ended.into_iter().map(|end| {
        let started_ns = end.started_ns + root_started_ns;
        Event::ProcessEnd(Box::new(ProcessEnd { started_ns, ..end }))
    }));
}

/// Adds counters to others.
pub fn add(to: &mut CounterValues, more: &CounterValues) {
    for &counter in weigh_schema::Counter::ALL {
        to.set(counter, to.get(counter) + more.get(counter));
    }
}
