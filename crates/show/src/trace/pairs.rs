//! How long pairs of a kind lasted, in all and over time.

use std::collections::BTreeMap;

use weigh_schema::histogram::Histogram;

use super::bins::Columns;

/// Times, of which each doubling has eight buckets.
pub type PairHistogram = Histogram<3>;

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
    /// How many lasted about so long.
    pub times: PairHistogram,
    /// Over time, by doublings of nanoseconds.
    pub over_time: BTreeMap<u32, Columns>,
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
            times: PairHistogram::default(),
            over_time: BTreeMap::new(),
        }
    }

    /// One that ended in this column.
    pub fn add(&mut self, column: usize, lasts_ns: u64) {
        self.total += 1;
        self.sum_ns += u128::from(lasts_ns);
        self.least_ns = self.least_ns.min(lasts_ns);
        self.most_ns = self.most_ns.max(lasts_ns);
        self.times.add(lasts_ns);
        self.over_time.entry(lasts_ns.max(1).ilog2()).or_default().add(column);
    }

    /// Columns became twice as wide.
    pub fn fold(&mut self) {
        self.over_time.values_mut().for_each(Columns::fold);
    }

    /// What so large a part of them did not exceed, at most an eighth too large.
    pub fn quantile_ns(&self, part: f64) -> u64 {
        let last = self.times.quantile(part).map(PairHistogram::last);
        last.map_or(self.most_ns, |last| last.min(self.most_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
