//! The unit of an expression, and which units can be compared.

use weigh_schema::Unit;
use weigh_schema::amount::show_amount;

/// The unit of an expression; a plain number has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dimension {
    pub unit: Option<Unit>,
    /// Whether it is in a second.
    pub per_second: bool,
}

/// Units that mean something else as a plain number: 5 bytes are no 5 seconds.
fn is_strict(unit: Unit) -> bool {
    matches!(unit, Unit::Bytes | Unit::Seconds | Unit::Celsius | Unit::Watts | Unit::Joules)
}

impl Dimension {
    pub fn of(unit: Unit) -> Dimension {
        Dimension { unit: Some(unit), per_second: false }
    }

    /// Growth in a second: of seconds it is a part of the time.
    pub fn rate(self) -> Dimension {
        match self.unit {
            Some(Unit::Seconds) => Dimension::of(Unit::Ratio),
            _ => Dimension { per_second: true, ..self },
        }
    }

    fn strict(self) -> Option<Unit> {
        self.unit.filter(|unit| is_strict(*unit))
    }

    /// The unit of a sum of both; none if they cannot be added or compared.
    pub fn joined(self, other: Dimension) -> Option<Dimension> {
        match (self.strict(), other.strict()) {
            (Some(a), Some(b)) if a != b => None,
            (Some(_), _) => Some(self),
            (None, Some(_)) => Some(other),
            (None, None) if self.unit.is_some() => Some(self),
            (None, None) => Some(other),
        }
    }

    pub fn times(self, other: Dimension) -> Dimension {
        let per_second = self.per_second || other.per_second;
        match (self.strict(), other.strict()) {
            (Some(_), Some(_)) => Dimension::default(),
            (Some(_), None) => Dimension { per_second, ..self },
            (None, Some(_)) => Dimension { per_second, ..other },
            // Times a plain number it stays what it is.
            (None, None) => Dimension { unit: self.unit.or(other.unit), per_second },
        }
    }

    pub fn divided_by(self, other: Dimension) -> Dimension {
        let per_second = self.per_second && !other.per_second;
        match (self.strict(), other.strict()) {
            (Some(a), Some(b)) if a == b => Dimension::of(Unit::Ratio),
            (_, Some(_)) => Dimension::default(),
            (Some(_), None) => Dimension { per_second, ..self },
            (None, None) if other.unit.is_none() => Dimension { per_second, ..self },
            (None, None) => Dimension::default(),
        }
    }

    /// For people.
    pub fn show(self, value: f64) -> String {
        let shown = match self.unit {
            _ if !value.is_finite() => "never".to_string(),
            Some(Unit::Seconds) => show_duration(value),
            None | Some(Unit::Cores | Unit::Threads) => plain(value),
            Some(unit) => show_amount(value, unit),
        };
        if self.per_second { shown + "/s" } else { shown }
    }
}

/// To the second, where it is seconds at all: `4 min 10 s`, `12 s`, `3.2 ms`.
fn show_duration(seconds: f64) -> String {
    match seconds {
        s if (1.0..120.0).contains(&s) => format!("{s:.0} s"),
        s => weigh_schema::amount::show_seconds(s),
    }
}

fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
