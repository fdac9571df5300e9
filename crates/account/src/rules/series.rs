//! The values of one metric for one scope, as far as rules look back: rates and slopes.
//!
//! A value that is not known, and a counter that has begun again, begin a new history: nothing is guessed across them.

use std::collections::VecDeque;

use weigh_schema::MetricKind;

use super::metric_table::UsedMetric;

/// Values that are kept of the shortest window at least; and of the longest at most so many.
const POINTS_OF_WINDOW: u64 = 64;
const MOST_POINTS: u64 = 2048;
/// A slope is of so many values at least.
const LEAST_POINTS: usize = 3;

/// When, in nanoseconds, and how much.
type Point = (u64, f64);

#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// The look at which it was last given, or its table was last bound.
    pub look: u64,
    /// The table that has it.
    pub table: Option<usize>,
    now: Option<Point>,
    before: Option<Point>,
    /// Its growth in a second, as far as the giver says.
    per_second: Option<f64>,
    points: VecDeque<Point>,
}

impl Series {
    /// Takes the value of a look; none: it is not known.
    pub fn take(
        &mut self,
        at_ns: u64,
        value: Option<f64>,
        per_second: Option<f64>,
        metric: &UsedMetric,
    ) {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return self.begin_anew();
        };
        let is_new = |(at, before): &Point| {
            at_ns <= *at || metric.kind == MetricKind::Counter && value < *before
        };
        if self.now.as_ref().is_some_and(is_new) {
            self.begin_anew();
        }
        self.before = self.now.replace((at_ns, value));
        self.per_second = per_second.filter(|rate| rate.is_finite());
        if metric.longest_ns > 0 {
            self.keep((at_ns, value), metric);
        }
    }

    fn begin_anew(&mut self) {
        self.points.clear();
        (self.now, self.before, self.per_second) = (None, None, None);
    }

    fn keep(&mut self, point: Point, metric: &UsedMetric) {
        let oldest = point.0.saturating_sub(metric.longest_ns);
        while self.points.front().is_some_and(|(at, _)| *at < oldest) {
            self.points.pop_front();
        }
        let spacing = (metric.shortest_ns / POINTS_OF_WINDOW).max(metric.longest_ns / MOST_POINTS);
        let is_due = |(at, _): &Point| point.0.saturating_sub(*at) >= spacing;
        if self.points.back().is_none_or(is_due) {
            self.points.push_back(point);
        }
    }

    pub fn value(&self) -> Option<f64> {
        self.now.map(|(_, value)| value)
    }

    /// Growth in a second since the look before.
    pub fn rate(&self) -> Option<f64> {
        let own = || growth(self.before?, self.now?);
        self.per_second.or_else(own)
    }

    /// Growth in a second over a window, of which half has to be known.
    pub fn rate_over(&self, window_ns: u64) -> Option<f64> {
        growth(*self.window(window_ns)?.next()?, self.now?)
    }

    /// Slope of the line through the values of a window, of which half has to be known.
    pub fn slope(&self, window_ns: u64) -> Option<f64> {
        let (begin, first) = *self.window(window_ns)?.next()?;
        // From the first value on: sums of great numbers lose digits.
        let relative = |(at, value): Point| (at.saturating_sub(begin) as f64 / 1e9, value - first);
        let now = self.now.filter(|now| self.points.back() != Some(now));
        let points =
            || self.window(window_ns).into_iter().flatten().copied().chain(now).map(relative);
        let count = points().count();
        let (time, value) =
            points().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let (time, value) = (time / count as f64, value / count as f64);
        let product: f64 = points().map(|point| (point.0 - time) * (point.1 - value)).sum();
        let square: f64 = points().map(|point| (point.0 - time).powi(2)).sum();
        (count >= LEAST_POINTS && square > 0.0).then(|| product / square)
    }

    /// Seconds until it comes to a limit at its present slope: 0 where it is there, infinite where it stays or goes away
    /// from it.
    pub fn seconds_to(&self, limit: f64, window_ns: u64) -> Option<f64> {
        let slope = self.slope(window_ns)?;
        let left = limit - self.value()?;
        if left == 0.0 {
            return Some(0.0);
        }
        Some(left / slope).map(|seconds| if seconds > 0.0 { seconds } else { f64::INFINITY })
    }

    /// The values of a window, if they reach over half of it.
    fn window(&self, window_ns: u64) -> Option<impl Iterator<Item = &Point>> {
        let (now, _) = self.now?;
        let from = self.points.partition_point(|(at, _)| *at < now.saturating_sub(window_ns));
        let (first, _) = *self.points.get(from)?;
        let is_known = now.saturating_sub(first) >= window_ns / 2;
        is_known.then(|| self.points.range(from..))
    }
}

fn growth((begin, before): Point, (end, now): Point) -> Option<f64> {
    let seconds = end.checked_sub(begin).filter(|ns| *ns > 0)? as f64 / 1e9;
    Some((now - before) / seconds)
}
