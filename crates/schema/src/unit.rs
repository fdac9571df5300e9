//! Units of values, and numbers in them.

use serde::{Deserialize, Serialize};

use crate::named::named;

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

named! {
    /// The unit of a metric: base units only.
    pub enum Unit {
        /// Seconds.
        Seconds = "seconds",
        /// Bytes.
        Bytes = "bytes",
        /// A plain number of things.
        Count = "count",
        /// CPUs kept busy.
        Cores = "cores",
        /// A part of one.
        Ratio = "ratio",
        /// Threads, on average.
        Threads = "threads",
        /// Degrees Celsius.
        Celsius = "celsius",
        /// Watts.
        Watts = "watts",
        /// Joules.
        Joules = "joules",
    }
}

impl Unit {
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
