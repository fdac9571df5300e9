//! Why a configuration is refused.

use std::fmt;

/// A place in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The file, as it was given.
    pub file: String,
    /// The line, the first is 1.
    pub line: usize,
    /// The key with all that it stands in: `subsystem.disk.boundary`.
    pub key: String,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if self.key.is_empty() { Ok(()) } else { write!(f, "{}: ", self.key) }
    }
}

/// What is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is no text.
    NotText,
    /// It is not TOML.
    NotToml(String),
    /// There is no such thing.
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
        /// What there is, and would be allowed: the nearest, or all.
        known: Vec<String>,
    },
    /// The value is of another kind.
    Kind {
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A key that has to be there is not.
    Missing(&'static str),
    /// It holds no function, and has to.
    Empty,
    /// It says nothing that anybody could go by.
    Nothing,
    /// The value is of the right kind, and still none that works.
    Value {
        /// The value.
        value: String,
        /// What it should be.
        expected: String,
    },
}

/// Why a configuration is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationError {
    /// Where.
    pub at: At,
    /// Why.
    pub problem: Problem,
}

impl ConfigurationError {
    /// A value that does not work.
    pub fn value(at: &At, value: &str, expected: impl Into<String>) -> ConfigurationError {
        let problem = Problem::Value { value: value.to_string(), expected: expected.into() };
        ConfigurationError { at: at.clone(), problem }
    }

    /// A name of something that is not there, and the names that are.
    pub fn unknown(
        at: &At,
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = impl Into<String>>,
    ) -> ConfigurationError {
        let known = known.into_iter().map(Into::into).collect();
        let problem = Problem::Unknown { what, name: name.to_string(), known };
        ConfigurationError { at: at.clone(), problem }
    }
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.at, self.problem)
    }
}

impl std::error::Error for ConfigurationError {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NotText => f.write_str("not TOML: expected text in UTF-8, found other bytes"),
            Problem::NotToml(message) => write!(f, "not TOML: {message}"),
            Problem::Unknown { what, name, known } if known.is_empty() => {
                write!(f, "there is no {what} '{name}', and none of a similar name")
            }
            Problem::Unknown { what, name, known } => {
                write!(f, "there is no {what} '{name}'; there is {}", known.join(", "))
            }
            Problem::Kind { expected, found } => {
                write!(f, "expected {expected}, found a value of the kind '{found}'")
            }
            Problem::Missing(key) => write!(f, "expected the key '{key}', which is missing"),
            Problem::Empty => f.write_str("expected one function at least, found none"),
            Problem::Nothing => f.write_str(
                "it defines no part and removes none: expected 'subsystem', 'remove' or 'only'",
            ),
            Problem::Value { value, expected } => write!(f, "'{value}': expected {expected}"),
        }
    }
}
