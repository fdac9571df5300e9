//! How values are spread: exact count, sum, least and greatest, and buckets of which each doubling has 16, as
//! the times of `weigh calls` have.

use weigh_schema::call::TimeHistogram;
use weigh_schema::synthesis::{Bucket, Distribution};

/// Values.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    count: u64,
    sum: i128,
    least: i128,
    greatest: i128,
    /// Values below 0, without their sign.
    negative: TimeHistogram,
    /// All others.
    others: TimeHistogram,
}

impl Spread {
    /// One more.
    pub fn add(&mut self, value: i128) {
        (self.least, self.greatest) = match self.count {
            0 => (value, value),
            _ => (self.least.min(value), self.greatest.max(value)),
        };
        self.count += 1;
        self.sum += value;
        let size = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
        if value < 0 { self.negative.add(size) } else { self.others.add(size) }
    }

    /// The value that a part of them, so many of 100, does not exceed: the upper end of its bucket.
    fn quantile(&self, of_hundred: u64) -> i128 {
        let rank = (u128::from(self.count) * u128::from(of_hundred)).div_ceil(100) as u64;
        let end = match rank.checked_sub(self.negative.total()) {
            None | Some(0) => {
                let bucket = self.negative.bucket_at_from_top(rank);
                bucket.map(|bucket| -i128::from(TimeHistogram::first(bucket)))
            }
            Some(rank) => {
                let bucket = self.others.bucket_at(rank);
                bucket.map(|bucket| i128::from(TimeHistogram::last(bucket)))
            }
        };
        end.map_or(self.greatest, |end| end.clamp(self.least, self.greatest))
    }

    /// Where buckets begin, and how many values they have, the least first.
    fn buckets(&self) -> impl Iterator<Item = (i128, u64)> {
        let below = self.negative.iter().rev();
        let below = below.map(|(bucket, count)| (-i128::from(TimeHistogram::last(bucket)), count));
        let others = self.others.iter();
        let others =
            others.map(|(bucket, count)| (i128::from(TimeHistogram::first(bucket)), count));
        below.chain(others)
    }

    /// In a unit that has so many of what was added; none if nothing was.
    pub fn told(&self, unit: f64) -> Option<Distribution> {
        if self.count == 0 {
            return None;
        }
        let shown = |value: i128| value as f64 / unit;
        Some(Distribution {
            count: self.count,
            mean: shown(self.sum) / self.count as f64,
            min: shown(self.least),
            p50: shown(self.quantile(50)),
            p99: shown(self.quantile(99)),
            max: shown(self.greatest),
            buckets: self
                .buckets()
                .map(|(from, count)| Bucket { from: shown(from), count })
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_mean_and_ends_are_exact_and_quantiles_nearly() {
        let mut spread = Spread::default();
        (1..=1000).for_each(|value| spread.add(value));
        let told = spread.told(1.0).unwrap();
        assert_eq!((told.count, told.mean, told.min, told.max), (1000, 500.5, 1.0, 1000.0));
        assert!((500.0..500.0 * 17.0 / 16.0).contains(&told.p50), "{}", told.p50);
        assert!((990.0..=1000.0).contains(&told.p99), "{}", told.p99);
        assert_eq!(told.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 1000);
        assert!(Spread::default().told(1.0).is_none());
    }

    #[test]
    fn values_below_0_and_the_greatest_have_their_place() {
        let mut spread = Spread::default();
        for value in [-40, -1, 0, 1, 40, i128::from(u64::MAX)] {
            spread.add(value);
        }
        let told = spread.told(1.0).unwrap();
        let from: Vec<f64> = told.buckets.iter().map(|bucket| bucket.from).collect();
        assert!(from.is_sorted() && from.len() == 6, "{from:?}");
        assert_eq!((told.min, told.p50), (-40.0, 0.0));
        assert_eq!(told.max, u64::MAX as f64);
    }
}
