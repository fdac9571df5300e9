//! One value at one time, borrowed from its collector: what sources emit and live views, exporters and publishers take.

use crate::metric::Metric;
use crate::quality::Quality;
use crate::scope::Scope;
use crate::unit::Number;

/// One value of one metric, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// What the value is about, with its instance.
    pub scope: &'a Scope,
    /// The metric's declaration: name, unit, kind.
    pub metric: &'static Metric,
    /// The value in the metric's unit; `None` where it is unavailable, which is not 0.
    pub value: Option<Number>,
    /// How far it can be trusted.
    pub quality: Quality,
}

/// Samples of one collector, each at its place.
pub trait SampleTable {
    /// Another number as soon as any place has another scope or metric.
    fn layout(&self) -> u64;
    /// Whether the latest tick has read its values, or found that they are no longer known.
    fn is_fresh(&self) -> bool;
    /// The number of places.
    fn places(&self) -> usize;
    /// The sample at a place.
    fn sample(&self, place: usize) -> Sample<'_>;
}

impl<T: SampleTable + ?Sized> SampleTable for &T {
    fn layout(&self) -> u64 {
        T::layout(self)
    }

    fn is_fresh(&self) -> bool {
        T::is_fresh(self)
    }

    fn places(&self) -> usize {
        T::places(self)
    }

    fn sample(&self, place: usize) -> Sample<'_> {
        T::sample(self, place)
    }
}
