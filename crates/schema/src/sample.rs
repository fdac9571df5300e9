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
