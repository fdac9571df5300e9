//! Medians of repeated measurements, and how far they can be trusted. Pure.

use std::fmt;

/// The distribution of some figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// Where the median of ever more such figures lies with a probability of at least 95 %, by
    /// order statistics: no shape of the distribution is assumed. Absent for fewer than 6.
    pub interval: Option<(f64, f64)>,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
    /// How many.
    pub count: usize,
}

impl Spread {
    /// Of at least one figure.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        assert!(count > 0, "a spread needs a figure");
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        let interval = rank(count).map(|rank| (sorted[rank], sorted[count - 1 - rank]));
        Spread { median, interval, least: sorted[0], greatest: sorted[count - 1], count }
    }

    /// The same in another unit.
    pub fn times(self, factor: f64) -> Spread {
        assert!(factor > 0.0, "the least stays the least");
        Spread {
            median: self.median * factor,
            interval: self.interval.map(|(low, high)| (low * factor, high * factor)),
            least: self.least * factor,
            greatest: self.greatest * factor,
            count: self.count,
        }
    }

    /// Whether the figures show that the median is no greater than a target.
    pub fn against(&self, target: f64) -> Verdict {
        match self.interval {
            Some((_, high)) if high <= target => Verdict::Met,
            Some((low, _)) if low > target => Verdict::Missed,
            Some(_) if self.median <= target => Verdict::Likely,
            Some(_) => Verdict::Doubtful,
            None => Verdict::TooFew,
        }
    }
}

/// How many figures at either end lie outside the 95 % interval of the median.
fn rank(count: usize) -> Option<usize> {
    // P(at most k of `count` fair coins show heads), summed up until it passes 2.5 %.
    let mut term = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut below = 0.0;
    let mut rank = None;
    for k in 0..count / 2 {
        below += term;
        if below > 0.025 {
            break;
        }
        rank = Some(k);
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    rank
}

/// What figures say of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is within it.
    Met,
    /// The median is within it, the interval is not.
    Likely,
    /// The median is beyond it, the interval is not.
    Doubtful,
    /// The whole interval is beyond it.
    Missed,
    /// There are too few figures to say.
    TooFew,
}

impl Verdict {
    /// Of figures that have no noise.
    pub fn exact(met: bool) -> Verdict {
        if met { Verdict::Met } else { Verdict::Missed }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Met => "met",
            Verdict::Likely => "median within, interval not",
            Verdict::Doubtful => "median beyond, interval not",
            Verdict::Missed => "**missed**",
            Verdict::TooFew => "too few runs to say",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_even_and_odd_counts() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Ranks as in the usual tables of distribution-free 95 % intervals of the median.
        for (count, expected) in
            [(5, None), (6, Some(0)), (9, Some(1)), (15, Some(3)), (25, Some(7))]
        {
            assert_eq!(rank(count), expected, "of {count}");
        }
        let spread = Spread::of((1..=15).map(f64::from));
        assert_eq!(spread.interval, Some((4.0, 12.0)));
    }

    #[test]
    fn another_unit() {
        let spread = Spread::of((1..=15).map(f64::from)).times(10.0);
        assert_eq!((spread.median, spread.interval), (80.0, Some((40.0, 120.0))));
    }

    #[test]
    fn verdicts() {
        let spread = Spread::of((1..=15).map(f64::from));
        assert_eq!(spread.against(12.0), Verdict::Met);
        assert_eq!(spread.against(9.0), Verdict::Likely);
        assert_eq!(spread.against(7.0), Verdict::Doubtful);
        assert_eq!(spread.against(3.0), Verdict::Missed);
        assert_eq!(Spread::of([1.0, 2.0]).against(3.0), Verdict::TooFew);
    }
}
