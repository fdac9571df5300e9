//! Where an account has which number.

use super::field::Merge;
use super::on_request::CPU_COUNTERS;
use super::part::Subsystem;
use super::table::{LATER, PART, PARTS, SUBSYSTEMS};
use crate::custom_subsystem::OWN_NUMBERS;

/// What an account begins with, before its parts.
pub const HEAD: &[(&str, &str)] = &[
    ("token", "the caller's own number for it"),
    ("generation", "grows when the account is given to another token"),
    ("touched", "bit set of the subsystems that were seen"),
    (
        "unmeasured",
        "bit set of those that were wanted while nobody measured them: they lack something",
    ),
    ("calls", "calls, or intervals, that are added up in it"),
    ("time_ns", "from their beginnings to their ends"),
    (CPU_COUNTERS[0].name, CPU_COUNTERS[0].help),
    (CPU_COUNTERS[1].name, CPU_COUNTERS[1].help),
    ("counting_ns", "time on a CPU in which one of these was to be counted"),
    (
        "counted_ns",
        "of it, time in which the CPU did count: if it is less, for others use the counters too, a number times \
         counting_ns / counted_ns is an estimate",
    ),
];

/// How many numbers an account has.
pub const fn account_length() -> usize {
    later_start() + LATER.len()
}

/// Where in an account it is told how many things are pending.
pub fn pending_at() -> usize {
    // Invariant: LATER has it.
    later_start() + LATER.iter().position(|field| field.name == "pending").unwrap_or(0)
}

/// Where in an account its generation is.
pub fn generation_at() -> usize {
    // Invariant: HEAD has it.
    HEAD.iter().position(|(name, _)| *name == "generation").unwrap_or(0)
}

pub(super) const fn fields_start() -> usize {
    HEAD.len() + PARTS * PART.len()
}

pub(super) const fn later_start() -> usize {
    own_start() + OWN_NUMBERS
}

pub(super) const fn own_start() -> usize {
    let (mut at, mut part) = (fields_start(), 0);
    while part < SUBSYSTEMS.len() {
        at += SUBSYSTEMS[part].fields.len();
        part += 1;
    }
    at
}

/// The numbers that are no sums: where an account has each, and how those of several calls make one; of one that
/// was seen last also where it is told whether it was seen.
pub(crate) fn states() -> impl Iterator<Item = (usize, Option<usize>)> {
    SUBSYSTEMS.iter().flat_map(|part| {
        let start = part.fields_start();
        part.fields.iter().zip(start..).filter_map(move |(field, place)| match field.merge {
            Merge::Sum => None,
            Merge::Greatest => Some((place, None)),
            Merge::Latest { seen } => {
                // Invariant: a test finds each of them.
                let at = part.fields.iter().position(|other| other.name == seen).unwrap_or(0);
                Some((place, Some(start + at)))
            }
        })
    })
}

impl Subsystem {
    /// Where an account has its times, in the order of [`PART`].
    pub(crate) fn part_start(&self) -> usize {
        HEAD.len() + self.index() * PART.len()
    }

    /// Where an account has its own fields.
    pub(crate) fn fields_start(&self) -> usize {
        let before = &SUBSYSTEMS[..self.index()];
        fields_start() + before.iter().map(|s| s.fields.len()).sum::<usize>()
    }
}
