//! A configuration of parts of the kernel: which of the built-in ones are left out, and those that
//! users define by the functions at their borders.
//!
//! Reads the text of the file (TOML; docs/subsystems.md has the format); emits what is asked for,
//! not yet looked up in any kernel. Refuses what is not of the form, with file, line, key, what was
//! expected and what there is.

mod capture;
mod reading;
mod refusal;

use std::sync::Arc;

use crate::custom_subsystem::{Own, OwnNumber, OwnPart};
use crate::subsystem::Subsystem;

pub use capture::{Capture, MOST_STEPS, RETURN, Step};
pub use reading::{ALWAYS, parse, parse_bytes};
pub use refusal::{At, ConfigurationError, Problem};

/// What a configuration asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The built-in parts that are left out.
    pub remove: Vec<&'static Subsystem>,
    /// If it is given, nothing but these, built-in or own.
    pub only: Option<Vec<String>>,
    /// The parts that it defines.
    pub subsystems: Vec<OwnSubsystem>,
}

/// A part of the kernel that the configuration defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSubsystem {
    /// Its name.
    pub name: String,
    /// What it is, for readers.
    pub help: Option<String>,
    /// Where it is declared.
    pub at: At,
    /// The functions at its border: from the entry to the return of one of them time is its own.
    pub boundary: Vec<Boundary>,
    /// What is charged to calls that have returned.
    pub later: Option<LaterRule>,
}

/// A function at a border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Which.
    pub function: Function,
    /// What is captured and added up.
    pub sums: Vec<Sum>,
}

/// A function of the kernel by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name.
    pub name: String,
    /// Where it is asked for.
    pub at: At,
}

/// A captured number that is added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// What is captured.
    pub capture: Capture,
    /// Where it is added: see [`OwnNumber::slot`].
    pub slot: usize,
}

/// How what runs later finds the call that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterRule {
    /// Called by the call, or within it: its captured value is remembered.
    pub start: Function,
    /// What is captured there.
    pub start_capture: Capture,
    /// A thread that calls this with the same value does it for that call.
    pub end: Function,
    /// What is captured there.
    pub end_capture: Capture,
    /// Whether the value stays remembered after it was met.
    pub keep: bool,
    /// Where it is counted.
    pub count_slot: usize,
    /// Where its time is added.
    pub time_slot: usize,
}

impl Configuration {
    /// The parts as accounts need them, in the order of their numbers.
    pub fn own(&self) -> Own {
        self.subsystems.iter().map(OwnSubsystem::part).collect::<Vec<OwnPart>>().into()
    }
}

impl OwnSubsystem {
    fn part(&self) -> OwnPart {
        let mut sums: Vec<OwnNumber> = Vec::new();
        for sum in self.boundary.iter().flat_map(|boundary| &boundary.sums) {
            if sums.iter().all(|known| known.slot != sum.slot) {
                sums.push(reading::sum_number(&sum.capture.name, sum.slot));
            }
        }
        let later = self.later.as_ref().map(|rule| {
            reading::later_numbers(&self.name, rule.count_slot, rule.time_slot).to_vec()
        });
        OwnPart { name: self.name.clone(), sums, later: later.unwrap_or_default() }
    }
}

/// No parts but the built-in ones.
pub fn no_own() -> Own {
    Arc::new([])
}
