//! Parts of the kernel that weigh does not know by itself: what a configuration names, and where
//! their numbers are in an account.
//!
//! The account has room for [`OWN_PARTS`] of them behind the built-in ones, and for [`OWN_NUMBERS`]
//! numbers that they share out among themselves: what is captured and added up, what comes later.

use std::sync::Arc;

use crate::unit::Number;
use crate::unit::Unit;

/// How many there may be.
pub const OWN_PARTS: usize = 8;

/// How many numbers all of them may have together.
pub const OWN_NUMBERS: usize = 8;

/// A number of such a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnNumber {
    /// Its name for readers, with the unit.
    pub key: String,
    /// In which unit; seconds are kept as nanoseconds.
    pub unit: Unit,
    /// Its place among the account's own numbers.
    pub slot: usize,
}

impl OwnNumber {
    /// The number in its base unit.
    pub fn number(&self, raw: u64) -> Number {
        let value = if self.unit == Unit::Seconds { raw as f64 / 1e9 } else { raw as f64 };
        self.unit.number(value)
    }

    /// Its name as C has it, without what a sum is called for readers, and in the unit that it is kept in.
    pub fn c_name(&self) -> String {
        match self.key.strip_suffix("_seconds") {
            Some(name) if self.unit == Unit::Seconds => format!("{name}_ns"),
            _ => self.key.strip_suffix("_total").unwrap_or(&self.key).to_string(),
        }
    }
}

/// One such part, as accounts need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPart {
    /// Its name in keys, columns and sentences.
    pub name: String,
    /// What is added up of it while calls last.
    pub sums: Vec<OwnNumber>,
    /// What is charged to calls when they have returned.
    pub later: Vec<OwnNumber>,
}

/// All of them: a part's place is its number behind the built-in ones.
pub type CustomParts = Arc<[OwnPart]>;
