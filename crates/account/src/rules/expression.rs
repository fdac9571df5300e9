//! Expressions, checked: numbers of metrics, and comparisons of them.

use super::dimension::Dimension;
use super::error::Span;

/// A metric by its number in the table of the rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MetricId(pub usize);

/// A metric in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MetricUse {
    pub id: MetricId,
    /// Whether it is read of the node, whatever the rule's scope is.
    pub is_of_node: bool,
}

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Constant(f64),
    /// CPUs of the node.
    Cores,
    Value(MetricUse),
    /// Growth in a second, since the look before or over a window in nanoseconds.
    Rate(MetricUse, Option<u64>),
    /// Slope of the line through the values of a window in nanoseconds, in a second.
    Slope(MetricUse, u64),
    /// Seconds until a value comes to a limit at its present slope; infinite where it never does.
    SecondsTo(MetricUse, Box<Number>, u64),
    Negative(Box<Number>),
    Pair(Arithmetic, Box<Number>, Box<Number>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Plus,
    Minus,
    Times,
    DividedBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
}

impl Comparison {
    pub const MARKS: [(&str, Comparison); 6] = [
        ("<", Comparison::Less),
        ("<=", Comparison::AtMost),
        (">", Comparison::Greater),
        (">=", Comparison::AtLeast),
        ("==", Comparison::Equal),
        ("!=", Comparison::Unequal),
    ];

    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Comparison::Less => left < right,
            Comparison::AtMost => left <= right,
            Comparison::Greater => left > right,
            Comparison::AtLeast => left >= right,
            Comparison::Equal => left == right,
            Comparison::Unequal => left != right,
        }
    }
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Truth {
    Compare { how: Comparison, left: Number, right: Number, dimension: Dimension },
    And(Box<Truth>, Box<Truth>),
    Or(Box<Truth>, Box<Truth>),
}

impl Truth {
    /// The left side of its first comparison, and its unit.
    pub fn first_number(&self) -> (&Number, Dimension) {
        match self {
            Truth::Compare { left, dimension, .. } => (left, *dimension),
            Truth::And(left, _) | Truth::Or(left, _) => left.first_number(),
        }
    }

    /// Whether it goes through all values of a window.
    pub fn walks_windows(&self) -> bool {
        match self {
            Truth::Compare { left, right, .. } => left.walks_windows() || right.walks_windows(),
            Truth::And(left, right) | Truth::Or(left, right) => {
                left.walks_windows() || right.walks_windows()
            }
        }
    }

    /// The shortest time that it looks back over, in nanoseconds; none: it looks at present values alone.
    pub fn shortest_window(&self) -> Option<u64> {
        let (left, right) = match self {
            Truth::Compare { left, right, .. } => (left.shortest_window(), right.shortest_window()),
            Truth::And(left, right) | Truth::Or(left, right) => {
                (left.shortest_window(), right.shortest_window())
            }
        };
        left.into_iter().chain(right).min()
    }

    /// All metrics in it, from left to right.
    pub fn metrics(&self, found: &mut Vec<MetricUse>) {
        match self {
            Truth::Compare { left, right, .. } => {
                left.metrics(found);
                right.metrics(found);
            }
            Truth::And(left, right) | Truth::Or(left, right) => {
                left.metrics(found);
                right.metrics(found);
            }
        }
    }
}

impl Number {
    fn walks_windows(&self) -> bool {
        match self {
            Number::Slope(..) | Number::SecondsTo(..) => true,
            Number::Negative(of) => of.walks_windows(),
            Number::Pair(_, left, right) => left.walks_windows() || right.walks_windows(),
            Number::Constant(_) | Number::Cores | Number::Value(_) | Number::Rate(..) => false,
        }
    }

    /// From one look to the next is no time at all.
    fn shortest_window(&self) -> Option<u64> {
        match self {
            Number::Constant(_) | Number::Cores | Number::Value(_) => None,
            Number::Rate(_, window) => Some(window.unwrap_or(0)),
            Number::Slope(_, window) => Some(*window),
            Number::SecondsTo(_, limit, window) => {
                limit.shortest_window().into_iter().chain([*window]).min()
            }
            Number::Negative(of) => of.shortest_window(),
            Number::Pair(_, left, right) => {
                left.shortest_window().into_iter().chain(right.shortest_window()).min()
            }
        }
    }

    /// All metrics in it, from left to right.
    pub fn metrics(&self, found: &mut Vec<MetricUse>) {
        match self {
            Number::Constant(_) | Number::Cores => {}
            Number::Value(metric) | Number::Rate(metric, _) | Number::Slope(metric, _) => {
                found.push(*metric);
            }
            Number::SecondsTo(metric, limit, _) => {
                found.push(*metric);
                limit.metrics(found);
            }
            Number::Negative(of) => of.metrics(found),
            Number::Pair(_, left, right) => {
                left.metrics(found);
                right.metrics(found);
            }
        }
    }
}

/// What an expression is: a number with its unit, or a condition.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Number(Number, Dimension),
    Truth(Truth),
}

/// An expression, and where it stands.
pub(super) type Spanned = (Expression, Span);
