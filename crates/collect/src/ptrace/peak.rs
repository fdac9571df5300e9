//! The greatest sum of memory that processes alive at one moment can have held.
//!
//! Reads births, and ends with the process's final high-water mark. Emits an upper bound: no sum of
//! resident sizes was ever greater than the greatest sum of the high-water marks of those that
//! lived at one moment. Marks are known at the end only, so for each moment that may turn out to be
//! the greatest it keeps what the ended ones add to it; of moments at which the same of the living
//! lived already, the best one is enough. So it holds one number for each living process.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign};

/// What processes hold, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldMemory {
    /// In all.
    pub bytes: u64,
    /// Of that, what they had got by forks, and may share since.
    pub inherited: u64,
    /// In how many address spaces.
    pub spaces: u64,
}

impl Add for HeldMemory {
    type Output = HeldMemory;

    fn add(self, more: HeldMemory) -> HeldMemory {
        HeldMemory {
            bytes: self.bytes + more.bytes,
            inherited: self.inherited + more.inherited,
            spaces: self.spaces + more.spaces,
        }
    }
}

impl AddAssign for HeldMemory {
    fn add_assign(&mut self, more: HeldMemory) {
        *self = *self + more;
    }
}

/// The bound while it is being found.
#[derive(Debug, Default)]
pub struct UpperBound {
    /// For each living one, in the order of birth: what those that have ended add, at most, at the
    /// moments between its birth and that of the next one that still lives.
    moments: BTreeMap<u64, HeldMemory>,
    /// The greatest sum at moments at which none of the living lived.
    settled: HeldMemory,
    /// The number of the next birth.
    next: u64,
}

impl UpperBound {
    /// One is born; returns the number to be given at its end.
    pub fn begin(&mut self) -> u64 {
        self.next += 1;
        self.moments.insert(self.next, HeldMemory::default());
        self.next
    }

    /// One has ended that held so much at most.
    pub fn end(&mut self, number: u64, held: HeldMemory) {
        for (_, sum) in self.moments.range_mut(number..) {
            *sum += held;
        }
        let Some(own) = self.moments.remove(&number) else { return };
        match self.moments.range_mut(..number).next_back() {
            Some((_, before)) => *before = own.max(*before),
            None => self.settled = own.max(self.settled),
        }
    }

    /// The bound, given what each of the living has held so far.
    pub fn with_living(&self, mut held: impl FnMut(u64) -> HeldMemory) -> HeldMemory {
        let mut living = HeldMemory::default();
        self.moments.iter().fold(self.settled, |greatest, (number, sum)| {
            living += held(*number);
            greatest.max(living + *sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(bytes: u64) -> HeldMemory {
        HeldMemory { bytes, inherited: bytes / 2, spaces: 1 }
    }

    #[test]
    fn one_after_the_other_is_the_greatest_of_them() {
        let mut bound = UpperBound::default();
        for bytes in [7, 30, 11] {
            let number = bound.begin();
            bound.end(number, held(bytes));
        }
        assert_eq!(bound.with_living(|_| unreachable!()), held(30));
    }

    #[test]
    fn a_parent_counts_with_each_of_its_children() {
        let mut bound = UpperBound::default();
        let parent = bound.begin();
        for bytes in [7, 30, 11] {
            let child = bound.begin();
            bound.end(child, held(bytes));
        }
        let greatest = HeldMemory { bytes: 130, inherited: 65, spaces: 2 };
        assert_eq!(bound.with_living(|_| held(100)), greatest);
        bound.end(parent, held(100));
        assert_eq!(bound.with_living(|_| unreachable!()), greatest);
    }

    /// The same by looking at every moment, for a few thousand random histories.
    #[test]
    fn every_history_gives_what_looking_at_each_moment_gives() {
        let mut random = 88172645463325252u64;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for _ in 0..3000 {
            let mut bound = UpperBound::default();
            let mut living: Vec<(u64, usize)> = Vec::new();
            let mut lives: Vec<(usize, usize, u64)> = Vec::new();
            let moments = 2 + next(30) as usize;
            for at in 0..moments {
                if living.is_empty() || next(2) == 0 {
                    living.push((bound.begin(), lives.len()));
                    lives.push((at, moments, next(100)));
                } else {
                    let (number, index) = living.swap_remove(next(living.len() as u64) as usize);
                    lives[index].1 = at;
                    bound.end(number, held(lives[index].2));
                }
            }
            let by_moment = (0..moments)
                .map(|at| lives.iter().filter(|l| l.0 <= at && at < l.1).map(|l| l.2).sum::<u64>());
            let of = |number| lives[living.iter().find(|l| l.0 == number).map(|l| l.1).unwrap()].2;
            let greatest = bound.with_living(|number| held(of(number))).bytes;
            assert_eq!(greatest, by_moment.max().unwrap(), "{lives:?}");
        }
    }
}
