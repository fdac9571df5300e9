//! Times, and sizes, in buckets: 64 for each doubling, so that a border is within 1.6 % of the quantile that it
//! stands for, however many calls there are.

use std::collections::BTreeMap;

const BITS: u32 = 6;
const SMALL: u64 = 1 << BITS;

/// The bucket of a time.
pub(super) fn bucket(nanoseconds: u64) -> u32 {
    if nanoseconds < SMALL {
        return nanoseconds as u32;
    }
    let doubling = nanoseconds.ilog2() - BITS;
    ((doubling + 1) << BITS) + ((nanoseconds >> doubling) & (SMALL - 1)) as u32
}

/// The shortest time of a bucket.
pub(super) fn bucket_start(bucket: u32) -> u64 {
    if u64::from(bucket) < SMALL {
        return bucket.into();
    }
    let within = u64::from(bucket) & (SMALL - 1);
    let wide = u128::from(SMALL + within) << ((bucket >> BITS) - 1);
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// How many calls took how long.
#[derive(Debug, Default)]
pub(super) struct Times {
    counts: BTreeMap<u32, u64>,
    calls: u64,
}

impl Times {
    pub(super) fn add(&mut self, nanoseconds: u64) {
        *self.counts.entry(bucket(nanoseconds)).or_default() += 1;
        self.calls += 1;
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// The bucket that the call falls into which this share of the others does not exceed.
    pub(super) fn quantile(&self, share: f64) -> u32 {
        let rank = ((self.calls as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in &self.counts {
            seen += count;
            if seen >= rank {
                return *bucket;
            }
        }
        0
    }

    /// How many are in buckets above this one.
    pub(super) fn above(&self, bucket: u32) -> u64 {
        self.counts.range(bucket + 1..).map(|(_, count)| count).sum()
    }

    /// How many are in buckets below this one.
    pub(super) fn below(&self, bucket: u32) -> u64 {
        self.counts.range(..bucket).map(|(_, count)| count).sum()
    }

    /// The shortest time that no more than this share of the calls took, or longer.
    pub(super) fn slowest_from(&self, share: f64) -> u64 {
        let most = (self.calls as f64 * share).floor() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().rev() {
            seen += count;
            if seen > most {
                return bucket_start(bucket + 1);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_lies_in_its_bucket_and_the_bucket_is_narrow(time in any::<u64>(), shift in 0u32..64) {
            let time = time >> shift;
            let (start, end) = (bucket_start(bucket(time)), bucket_start(bucket(time) + 1));
            prop_assert!(start <= time && (time < end || end == u64::MAX));
            prop_assert!(end - start <= (start / 64).max(1));
        }
    }

    #[test]
    fn quantiles_and_the_slowest() {
        let mut times = Times::default();
        (1..=50).for_each(|time| times.add(time));
        assert_eq!(bucket_start(times.quantile(0.5)), 25);
        assert_eq!(times.slowest_from(0.1), 46);
        // None is slower than the others.
        let mut same = Times::default();
        (0..100).for_each(|_| same.add(7));
        assert_eq!(same.slowest_from(0.01), 8);
    }
}
