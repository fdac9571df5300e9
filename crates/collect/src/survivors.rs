//! The living processes of a job whose follower is lost.
//!
//! Reads `/proc`. Emits PIDs, and what wait4(2) knows of those that were waited for. What they do is
//! not looked at.

use std::collections::BTreeSet;

use weigh_schema::CounterValues;

use crate::poll::identity::Identity;
use crate::poll::listing::list_processes;
use crate::poll::tree;
use crate::{procfs, rusage};

/// The processes of a job, as far as they were told of.
#[derive(Debug)]
pub struct Survivors {
    root: Identity,
    known: BTreeSet<Identity>,
    before: CounterValues,
}

impl Survivors {
    /// Of the job that begins with that process; none if it is gone.
    pub fn of(root: u32) -> Option<Survivors> {
        let root = identity(root)?;
        Some(Survivors { root, known: BTreeSet::new(), before: rusage::waited().counters })
    }

    /// Takes note of processes that are alive, so that they are known when nobody tells of them any
    /// more.
    pub fn note(&mut self, living: impl IntoIterator<Item = u32>) {
        let mut known = BTreeSet::new();
        for pid in living {
            let before = self.known.iter().find(|id| id.pid == pid).copied();
            known.extend(before.or_else(|| identity(pid)));
        }
        self.known = known;
    }

    /// From now on weigh adopts the job's orphans: nobody else tells of them.
    pub fn adopt(&self) {
        rusage::adopt_orphans();
    }

    /// Living processes: those that it knew, and their descendants.
    pub fn living(&mut self) -> Vec<u32> {
        // Where /proc cannot be read no process is waited for.
        let stats = list_processes().unwrap_or_default();
        let adopters = [std::process::id()];
        let members = tree::members(&stats, self.root, &adopters, |id| self.known.contains(&id));
        let living = members.values().filter(|stat| !matches!(stat.state, 'Z' | 'X'));
        self.known = living.map(|stat| Identity::of(stat)).collect();
        self.known.iter().map(|id| id.pid).collect()
    }

    /// What those have used that weigh has waited for, where that is more than was known.
    pub fn add_to(&self, counters: &mut CounterValues) {
        let waited = rusage::waited().counters;
        for counter in rusage::COUNTERS {
            let used = waited.get(counter).saturating_sub(self.before.get(counter));
            counters.set(counter, used.max(counters.get(counter)));
        }
    }
}

fn identity(pid: u32) -> Option<Identity> {
    let stat = procfs::read_of(pid, "stat").ok()?;
    procfs::parse_stat(&stat).map(|stat| Identity::of(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives_on_is_found_and_who_has_ended_is_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut remains = Survivors::of(child.id()).unwrap();
        remains.note([child.id(), 1]);
        assert!(remains.living().contains(&child.id()));
        assert!(remains.living().contains(&1), "one that was told of, whatever its parent is");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!remains.living().contains(&child.id()));
    }
}
