//! Callers: the kernel names a thread, accounts name its process.
//!
//! Reads `/proc`. A number is given to another thread only after all others were; what is known of one is
//! believed for a moment, and then looked up again. What a process asked for is kept until it is handed over:
//! it begins anew when it asks again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weigh_schema::io::Process;

/// So long a thread's number is taken to mean the same thread.
const BELIEVED_NS: u64 = 50_000_000;
/// More threads than this are not remembered.
const MOST: usize = 65_536;

/// Threads and processes that have asked for something.
#[derive(Debug)]
pub struct Processes {
    known: Mutex<ProcessTable>,
    /// Clock ticks since the machine was started, when this began.
    began: u64,
    tick_ns: u64,
}

#[derive(Debug, Default)]
struct ProcessTable {
    threads: HashMap<u32, (u32, u64)>,
    processes: HashMap<u32, Process>,
}

/// What `/proc` says of a process.
struct ProcStatus {
    process: u32,
    parent: u32,
    name: String,
    started: u64,
}

impl Processes {
    /// Nobody yet.
    pub fn new() -> Processes {
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let tick_ns = 1_000_000_000 / ticks;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let began = (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64) / tick_ns;
        Processes { known: Mutex::default(), began, tick_ns }
    }

    fn known_now(&self) -> MutexGuard<'_, ProcessTable> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of a thread.
    pub fn of(&self, thread: u32, now: u64) -> u32 {
        if thread == 0 {
            return 0;
        }
        {
            let known = self.known_now();
            if let Some((process, at)) = known.threads.get(&thread)
                && now.saturating_sub(*at) < BELIEVED_NS
                // What was handed over is looked at again: else it would have no name.
                && known.processes.contains_key(process)
            {
                return *process;
            }
        }
        let told = look(thread);
        let mut known = self.known_now();
        let Some(told) = told else {
            // It is gone already: what was known of it holds.
            return known.threads.get(&thread).map_or(thread, |(process, _)| *process);
        };
        if known.threads.len() >= MOST {
            known.threads.clear();
        }
        known.threads.insert(thread, (told.process, now));
        let process = told.process;
        let started_ns = (told.started.saturating_sub(self.began) * self.tick_ns).max(1);
        let entry = known.processes.entry(process).or_default();
        // What it is called changes when it executes a program.
        entry.name = told.name;
        (entry.pid, entry.parent, entry.started_ns) = (process, told.parent, started_ns);
        process
    }

    /// The process of a thread that has asked before, without a look at it: one that executes a program or
    /// takes a page in holds locks, and a reader of its /proc files then waits for what it waits for.
    pub fn known_of(&self, thread: u32) -> Option<u32> {
        self.known_now().threads.get(&thread).map(|(process, _)| *process)
    }

    /// A process named a file by its path, and opened nothing.
    pub fn path_call(&self, pid: u32, took: u64) {
        let mut known = self.known_now();
        let process = known.processes.entry(pid).or_default();
        process.pid = pid;
        process.path_calls += 1;
        process.path_ns += took;
    }

    /// A process could not open what it wanted to.
    pub fn failed_open(&self, pid: u32) {
        let mut known = self.known_now();
        let process = known.processes.entry(pid).or_default();
        process.pid = pid;
        process.failed_opens += 1;
    }

    /// What they asked for since the last time, if there are so many of them: they are forgotten.
    pub fn asked(&self, many: usize) -> Vec<Process> {
        let mut known = self.known_now();
        if known.processes.len() < many {
            return Vec::new();
        }
        std::mem::take(&mut known.processes).into_values().collect()
    }

    /// The same, and it is kept.
    pub fn asked_so_far(&self) -> Vec<Process> {
        self.known_now().processes.values().cloned().collect()
    }
}

fn look(thread: u32) -> Option<ProcStatus> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|value| value.trim().parse::<u32>().ok())
    };
    let (process, parent) = (value("Tgid:")?, value("PPid:")?);
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (name, started) = named(&stat)?;
    Some(ProcStatus { process, parent, name, started })
}

/// Name and start of a process; its name may have any character.
fn named(stat: &str) -> Option<(String, u64)> {
    let (head, tail) = stat.rsplit_once(") ")?;
    let (_, name) = head.split_once('(')?;
    Some((name.to_string(), tail.split(' ').nth(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_its_process() {
        let processes = Processes::new();
        let own = std::process::id();
        let thread = || rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (other, found) = std::thread::scope(|scope| {
            let look = || (thread(), processes.of(thread(), 0));
            scope.spawn(look).join().expect("it ran")
        });
        assert_ne!(other, own);
        assert_eq!(found, own);
        assert_eq!(processes.of(0, 0), 0);
        let known = processes.asked_so_far();
        assert_eq!((known.len(), known[0].pid), (1, own));
        assert_eq!(known[0].parent, std::os::unix::process::parent_id());
    }

    #[test]
    fn what_was_asked_for_is_handed_over_once_and_begins_anew() {
        let processes = Processes::new();
        let (own, thread) = (std::process::id(), rustix::thread::gettid());
        let thread = thread.as_raw_nonzero().get() as u32;
        let ask = |times: u64| {
            (0..times).for_each(|_| processes.path_call(processes.of(thread, 0), 7));
        };
        ask(3);
        assert!(processes.asked(2).is_empty(), "there is one");
        let first = processes.asked(1);
        assert_eq!((first.len(), first[0].pid, first[0].path_calls), (1, own, 3));
        assert!(processes.asked_so_far().is_empty());
        ask(2);
        let second = processes.asked(0);
        assert_eq!((second[0].path_calls, second[0].path_ns), (2, 14));
        assert!(!second[0].name.is_empty(), "it is looked at again");
        assert_eq!(second[0].started_ns, first[0].started_ns);
    }

    #[test]
    fn a_name_may_have_any_character() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 2 3";
        assert_eq!(named(stat), Some(("a) b (c".to_string(), 4711)));
    }
}
