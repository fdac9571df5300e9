//! Which processes there are. Everybody is listed once a second; in between it is those that are known, and those that
//! the kernel has given a number since.
//!
//! Reads the number that was given out last and `stat` of processes; emits [`Stat`]s. Where that number is not to be
//! trusted (`/proc/loadavg` is not the kernel's) everybody is listed each time.

use std::collections::BTreeSet;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::procfs::{self, Stat};

/// From one listing of everybody to the next, at most.
const APART: Duration = Duration::from_secs(1);

/// With more new numbers than that a listing is no slower.
const MANY: u32 = 32;

/// The processes of a machine, look by look.
pub(super) struct ProcessListing {
    is_number_trusted: bool,
    /// The number that was given out last before each of the last two listings: a process that was about to appear at
    /// one of them is looked for until the next but one.
    newest: [Option<u32>; 2],
    listed: Option<Instant>,
}

impl ProcessListing {
    /// Nothing was listed yet; `youngest` has just got its number.
    pub fn new(youngest: u32) -> ProcessListing {
        let is_number_trusted = newest_pid().is_some_and(|newest| newest >= youngest);
        ProcessListing { is_number_trusted, newest: [None; 2], listed: None }
    }

    /// `stat` of everybody, or of all that are `known` or new.
    pub fn look(&mut self, known: &BTreeSet<u32>) -> io::Result<Vec<Stat>> {
        let newest = newest_pid().filter(|_| self.is_number_trusted);
        let Some(numbers) = self.new_numbers(newest) else {
            self.newest = [self.newest[1], newest];
            self.listed = Some(Instant::now());
            return list_processes();
        };
        // Threads have numbers, too.
        let new = numbers.filter(|pid| !known.contains(pid) && open(*pid).is_some());
        Ok(known.iter().copied().chain(new).filter_map(read).collect())
    }

    /// The numbers that may be of new processes; none if everybody has to be listed.
    fn new_numbers(&self, newest: Option<u32>) -> Option<RangeInclusive<u32>> {
        let (since, newest) = (self.newest[0]?, newest?);
        let is_recent = self.listed?.elapsed() < APART;
        (is_recent && newest >= since && newest - since <= MANY).then(|| since + 1..=newest)
    }
}

/// `stat` of every process that can be seen.
pub(crate) fn list_processes() -> io::Result<Vec<Stat>> {
    let mut stats = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Ok(entry) = entry else { break };
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        // Those that vanish in between, or are hidden, are not there.
        stats.extend(read(pid));
    }
    Ok(stats)
}

/// The number that was given to a process or a thread last.
pub(crate) fn newest_pid() -> Option<u32> {
    let mut text = [0; 128];
    let length = read_into("/proc/loadavg", &mut text)?;
    std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// A descriptor of a process; none for the number of a thread.
pub(crate) fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()
}

/// `stat` of a process.
pub(crate) fn read(pid: u32) -> Option<Stat> {
    let mut text = [0; 1024];
    let length = read_into(&format!("/proc/{pid}/stat"), &mut text)?;
    procfs::parse_stat(&text[..length])
}

/// Reads a short file by one call.
pub(crate) fn read_into(path: &str, text: &mut [u8]) -> Option<usize> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    rustix::io::read(&file, text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(newest: [Option<u32>; 2]) -> ProcessListing {
        ProcessListing { is_number_trusted: true, newest, listed: Some(Instant::now()) }
    }

    #[test]
    fn numbers_since_the_listing_before_the_last_are_looked_at() {
        let numbers = |before, newest| {
            listing([before, Some(100)]).new_numbers(newest).map(Iterator::collect::<Vec<u32>>)
        };
        assert_eq!(numbers(Some(97), Some(100)), Some(vec![98, 99, 100]));
        assert_eq!(numbers(Some(100), Some(100)), Some(vec![]), "nobody is new");
        assert_eq!(numbers(None, Some(100)), None, "listed once");
        assert_eq!(numbers(Some(90), Some(123)), None, "too many");
        assert_eq!(numbers(Some(90), Some(89)), None, "numbers begin anew");
        assert_eq!(numbers(Some(90), None), None, "nobody knows");
        let old = Instant::now().checked_sub(APART).expect("the machine runs for a second");
        let late = ProcessListing { listed: Some(old), ..listing([Some(90), Some(100)]) };
        assert_eq!(late.new_numbers(Some(100)), None, "it is long ago");
    }

    /// Children are found at the first look after they were made; threads are nobody.
    #[test]
    fn who_is_new_is_found_without_a_listing() {
        let own = std::process::id();
        let mut listing = ProcessListing::new(own);
        assert!(listing.is_number_trusted);
        let known = BTreeSet::from([own]);
        for _ in 0..2 {
            let all = listing.look(&known).expect("a listing");
            assert!(all.len() > 1 && all.iter().any(|stat| stat.pid == own));
        }
        let thread = std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            assert!(open(tid).is_none());
            std::thread::sleep(Duration::from_millis(100));
        });
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        // Other tests make processes, too: then it is a listing, which finds it as well.
        let found = listing.look(&known).expect("a look");
        assert!(found.iter().any(|stat| stat.pid == child.id() && stat.parent_pid == own));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        thread.join().expect("it ends");
    }
}
