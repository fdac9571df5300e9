//! What the parts of a name have done so far, as they were told: each process that uses a file, each use of it.
//!
//! Holds so many parts; beyond them the half that was told of longest ago goes. One of these that is told of again counts
//! as new.

use std::collections::HashMap;

use weigh_schema::busiest::Amounts;

/// Parts of one kind and job.
const PARTS_MOST: usize = 16_384;

/// A process that uses a file.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Of which name it is a part.
    name: u64,
    total: Amounts,
    told_ns: i64,
}

/// All parts of the names of a kind.
#[derive(Debug, Default)]
pub(crate) struct PartTotals {
    parts: HashMap<u64, Part>,
}

impl PartTotals {
    /// The total of a part is this now; by how much it has grown.
    pub(crate) fn grow(&mut self, key: u64, name: u64, total: Amounts, told_ns: i64) -> Amounts {
        self.make_room();
        let before = self.parts.insert(key, Part { name, total, told_ns });
        let before = before.map_or(Amounts::default(), |part| part.total);
        total.zip(before, |total, before| (total - before).max(0.0))
    }

    /// What all parts of a name have done.
    pub(crate) fn total(&self, name: u64) -> Amounts {
        let parts = self.parts.values().filter(|part| part.name == name);
        parts.fold(Amounts::default(), |sum, part| sum.plus(part.total))
    }

    fn make_room(&mut self) {
        if self.parts.len() < PARTS_MOST {
            return;
        }
        let mut told: Vec<i64> = self.parts.values().map(|part| part.told_ns).collect();
        let (_, median, _) = told.select_nth_unstable(PARTS_MOST / 2);
        let median = *median;
        let mut left = PARTS_MOST / 2;
        self.parts.retain(|_, part| {
            let stays = left > 0 && part.told_ns >= median;
            left -= usize::from(stays);
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_were_told_of_longest_ago_go() {
        let amounts = |seconds| Amounts { seconds, ..Amounts::default() };
        let mut parts = PartTotals::default();
        for key in 0..PARTS_MOST as u64 {
            parts.grow(key, key % 2, amounts(1.0), key as i64);
        }
        assert_eq!(parts.total(1).seconds, PARTS_MOST as f64 / 2.0);
        assert_eq!(parts.grow(PARTS_MOST as u64, 0, amounts(3.0), 1 << 40).seconds, 3.0);
        assert_eq!(parts.parts.len(), PARTS_MOST / 2 + 1);
        assert_eq!(parts.grow(PARTS_MOST as u64 - 1, 1, amounts(1.5), 1 << 40).seconds, 0.5);
        assert_eq!(
            parts.grow(0, 0, amounts(1.5), 1 << 40).seconds,
            1.5,
            "it is not known any more"
        );
    }
}
