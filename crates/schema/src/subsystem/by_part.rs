//! What is kept of each part of the kernel beside an account, on request.
//!
//! Reads the bytes of `struct weigh_parts`; emits its numbers by their names in base units. Refuses bytes that are too few.

use std::collections::BTreeMap;

use super::account::{Account, named};
use super::table::{BY_PART, PARTS, SUBSYSTEMS};
use crate::unit::Number;

/// The numbers of all parts, in the order of the shared structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartCounts(Vec<u64>);

impl PartCounts {
    /// From the bytes of the shared structure; none if there are too few.
    pub fn from_bytes(bytes: &[u8]) -> Option<PartCounts> {
        let words = bytes.chunks_exact(8).take(part_counts_length());
        // Invariant: chunks_exact(8) gives eight bytes each.
        let numbers: Vec<u64> =
            words.map(|w| u64::from_ne_bytes(w.try_into().unwrap_or_default())).collect();
        (numbers.len() == part_counts_length()).then_some(PartCounts(numbers))
    }

    /// By the names of parts, those of the account's configuration included; zeros are left out. What a counter
    /// of the CPU has counted for a part of the time is scaled as the account's own.
    pub fn numbers(&self, account: &Account) -> BTreeMap<String, BTreeMap<String, Number>> {
        let names = SUBSYSTEMS.iter().map(|part| part.name).chain(account.own_names());
        let of_part = |(name, raw): (&str, &[u64])| {
            let scaled = raw.iter().zip(BY_PART).map(|(n, field)| account.scaled(field.name, *n));
            let scaled: Vec<u64> = scaled.collect();
            let numbers: BTreeMap<_, _> = named(BY_PART, &scaled, false).into_iter().collect();
            (!numbers.is_empty()).then(|| (name.to_string(), numbers))
        };
        names.zip(self.0.chunks(BY_PART.len())).filter_map(of_part).collect()
    }
}

/// How many numbers there are.
pub const fn part_counts_length() -> usize {
    PARTS * BY_PART.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsystem::{CpuCounter, Subsystem};

    #[test]
    #[allow(clippy::unwrap_used)]
    fn each_part_has_its_numbers_and_counters_that_took_turns_are_scaled() {
        let fs = Subsystem::named("fs").unwrap().index() * BY_PART.len();
        let numbers = (0..part_counts_length()).map(|at| match at.checked_sub(fs) {
            Some(place @ 0..5) => place as u64 + 10,
            _ => 0,
        });
        let bytes: Vec<u8> = numbers.flat_map(u64::to_ne_bytes).collect();
        assert_eq!(PartCounts::from_bytes(&bytes[1..]), None);
        let counts = PartCounts::from_bytes(&bytes).unwrap();
        let whole = |key: &str, number| (key.to_string(), Number::Whole(number));
        let rest = [
            whole("allocations_total", 12),
            whole("allocated_bytes_total", 13),
            whole("pages_total", 14),
        ];
        let expected = |cycles, instructions| {
            let counters =
                [whole("cycles_total", cycles), whole("instructions_total", instructions)];
            let numbers: BTreeMap<_, _> = counters.into_iter().chain(rest.clone()).collect();
            BTreeMap::from([("fs".to_string(), numbers)])
        };
        let mut account = Account::default();
        assert_eq!(counts.numbers(&account), expected(10, 11));
        account.set_counter(CpuCounter::named("cycles").unwrap(), 1);
        assert_eq!(counts.numbers(&account), expected(10, 11));
        account.set_counting(40, 20);
        assert_eq!(counts.numbers(&account), expected(20, 22));
    }
}
