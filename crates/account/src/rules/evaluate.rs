//! Judges an expression by the values of the present look.
//!
//! What is not known is neither true nor false: `and` with what is false is false, `or` with what is true is true, and
//! everything else that it is a part of is not known either.

use weigh_schema::update::Scope;

use super::expression::{Arithmetic, MetricId, MetricUse, Number, Truth};
use super::metric_table::MetricTable;
use super::series::Series;
use super::value_table::ValueTable;

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The metric has none now.
    NoValue(MetricId),
    /// Its values do not reach back far enough yet, in nanoseconds.
    TooYoung(MetricId, u64),
    /// Its growth needs a value before.
    NoRate(MetricId),
    /// The node has no values of single CPUs.
    NoCores,
    /// It divides by 0.
    Undefined,
}

impl Unknown {
    /// In words.
    pub fn reason(self, metrics: &MetricTable) -> String {
        let name = |id| &metrics.get(id).name;
        match self {
            Unknown::NoValue(id) => format!("{} has no value here", name(id)),
            Unknown::TooYoung(id, window) => {
                let seconds = window as f64 * 0.5e-9;
                format!("{}: values of {seconds} s at least are needed", name(id))
            }
            Unknown::NoRate(id) => format!("{}: its rate needs another look", name(id)),
            Unknown::NoCores => "no CPU of the node has values".to_string(),
            Unknown::Undefined => "it divides by 0 now".to_string(),
        }
    }
}

pub(super) struct Judge<'a> {
    pub values: &'a ValueTable,
    pub scope: &'a Scope,
}

impl Judge<'_> {
    pub fn truth(&self, truth: &Truth) -> Result<bool, Unknown> {
        match truth {
            Truth::Compare { how, left, right, .. } => {
                Ok(how.holds(self.number(left)?, self.number(right)?))
            }
            Truth::And(a, b) => self.pair(a, b, false),
            Truth::Or(a, b) => self.pair(a, b, true),
        }
    }

    /// One side alone decides, if it is so: the one that takes less is judged first.
    fn pair(&self, a: &Truth, b: &Truth, decides: bool) -> Result<bool, Unknown> {
        let is_turned = a.walks_windows() && !b.walks_windows();
        let (first, second) = if is_turned { (b, a) } else { (a, b) };
        let found = self.truth(first);
        if found == Ok(decides) {
            return found;
        }
        match (found, self.truth(second)) {
            (_, Ok(second)) if second == decides => Ok(decides),
            // Of two that are not known the one on the left is said.
            (Err(_), Err(left)) if is_turned => Err(left),
            (Err(unknown), _) | (_, Err(unknown)) => Err(unknown),
            _ => Ok(!decides),
        }
    }

    /// Never not a number; infinite is that a limit is never reached.
    pub fn number(&self, number: &Number) -> Result<f64, Unknown> {
        let value = match number {
            Number::Constant(value) => *value,
            Number::Cores => self.values.cores().ok_or(Unknown::NoCores)?,
            Number::Value(metric) => self.value(*metric)?,
            Number::Rate(metric, None) => {
                self.series(*metric)?.rate().ok_or(Unknown::NoRate(metric.id))?
            }
            Number::Rate(metric, Some(window)) => {
                self.over(*metric, *window, |series| series.rate_over(*window))?
            }
            Number::Slope(metric, window) => {
                self.over(*metric, *window, |series| series.slope(*window))?
            }
            Number::SecondsTo(metric, limit, window) => {
                let limit = self.number(limit)?;
                self.over(*metric, *window, |series| series.seconds_to(limit, *window))?
            }
            Number::Negative(of) => -self.number(of)?,
            Number::Pair(how, a, b) => pair(*how, self.number(a)?, self.number(b)?),
        };
        if value.is_nan() { Err(Unknown::Undefined) } else { Ok(value) }
    }

    fn series(&self, metric: MetricUse) -> Result<&Series, Unknown> {
        let scope = if metric.is_of_node { &Scope::Node } else { self.scope };
        let series = self.values.get(metric.id, scope);
        series.filter(|series| series.value().is_some()).ok_or(Unknown::NoValue(metric.id))
    }

    fn value(&self, metric: MetricUse) -> Result<f64, Unknown> {
        self.series(metric)?.value().ok_or(Unknown::NoValue(metric.id))
    }

    fn over(
        &self,
        metric: MetricUse,
        window: u64,
        get: impl FnOnce(&Series) -> Option<f64>,
    ) -> Result<f64, Unknown> {
        get(self.series(metric)?).ok_or(Unknown::TooYoung(metric.id, window))
    }
}

fn pair(how: Arithmetic, a: f64, b: f64) -> f64 {
    match how {
        Arithmetic::Plus => a + b,
        Arithmetic::Minus => a - b,
        Arithmetic::Times => a * b,
        // Something of nothing is no number that could be compared.
        Arithmetic::DividedBy if b == 0.0 => f64::NAN,
        Arithmetic::DividedBy => a / b,
    }
}
