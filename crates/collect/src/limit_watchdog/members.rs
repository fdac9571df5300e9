//! Members of the job, and what they hold: with as little reading as will do.
//!
//! Reads the number that the kernel gave to a process last, `stat` of those that have got a number
//! since, and, where memory matters, `statm` of each member. Emits [`Sums`]. A count is an upper
//! bound until it would pass a limit; then the members are looked at one by one, and memory is
//! counted by address space. What it misses (who was made by one that nobody met), it finds when it looks at everybody, now and then.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::poll::freeze::{Crowd, is_alive};
use crate::poll::identity::Identity;
use crate::poll::listing::{list_processes, newest_pid, read, read_into};
use crate::poll::poller::JobPoller;
use crate::poll::tree;
use crate::procfs::Stat;
use crate::spaces;

/// With more new numbers than that it is quicker to look who is there.
const MANY: u32 = 2_000;

/// So long after its number was given out a process can be about to appear.
const UNBORN: Duration = Duration::from_millis(10);

/// As often as that everybody is looked at, where numbers were given out.
const EVERYBODY: Duration = Duration::from_millis(100);

/// In place of a process: the address space of a process of which cannot be said that it is no other's.
const ANYBODYS: u32 = 0;

/// What the job has, as far as was looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Processes that are alive.
    pub processes: u64,
    /// Their threads.
    pub threads: u64,
    /// The sum of their resident sizes.
    pub rss_sum: u64,
    /// A lower bound of what they hold, shared memory counted once.
    pub floor: u64,
    /// The greatest resident size.
    pub largest: u64,
}

struct Member {
    start_ticks: u64,
    threads: u64,
    /// Pages of its own that it may have in common with its parent, at most.
    inherited: Option<u64>,
}

/// The members of a job.
pub struct Members {
    root: Identity,
    adopters: Vec<u32>,
    all: BTreeMap<u32, Member>,
    is_memory_wanted: bool,
    are_compared: bool,
    page_bytes: u64,
    newest: Option<u32>,
    /// Numbers of which nobody was seen, and since when.
    unborn: Vec<(u32, Instant)>,
    /// Threads that may have been made since they were counted.
    new_threads: u64,
    met_everybody: Option<Instant>,
    is_everybody_due: bool,
}

impl Members {
    /// Those of the job that `poller` follows.
    pub fn new(poller: &JobPoller, is_memory_wanted: bool) -> Members {
        let (root, adopters) = poller.origin();
        Members {
            root,
            adopters,
            all: BTreeMap::new(),
            is_memory_wanted,
            are_compared: poller.not_compared().is_none(),
            page_bytes: rustix::param::page_size() as u64,
            newest: None,
            unborn: Vec::new(),
            new_threads: 0,
            met_everybody: None,
            is_everybody_due: true,
        }
    }

    /// All who are known, for who wants to stop them.
    pub fn crowd(&self) -> Crowd {
        let known: HashMap<u32, u64> =
            self.all.iter().map(|(pid, member)| (*pid, member.start_ticks)).collect();
        Crowd { root: self.root, adopters: self.adopters.clone(), known }
    }

    /// Looks at the job. Counts are exact if they are beyond these; memory is if `is_past` says that it is too much.
    pub fn look(
        &mut self,
        processes: Option<u64>,
        threads: Option<u64>,
        is_past: impl Fn(&Sums) -> bool,
    ) -> Sums {
        self.meet_new();
        let upper = self.all.len() as u64;
        let upper_threads = self.all.values().map(|m| m.threads).sum::<u64>() + self.new_threads;
        let is_beyond = |most: Option<u64>, upper| most.is_some_and(|most| upper > most);
        if is_beyond(processes, upper) || is_beyond(threads, upper_threads) {
            self.count();
        }
        let sums = self.sums(false);
        match is_past(&sums) && self.is_memory_wanted {
            true => self.sums(true),
            false => sums,
        }
    }

    /// Looks at everybody of the job.
    pub fn look_at_all(&mut self) -> Sums {
        self.meet_everybody();
        self.count();
        self.sums(true)
    }

    fn meet_new(&mut self) {
        let newest = newest_pid();
        let numbers = match (self.newest, newest) {
            (Some(before), Some(now)) if now >= before && now - before <= MANY => before + 1..=now,
            _ => {
                self.meet_everybody();
                return;
            }
        };
        self.newest = newest;
        self.is_everybody_due |= !numbers.is_empty();
        let is_time = self.met_everybody.is_none_or(|at| at.elapsed() > EVERYBODY);
        if self.is_everybody_due && is_time {
            self.meet_everybody();
            return;
        }
        let now = Instant::now();
        let mut unborn = std::mem::take(&mut self.unborn);
        unborn.retain(|(pid, since)| since.elapsed() < UNBORN && !self.meet(*pid));
        unborn.extend(numbers.filter(|pid| !self.meet(*pid)).map(|pid| (pid, now)));
        self.unborn = unborn;
    }

    /// Takes in a process if it is of the job; false if there is none of that number.
    fn meet(&mut self, pid: u32) -> bool {
        let Some(number) = Pid::from_raw(pid as i32) else { return true };
        // Threads have numbers, too.
        match pidfd_open(number, PidfdFlags::empty()) {
            Ok(_) => {}
            Err(Errno::SRCH) => return false,
            Err(_) => {
                self.new_threads += 1;
                return true;
            }
        }
        let Some(stat) = read(pid) else { return false };
        if self.has(&stat) {
            self.insert(&stat);
        }
        true
    }

    fn has(&self, stat: &Stat) -> bool {
        let is_young = stat.start_ticks >= self.root.start_ticks;
        Identity::of(stat) == self.root
            || is_young && self.adopters.contains(&stat.parent_pid)
            || self.all.get(&stat.parent_pid).is_some_and(|p| p.start_ticks <= stat.start_ticks)
    }

    fn insert(&mut self, stat: &Stat) {
        let Stat { pid, start_ticks, threads, .. } = *stat;
        // Nobody of the job forked the command.
        let inherited = (Identity::of(stat) == self.root).then_some(0);
        self.all.insert(pid, Member { start_ticks, threads, inherited });
    }

    fn meet_everybody(&mut self) {
        self.newest = newest_pid();
        let Ok(stats) = list_processes() else { return };
        let is_known = |id: Identity| {
            self.all.get(&id.pid).is_some_and(|member| member.start_ticks == id.start_ticks)
        };
        let members = tree::members(&stats, self.root, &self.adopters, is_known);
        self.all.retain(|pid, member| {
            members.get(pid).is_some_and(|stat| stat.start_ticks == member.start_ticks)
        });
        for (pid, stat) in members {
            if !self.all.contains_key(&pid) {
                self.insert(stat);
            }
        }
        self.met_everybody = Some(Instant::now());
        self.is_everybody_due = false;
    }

    /// Leaves out who has ended, and counts the threads of the others.
    fn count(&mut self) {
        self.new_threads = 0;
        self.all.retain(|pid, member| {
            let stat = read(*pid).filter(|stat| stat.start_ticks == member.start_ticks);
            let stat = stat.filter(is_alive);
            member.threads = stat.as_ref().map_or(0, |stat| stat.threads);
            stat.is_some()
        });
    }

    /// What it has; memory by address space, or by process, which is quicker and an upper bound.
    fn sums(&mut self, by_space: bool) -> Sums {
        let mut sums = Sums::default();
        if self.is_memory_wanted {
            let spaces = if by_space { self.spaces() } else { HashMap::new() };
            let held = self.held(&spaces);
            let apart =
                || held.iter().filter(|(space, _)| **space != ANYBODYS).map(|(_, held)| held);
            let own: u64 = apart().map(|held| held.own).sum();
            let common = held.values().map(|held| held.common).max().unwrap_or_default();
            sums.largest = held.values().map(|held| held.rss).max().unwrap_or_default();
            sums.rss_sum = apart().map(|held| held.rss).sum::<u64>().max(sums.largest);
            // Pages can only be shared through a file, through shared memory, or by a fork.
            sums.floor = sums.largest.max(own + common).min(sums.rss_sum);
        }
        sums.processes = self.all.len() as u64;
        sums.threads = self.all.values().map(|member| member.threads).sum();
        sums
    }

    /// What each address space holds, by the first process that uses it; those who have ended are left out from now on.
    fn held(&mut self, spaces: &HashMap<u32, (u32, u32)>) -> BTreeMap<u32, SpaceSize> {
        let mut all = BTreeMap::new();
        let page_bytes = self.page_bytes;
        self.all.retain(|pid, member| {
            let (tid, space) = spaces.get(pid).copied().unwrap_or((*pid, *pid));
            let Some((rss, shared)) = resident(*pid, tid) else { return tid != *pid };
            let anonymous = rss.saturating_sub(shared) * page_bytes;
            // It can only become less.
            let inherited = member.inherited.map_or(anonymous, |before| before.min(anonymous));
            member.inherited = Some(inherited);
            let held: &mut SpaceSize = all.entry(space).or_default();
            held.rss = held.rss.max(rss * page_bytes);
            held.own = held.own.max(anonymous - inherited);
            held.common = held.common.max(shared * page_bytes);
            true
        });
        all
    }

    /// Of each process a thread that has memory, and the first process with the same.
    fn spaces(&self) -> HashMap<u32, (u32, u32)> {
        let pids: Vec<u32> = self.all.keys().copied().collect();
        let tids: Vec<u32> = pids.iter().map(|pid| spaces::thread_with_memory(*pid)).collect();
        if !self.are_compared {
            return by_image(&pids, &tids);
        }
        let first = spaces::first_of_each(&tids);
        (0..pids.len()).map(|at| (pids[at], (tids[at], pids[first[at]]))).collect()
    }
}

/// The same where address spaces cannot be compared: processes that were not put at different places by an exec may
/// all use one.
fn by_image(pids: &[u32], tids: &[u32]) -> HashMap<u32, (u32, u32)> {
    let mut first = HashMap::new();
    let space = |(pid, tid): (&u32, &u32)| {
        let image = read(*tid).and_then(|stat| stat.image);
        let space = image.map_or(ANYBODYS, |image| *first.entry(image).or_insert(*pid));
        (*pid, (*tid, space))
    };
    pids.iter().zip(tids).map(space).collect()
}

/// What an address space holds, in bytes.
#[derive(Default)]
struct SpaceSize {
    rss: u64,
    /// What is certainly nobody else's.
    own: u64,
    /// What may be others' too: files and shared memory.
    common: u64,
}

/// The same of a process by a thread of it, or by another where that one has ended before others.
fn resident(pid: u32, tid: u32) -> Option<(u64, u64)> {
    let held = statm(tid)?;
    let has_others = || read(pid).is_some_and(|stat| stat.threads > 1);
    match held.0 == 0 && tid == pid && has_others() {
        true => Some(statm(spaces::thread_with_memory(pid)).unwrap_or(held)),
        false => Some(held),
    }
}

/// Resident pages of a process, and how many of them are files' or shared memory; none if it is
/// not there any more.
fn statm(pid: u32) -> Option<(u64, u64)> {
    let mut text = [0; 128];
    let length = read_into(&format!("/proc/{pid}/statm"), &mut text)?;
    let mut numbers = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().skip(1);
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}
