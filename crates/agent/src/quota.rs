//! How many places there are for what costs memory, and who may have one more.
//!
//! A user who holds places of a kind gets another one while it holds fewer than are free: so none takes all, and
//! later users find some. Root has places of its own. What all of them take together is held below the unit's
//! `MemoryMax` by a test.

use weigh_schema::library::{Followed, STREAMS_OF_A_USER};

/// Places of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotQuota {
    /// Of all users but root.
    pub of_users: usize,
    /// Of one of them at most.
    pub of_a_user: usize,
    /// Of root.
    pub of_root: usize,
}

impl SlotQuota {
    /// Whether a user may have one more, where these users hold one each.
    pub fn has_room(&self, user: u32, holders: impl Iterator<Item = u32>) -> bool {
        let (mut own, mut others) = (0, 0);
        for holder in holders.filter(|holder| (*holder == 0) == (user == 0)) {
            if holder == user { own += 1 } else { others += 1 }
        }
        match user {
            0 => own < self.of_root,
            _ => own < self.of_a_user && own < self.of_users.saturating_sub(own + others),
        }
    }
}

/// Of programs with libweigh: each has a page.
pub const PROGRAMS: SlotQuota = SlotQuota { of_users: 512, of_a_user: 256, of_root: 64 };
/// Programs whose accounts others read: each has a copy of its page.
pub const COPIES: SlotQuota = SlotQuota { of_users: 48, of_a_user: 24, of_root: 16 };
/// Profiles of regions that programs share.
pub const PROFILES: SlotQuota = SlotQuota { of_users: 128, of_a_user: 64, of_root: 64 };
/// Clients of streams: each has what it is sent, and has not taken yet.
pub const READERS: SlotQuota = SlotQuota { of_users: 48, of_a_user: 16, of_root: 16 };

/// Of those who follow something. Each job costs every process of the machine a little, at each fork, exec and page
/// fault; files every system call; writes every page that becomes dirty.
pub fn sessions(what: Followed) -> SlotQuota {
    match what {
        Followed::Job => SlotQuota { of_users: 24, of_a_user: 8, of_root: 8 },
        Followed::Files => SlotQuota { of_users: 5, of_a_user: 2, of_root: 2 },
        Followed::Events => SlotQuota { of_users: 7, of_a_user: STREAMS_OF_A_USER, of_root: 1 },
        Followed::Writes => SlotQuota { of_users: 3, of_a_user: 2, of_root: 2 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MiB that each takes, as measured in a control group of its own with the unit's limit, rounded up.
    const AGENT: f64 = 160.0;
    const PAGE: f64 = 1.8;
    const COPY: f64 = 1.5;
    /// An answer with one of the largest records.
    const READER: f64 = 1.3;
    const PROFILE: f64 = 0.2;
    /// While the largest profile is read, one at a time: by the sizes of what is made of it, not measured.
    const PROFILE_READ: f64 = 300.0;

    fn session(what: Followed) -> f64 {
        match what {
            Followed::Job => 10.0,
            Followed::Files => 52.0,
            // 32 of them rings.
            Followed::Events => 42.0,
            Followed::Writes => 150.0,
        }
    }

    fn all(places: SlotQuota) -> f64 {
        (places.of_users + places.of_root) as f64
    }

    #[test]
    fn all_places_together_are_below_the_unit_s_limit() {
        let unit = include_str!("../../../packaging/weigh-agent.service");
        let limit =
            unit.lines().find_map(|line| line.strip_prefix("MemoryMax=")?.strip_suffix('G'));
        let limit: f64 = limit.unwrap().parse::<f64>().unwrap() * 1024.0;
        let sessions: f64 =
            Followed::ALL.iter().map(|what| all(sessions(*what)) * session(*what)).sum();
        let sum = AGENT
            + all(PROGRAMS) * PAGE
            + all(COPIES) * COPY
            + all(READERS) * READER
            + sessions
            + all(PROFILES) * PROFILE
            + PROFILE_READ;
        assert!(sum < limit, "{sum} MiB of {limit}");
    }

    #[test]
    fn the_reference_has_them() {
        let reference = include_str!("../../../docs/threat-model.md");
        let kinds = [
            ("programs with libweigh", PROGRAMS),
            ("programs whose accounts others read", COPIES),
            ("clients of streams", READERS),
            ("programs that publish their regions", PROFILES),
            ("jobs", sessions(Followed::Job)),
            ("jobs whose files are followed", sessions(Followed::Files)),
            ("jobs whose writes to devices are followed", sessions(Followed::Writes)),
            ("streams of `weigh trace`", sessions(Followed::Events)),
        ];
        for (kind, SlotQuota { of_users, of_a_user, of_root }) in kinds {
            let option = if kind == "programs with libweigh" { " (`--per-user`)" } else { "" };
            let line = format!("| {kind} | {of_users} | {of_a_user}{option} | {of_root} |");
            assert!(reference.contains(&line), "docs/threat-model.md lacks: {line}");
        }
    }

    #[test]
    fn nobody_takes_all_and_root_has_its_own() {
        let places = SlotQuota { of_users: 16, of_a_user: 12, of_root: 2 };
        let mut holders: Vec<u32> = Vec::new();
        let mut take = |user: u32| {
            let mut taken = 0;
            while places.has_room(user, holders.iter().copied()) {
                holders.push(user);
                taken += 1;
            }
            taken
        };
        assert_eq!([7, 8, 9, 10].map(&mut take), [8, 4, 2, 1]);
        assert_eq!([0, 7].map(&mut take), [2, 0]);
        let few = SlotQuota { of_a_user: 3, ..places };
        assert!(!few.has_room(7, [7; 3].into_iter()) && few.has_room(8, [7; 3].into_iter()));
    }
}
