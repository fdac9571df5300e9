//! What a configuration asks for: built-in parts, and parts of its own with their functions and sums.

use super::capture::Capture;
use super::refusal::At;
use crate::custom_subsystem::{CustomParts, OwnNumber, OwnPart};
use crate::subsystem::Subsystem;
use crate::unit::Unit;

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
    pub fn own(&self) -> CustomParts {
        self.subsystems.iter().map(OwnSubsystem::part).collect::<Vec<OwnPart>>().into()
    }
}

impl OwnSubsystem {
    fn part(&self) -> OwnPart {
        let mut sums: Vec<OwnNumber> = Vec::new();
        for sum in self.boundary.iter().flat_map(|boundary| &boundary.sums) {
            if sums.iter().all(|known| known.slot != sum.slot) {
                sums.push(sum_number(&sum.capture.name, sum.slot));
            }
        }
        let later = self
            .later
            .as_ref()
            .map(|rule| later_numbers(&self.name, rule.count_slot, rule.time_slot).to_vec());
        OwnPart { name: self.name.clone(), sums, later: later.unwrap_or_default() }
    }
}

/// How a captured number is called for readers.
pub(super) fn sum_number(name: &str, slot: usize) -> OwnNumber {
    let is_bytes = name == "bytes" || name.ends_with("_bytes");
    let unit = if is_bytes { Unit::Bytes } else { Unit::Count };
    OwnNumber { key: format!("{name}_total"), unit, slot }
}

/// How what came later of a part is called.
pub(super) fn later_numbers(part: &str, count: usize, time: usize) -> [OwnNumber; 2] {
    [
        OwnNumber { key: format!("{part}_total"), unit: Unit::Count, slot: count },
        OwnNumber { key: format!("{part}_seconds"), unit: Unit::Seconds, slot: time },
    ]
}
