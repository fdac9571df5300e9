//! How many values are about how large, in buckets that are all equally wide for their values.
//!
//! Takes values of 64 bits; gives quantiles, each off by one part in `1 << BITS` at most, however many values there are.
//! The BPF programs and the library of `libweigh/calls` count in the same buckets.

use std::collections::BTreeMap;

/// Counts in buckets. Each doubling has `1 << BITS` of them, values below that have one each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram<const BITS: u32> {
    counts: BTreeMap<u32, u64>,
    total: u64,
}

impl<const BITS: u32> Histogram<BITS> {
    const SMALL: u32 = 1 << BITS;

    /// The number of buckets.
    pub const BUCKETS: u32 = (u64::BITS - BITS + 1) << BITS;

    /// The bucket of a value.
    pub const fn bucket(value: u64) -> u32 {
        if value < Self::SMALL as u64 {
            return value as u32;
        }
        let doubling = value.ilog2() - BITS;
        // The highest bit is the doubling's.
        let within = (value >> doubling) as u32 - Self::SMALL;
        ((doubling + 1) << BITS) + within
    }

    /// The least value of a bucket; behind the last one, the greatest value that there is.
    pub const fn first(bucket: u32) -> u64 {
        if bucket < Self::SMALL {
            return bucket as u64;
        }
        if bucket >= Self::BUCKETS {
            return u64::MAX;
        }
        let within = bucket & (Self::SMALL - 1);
        ((Self::SMALL + within) as u64) << ((bucket >> BITS) - 1)
    }

    /// The greatest value of a bucket.
    pub const fn last(bucket: u32) -> u64 {
        if bucket >= Self::BUCKETS - 1 {
            return u64::MAX;
        }
        Self::first(bucket + 1) - 1
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.add_to(Self::bucket(value), 1);
    }

    /// Counts so many values of a bucket.
    pub fn add_to(&mut self, bucket: u32, count: u64) {
        let counted = self.counts.entry(bucket).or_default();
        // What the job's programs have counted may be any number.
        *counted = counted.saturating_add(count);
        self.total = self.total.saturating_add(count);
    }

    /// How many values there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Buckets with values and how many they have, the least first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, u64)> {
        self.counts.iter().map(|(bucket, count)| (*bucket, *count))
    }

    /// The bucket of the value at this place, counted from 1 at the least; none if there are fewer.
    pub fn bucket_at(&self, place: u64) -> Option<u32> {
        bucket_at(self.iter(), place)
    }

    /// The bucket of the value at this place, counted from 1 at the greatest; none if there are fewer.
    pub fn bucket_at_from_top(&self, place: u64) -> Option<u32> {
        bucket_at(self.iter().rev(), place)
    }

    /// The bucket of the value that this share of all does not exceed; none if there is none.
    pub fn quantile(&self, share: f64) -> Option<u32> {
        self.bucket_at(((self.total as f64 * share).ceil() as u64).max(1))
    }

    /// How many values lie in buckets below this one.
    pub fn below(&self, bucket: u32) -> u64 {
        self.counts.range(..bucket).map(|(_, count)| count).sum()
    }

    /// How many values lie in buckets above this one.
    pub fn above(&self, bucket: u32) -> u64 {
        self.counts.range(bucket.saturating_add(1)..).map(|(_, count)| count).sum()
    }
}

fn bucket_at(counts: impl Iterator<Item = (u32, u64)>, place: u64) -> Option<u32> {
    let mut before = 0u64;
    for (bucket, count) in counts {
        before = before.saturating_add(count);
        if before >= place {
            return Some(bucket);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<const BITS: u32>(value: u64) {
        let bucket = Histogram::<BITS>::bucket(value);
        let (first, last) = (Histogram::<BITS>::first(bucket), Histogram::<BITS>::last(bucket));
        assert!(bucket < Histogram::<BITS>::BUCKETS && (first..=last).contains(&value), "{value}");
        assert!(last - first <= first >> BITS, "{BITS}: {value} in {first} {last}");
        let next = Histogram::<BITS>::first(bucket + 1);
        assert!(last == u64::MAX || last + 1 == next, "{BITS}: {value} in {first} {last}");
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_and_the_bucket_is_narrow(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            // Sizes of reads and writes, pairs on a page, times of calls, `weigh explain`.
            check::<0>(value);
            check::<3>(value);
            check::<4>(value);
            check::<6>(value);
        }

        /// The values themselves, sorted, are the witness.
        #[test]
        fn places_quantiles_and_sums_are_those_of_the_values(
            mut values in prop::collection::vec((any::<u64>(), 0u32..64), 1..200),
            share in 0.0f64..=1.0,
        ) {
            let mut sorted: Vec<u64> = values.drain(..).map(|(value, shift)| value >> shift).collect();
            let mut histogram = Histogram::<4>::default();
            sorted.iter().for_each(|value| histogram.add(*value));
            sorted.sort_unstable();
            let bucket = |value: u64| Histogram::<4>::bucket(value);
            let count = sorted.len();
            prop_assert_eq!(histogram.total(), count as u64);
            prop_assert_eq!(histogram.iter().map(|(_, count)| count).sum::<u64>(), count as u64);
            for place in 1..=count {
                let from_top = sorted[count - place];
                prop_assert_eq!(histogram.bucket_at(place as u64), Some(bucket(sorted[place - 1])));
                prop_assert_eq!(histogram.bucket_at_from_top(place as u64), Some(bucket(from_top)));
            }
            prop_assert_eq!(histogram.bucket_at(count as u64 + 1), None);
            let place = ((count as f64 * share).ceil() as usize).max(1);
            prop_assert_eq!(histogram.quantile(share), Some(bucket(sorted[place - 1])));
            let border = bucket(sorted[count / 2]);
            let is_below = |value: &&u64| bucket(**value) < border;
            let is_above = |value: &&u64| bucket(**value) > border;
            prop_assert_eq!(histogram.below(border), sorted.iter().filter(is_below).count() as u64);
            prop_assert_eq!(histogram.above(border), sorted.iter().filter(is_above).count() as u64);
        }
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for (bucket, first) in [(15, 15), (16, 16), (31, 31), (32, 32), (33, 34), (48, 64)] {
            assert_eq!(Histogram::<4>::first(bucket), first);
        }
        for bucket in 0..Histogram::<4>::BUCKETS {
            let (first, last) = (Histogram::<4>::first(bucket), Histogram::<4>::last(bucket));
            let found = [first, last].map(Histogram::<4>::bucket);
            assert_eq!(found, [bucket; 2], "{first} {last}");
        }
        assert_eq!(Histogram::<4>::bucket(u64::MAX), Histogram::<4>::BUCKETS - 1);
        assert_eq!(Histogram::<0>::bucket(u64::MAX), 64);
    }

    #[test]
    fn nothing_has_no_quantile_and_no_number_is_too_great() {
        let mut histogram = Histogram::<4>::default();
        assert_eq!((histogram.quantile(0.5), histogram.total()), (None, 0));
        histogram.add_to(7, u64::MAX);
        histogram.add_to(8, u64::MAX);
        assert_eq!((histogram.quantile(0.5), histogram.total()), (Some(7), u64::MAX));
    }
}
