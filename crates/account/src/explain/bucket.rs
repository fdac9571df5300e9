//! Times, and sizes, in buckets: 64 for each doubling, so that a border is within 1.6 % of the quantile that it
//! stands for, however many calls there are.

use weigh_schema::histogram::Histogram;

/// How many calls took how long.
pub(super) type Times = Histogram<6>;

/// The shortest time that no more than this share of the calls took, or longer.
pub(super) fn slowest_from(times: &Times, share: f64) -> u64 {
    let most = (times.total() as f64 * share).floor() as u64;
    let bucket = times.bucket_at_from_top(most.saturating_add(1));
    bucket.map_or(0, |bucket| Times::first(bucket + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_the_slowest() {
        let mut times = Times::default();
        (1..=50).for_each(|time| times.add(time));
        assert_eq!(times.quantile(0.5).map(Times::first), Some(25));
        assert_eq!(slowest_from(&times, 0.1), 46);
        // None is slower than the others.
        let mut same = Times::default();
        (0..100).for_each(|_| same.add(7));
        assert_eq!(slowest_from(&same, 0.01), 8);
    }
}
