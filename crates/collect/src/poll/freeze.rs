//! Stopping a whole job from outside, faster than it can fork.
//!
//! Sends SIGSTOP to each known process of the job, then reads `stat` and nothing else of every
//! process that can be seen, in the order of their numbers, and sends it to the others; then of
//! those whose numbers are newer, as long as there are any; and again, until a pass finds no new
//! process and all have come to a stop: one that was in a fork when the signal came finishes that first.
//! A signal goes through a descriptor of the process that was opened before its `stat` was read:
//! if it arrives, it was that process. Gives up after a while; the caller can try again.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use super::identity::Identity;
use super::listing::{newest_pid, open, read};
use super::poller::JobPoller;
use crate::procfs::Stat;
use crate::signals;

/// So long it is tried, at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// With more new numbers than that it is quicker to look who is there.
const MANY: u32 = 10_000;

/// A process that was sent SIGSTOP.
struct Stopped {
    start_ticks: u64,
    parent_pid: u32,
    /// Whether it was seen to be in no fork any more.
    is_still: bool,
}

/// A job, as far as it is known to who wants to stop it.
pub(crate) struct Crowd {
    /// The command.
    pub root: Identity,
    /// The processes that adopt orphans of the job.
    pub adopters: Vec<u32>,
    /// Processes that were seen to be of the job: their numbers, and when they were started.
    pub known: HashMap<u32, u64>,
}

impl JobPoller {
    /// Sends signals to all processes of the job, and returns who they are. If they are to stop or to
    /// end, all are stopped first, so that nobody gets away by a fork.
    pub fn signal_all(&self, list: &[i32]) -> Vec<u32> {
        let known = self.processes.keys().map(|id| (id.pid, id.start_ticks)).collect();
        Crowd { root: self.root, adopters: self.adopters.clone(), known }.signal_all(list)
    }
}

impl Crowd {
    /// Stops all processes of the job, then sends them signals; returns who they are.
    pub fn signal_all(&self, list: &[i32]) -> Vec<u32> {
        let stopped = self.stop_all();
        for (pid, stopped) in &stopped {
            let process = open(*pid);
            let is_same = read(*pid).is_some_and(|stat| stat.start_ticks == stopped.start_ticks);
            let Some(process) = process.filter(|_| is_same) else { continue };
            for signal in list.iter().filter(|signal| **signal != libc::SIGSTOP) {
                let _ = signals::send(process.as_fd(), *signal);
            }
        }
        stopped.into_keys().collect()
    }

    /// Stops all processes of the job.
    fn stop_all(&self) -> HashMap<u32, Stopped> {
        let until = Instant::now() + PATIENCE;
        let mut stopped = HashMap::new();
        let mut newest = newest_pid();
        for pid in self.known.keys() {
            self.stop_one(*pid, &mut stopped);
        }
        while Instant::now() < until {
            // A process that was sent the signal can wait for its next look; one that was not cannot.
            let is_news = self.stop_more(&mut stopped);
            newest = self.stop_newer(newest, until, &mut stopped);
            if !is_news && !rest(&mut stopped) {
                break;
            }
        }
        stopped
    }

    /// One pass; whether it found anybody new.
    fn stop_more(&self, stopped: &mut HashMap<u32, Stopped>) -> bool {
        let Ok(entries) = std::fs::read_dir("/proc") else { return false };
        let mut is_news = false;
        for entry in entries {
            let Ok(entry) = entry else { break };
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            is_news |= self.stop_one(pid, stopped);
        }
        is_news
    }

    /// Those that were made since the newest one was that; returns who is now. They are few when a
    /// pass over all would be long, and their children are among them.
    fn stop_newer(
        &self,
        newest: Option<u32>,
        until: Instant,
        stopped: &mut HashMap<u32, Stopped>,
    ) -> Option<u32> {
        let mut last = newest?;
        while Instant::now() < until {
            let now = newest_pid()?;
            // Numbers begin anew: a pass over all finds these.
            if now <= last || now - last > MANY {
                return Some(now);
            }
            for pid in last + 1..=now {
                self.stop_one(pid, stopped);
            }
            last = now;
        }
        Some(last)
    }

    /// Stops a process if it is of the job, and was not sent the signal before.
    fn stop_one(&self, pid: u32, stopped: &mut HashMap<u32, Stopped>) -> bool {
        if stopped.contains_key(&pid) {
            return false;
        }
        // In this order: if the signal arrives, this is the process whose `stat` was read.
        let Some(process) = open(pid) else { return false };
        let Some(stat) = read(pid) else { return false };
        if !is_alive(&stat) || !self.has(&stat, stopped) {
            return false;
        }
        let is_sent = signals::send(process.as_fd(), libc::SIGSTOP).is_ok();
        if is_sent {
            let Stat { start_ticks, parent_pid, state, .. } = stat;
            stopped.insert(pid, Stopped { start_ticks, parent_pid, is_still: state == 'T' });
        }
        is_sent
    }

    fn has(&self, stat: &Stat, stopped: &HashMap<u32, Stopped>) -> bool {
        let is_young = stat.start_ticks >= self.root.start_ticks;
        Identity::of(stat) == self.root
            || self.known.get(&stat.pid) == Some(&stat.start_ticks)
            || stopped
                .get(&stat.parent_pid)
                .is_some_and(|parent| parent.start_ticks <= stat.start_ticks)
            || (is_young && self.adopters.contains(&stat.parent_pid))
    }
}

/// Whether a process runs: if only its first thread has ended, the others do.
pub(crate) fn is_alive(stat: &Stat) -> bool {
    !matches!(stat.state, 'Z' | 'X') || stat.threads > 1
}

/// Looks whether all have come to rest; whether there has to be another pass because somebody had
/// not when the last one began.
fn rest(stopped: &mut HashMap<u32, Stopped>) -> bool {
    let moving: Vec<u32> =
        stopped.iter().filter(|(_, one)| !one.is_still).map(|(pid, _)| *pid).collect();
    for pid in &moving {
        has_come_to_rest(*pid, stopped);
    }
    !moving.is_empty()
}

/// Notes whether a process that was sent SIGSTOP starts no other any more: it has stopped or ended, or it
/// waits in the kernel for a child that it has made with vfork(2).
fn has_come_to_rest(pid: u32, stopped: &mut HashMap<u32, Stopped>) {
    let is_still = match read(pid).map(|stat| stat.state) {
        None | Some('T' | 't' | 'Z' | 'X') => true,
        Some('D') => stopped.values().any(|one| one.parent_pid == pid),
        Some(_) => false,
    };
    if let Some(one) = stopped.get_mut(&pid) {
        one.is_still = is_still;
    }
}
