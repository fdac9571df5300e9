//! Units of values, and numbers in them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number as it is written to JSON: whole where the unit is whole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// A count or a number of bytes.
    Whole(u64),
    /// Seconds, ratios, cores.
    Real(f64),
}

impl Number {
    /// The value as a real number.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Whole(n) => n as f64,
            Number::Real(x) => x,
        }
    }
}

/// The unit of a metric: base units only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A plain number of things.
    Count,
    /// CPUs kept busy.
    Cores,
    /// A part of one.
    Ratio,
    /// Threads, on average.
    Threads,
    /// Degrees Celsius.
    Celsius,
    /// Watts.
    Watts,
    /// Joules.
    Joules,
}

impl Unit {
    /// All of them.
    pub const ALL: &[Unit] = &[
        Unit::Seconds,
        Unit::Bytes,
        Unit::Count,
        Unit::Cores,
        Unit::Ratio,
        Unit::Threads,
        Unit::Celsius,
        Unit::Watts,
        Unit::Joules,
    ];

    /// Whether values of this unit are whole numbers.
    pub const fn is_whole(self) -> bool {
        matches!(self, Unit::Bytes | Unit::Count)
    }

    /// A number of this unit.
    pub fn number(self, value: f64) -> Number {
        if self.is_whole() {
            Number::Whole(value.max(0.0).round() as u64)
        } else {
            Number::Real(value)
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::Cores => "cores",
            Unit::Ratio => "ratio",
            Unit::Threads => "threads",
            Unit::Celsius => "celsius",
            Unit::Watts => "watts",
            Unit::Joules => "joules",
        })
    }
}
