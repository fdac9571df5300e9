//! The order of service: in each round one request of each user, whatever its others ask meanwhile.

use std::collections::BTreeMap;

/// Whom each user was served last.
#[derive(Default)]
pub struct Rounds(BTreeMap<u32, u64>);

impl Rounds {
    /// Of the events that wait, each with its user, one of each: the next behind the one of the last round.
    pub fn choose(&mut self, waiting: &[(u32, u64)]) -> Vec<u64> {
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        for &(user, event) in waiting {
            let last = self.0.get(&user).copied();
            let distance = |event: u64| (Some(event) <= last, event);
            let best = next.entry(user).or_insert(event);
            if distance(event) < distance(*best) {
                *best = event;
            }
        }
        // A user with nothing to ask begins anew.
        self.0 = next;
        self.0.values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_s_flood_delays_another_s_by_one_request() {
        let mut rounds = Rounds::default();
        let flood: Vec<(u32, u64)> = (0..250).map(|event| (7, event)).collect();
        assert_eq!(rounds.choose(&flood), [0]);
        let with_another = [&flood[..], &[(8, 1000)]].concat();
        assert_eq!(rounds.choose(&with_another), [1, 1000]);
        // Each of its own comes in its turn, too.
        let mut served: Vec<u64> = (0..250).flat_map(|_| rounds.choose(&flood)).collect();
        served.sort_unstable();
        assert_eq!(served, (0..250).collect::<Vec<u64>>());
        assert!(rounds.choose(&[]).is_empty());
    }
}
