//! Membership of the job: a pure function over what `/proc` showed.

use std::collections::BTreeMap;

use super::identity::Identity;
use crate::procfs::Stat;

/// The members of the job by PID: those known from before, the root, children of members, and
/// children of adopters that are no older than the job.
pub fn members<'a>(
    stats: &'a [Stat],
    root: Identity,
    adopters: &[u32],
    is_known: impl Fn(Identity) -> bool,
) -> BTreeMap<u32, &'a Stat> {
    let mut sorted: Vec<&Stat> = stats.iter().collect();
    sorted.sort_by_key(|s| Identity::of(s));
    let mut members: BTreeMap<u32, &Stat> = BTreeMap::new();
    // Parents are older than their children, to the clock tick: within one tick PIDs may have
    // wrapped around, so look again until nobody is added.
    loop {
        let before = members.len();
        for stat in &sorted {
            let id = Identity::of(stat);
            let is_member = id == root
                || is_known(id)
                || members
                    .get(&stat.parent_pid)
                    .is_some_and(|parent| parent.start_ticks <= stat.start_ticks)
                || (adopters.contains(&stat.parent_pid) && stat.start_ticks >= root.start_ticks);
            if is_member {
                members.insert(stat.pid, stat);
            }
        }
        if members.len() == before {
            return members;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, parent_pid: u32, start_ticks: u64) -> Stat {
        Stat {
            pid,
            name: String::new(),
            state: 'S',
            parent_pid,
            minor_faults: 0,
            child_minor_faults: 0,
            major_faults: 0,
            child_major_faults: 0,
            user_ticks: 0,
            system_ticks: 0,
            child_user_ticks: 0,
            child_system_ticks: 0,
            threads: 1,
            start_ticks,
            virtual_bytes: 0,
            rss_pages: 0,
            image: None,
            is_laid_out: None,
            exit_code: None,
        }
    }

    fn found(stats: &[Stat], adopters: &[u32], known: &[(u32, u64)]) -> Vec<u32> {
        let root = Identity { pid: 10, start_ticks: 100 };
        let known: Vec<Identity> =
            known.iter().map(|&(pid, start_ticks)| Identity { pid, start_ticks }).collect();
        members(stats, root, adopters, |id| known.contains(&id)).into_keys().collect()
    }

    #[test]
    fn children_of_children_belong() {
        let stats = [
            stat(1, 0, 0),
            stat(10, 5, 100),
            stat(11, 10, 101),
            stat(12, 11, 102),
            stat(20, 1, 103),
            stat(5, 1, 50),
        ];
        assert_eq!(found(&stats, &[], &[]), [10, 11, 12]);
    }

    #[test]
    fn within_one_tick_a_child_may_have_the_lower_pid() {
        let stats = [stat(4, 3, 100), stat(3, 2, 100), stat(2, 10, 100), stat(10, 1, 100)];
        assert_eq!(found(&stats, &[], &[]), [2, 3, 4, 10]);
    }

    #[test]
    fn the_known_stay_when_they_are_adopted() {
        let stats = [stat(10, 5, 100), stat(30, 1, 120), stat(31, 30, 121)];
        assert_eq!(found(&stats, &[], &[(30, 120)]), [10, 30, 31]);
        assert_eq!(found(&stats, &[], &[(30, 119)]), [10], "another process with that PID");
    }

    #[test]
    fn a_reused_root_is_not_the_root() {
        assert!(found(&[stat(10, 5, 900), stat(11, 10, 901)], &[], &[]).is_empty());
    }

    #[test]
    fn an_adopter_s_children_belong_if_they_are_young_enough() {
        let stats = [stat(5, 1, 50), stat(6, 5, 60), stat(10, 5, 100), stat(40, 5, 130)];
        assert_eq!(found(&stats, &[5], &[]), [10, 40]);
    }
}
