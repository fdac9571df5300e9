//! How long pairs of a kind lasted, in all and over time.

use std::collections::BTreeMap;

use super::bins::Columns;

/// Parts of each doubling that are told apart in all.
const PARTS: u32 = 8;

/// Pairs of a kind.
pub struct PairBook {
    /// What they are called.
    pub called: String,
    /// How many.
    pub total: u64,
    /// How long all of them together.
    pub sum_ns: u128,
    /// The least and the greatest.
    pub least_ns: u64,
    /// The greatest.
    pub most_ns: u64,
    /// How many lasted about so long: by [`bucket`].
    pub buckets: BTreeMap<u32, u64>,
    /// Over time, by doublings of nanoseconds.
    pub over_time: BTreeMap<u32, Columns>,
}

/// The bucket of a time: eight for each doubling, each exact below eight.
pub fn bucket(ns: u64) -> u32 {
    if ns < u64::from(PARTS) {
        return ns as u32;
    }
    let power = ns.ilog2();
    let part = (ns >> (power - 3)) as u32 & (PARTS - 1);
    PARTS + (power - 3) * PARTS + part
}

/// Where a bucket begins.
pub fn begin(bucket: u32) -> u64 {
    if bucket < PARTS {
        return bucket.into();
    }
    let (power, part) = ((bucket - PARTS) / PARTS, (bucket - PARTS) % PARTS);
    u64::from(PARTS + part).checked_shl(power).unwrap_or(u64::MAX)
}

impl PairBook {
    /// None yet.
    pub fn new(called: &str) -> PairBook {
        PairBook {
            called: called.to_string(),
            total: 0,
            sum_ns: 0,
            least_ns: u64::MAX,
            most_ns: 0,
            buckets: BTreeMap::new(),
            over_time: BTreeMap::new(),
        }
    }

    /// One that ended in this column.
    pub fn add(&mut self, column: usize, lasts_ns: u64) {
        self.total += 1;
        self.sum_ns += u128::from(lasts_ns);
        self.least_ns = self.least_ns.min(lasts_ns);
        self.most_ns = self.most_ns.max(lasts_ns);
        *self.buckets.entry(bucket(lasts_ns)).or_default() += 1;
        self.over_time.entry(lasts_ns.max(1).ilog2()).or_default().add(column);
    }

    /// Columns became twice as wide.
    pub fn fold(&mut self) {
        self.over_time.values_mut().for_each(Columns::fold);
    }

    /// What so large a part of them did not exceed, at most an eighth too large.
    pub fn quantile_ns(&self, part: f64) -> u64 {
        let wanted = (self.total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                return (begin(bucket + 1) - 1).min(self.most_ns);
            }
        }
        self.most_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_in_its_bucket() {
        for ns in (0..5000).chain([1 << 40, (1 << 40) + 12345, u64::MAX / 2, u64::MAX]) {
            let bucket = bucket(ns);
            assert!(begin(bucket) <= ns, "{ns}");
            assert!(ns == u64::MAX || ns < begin(bucket + 1), "{ns}");
        }
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_too_large() {
        let mut book = PairBook::new("a -> b");
        (1..=1003).for_each(|n| book.add(0, n * 1000));
        assert_eq!((book.total, book.least_ns, book.most_ns), (1003, 1000, 1_003_000));
        for (part, exact) in [(0.5, 502_000), (0.99, 993_000)] {
            let found = book.quantile_ns(part);
            assert!((exact..=exact + exact / 8).contains(&found), "{found}");
        }
        assert_eq!(book.over_time.values().flat_map(|c| &c.0).sum::<u32>(), 1003);
    }
}
