//! The fewest functions whose entry and return have to be probed to see every crossing.
//!
//! A probe at a callee's entry and return, which looks at the part that calls, sees all places that
//! call it; so there is one for each function called across a border, but for two kinds. One that
//! calls nothing and does not loop is over before a probe would be: its time stays with who calls it.
//! One that does little but call another of its own part is left to the other's probe.
//!
//! Reads crossings; emits the probes of each part. Refuses nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::boundaries::{CallBoundaries, Site};
use crate::code::{Function, Program};

/// What is over before a probe would be: a few nanoseconds' worth.
pub const SMALL: u32 = 24;

/// The most that a function does beside the one call that it is there for.
const WRAPPER: u32 = 40;

/// A function to be probed.
#[derive(Debug, Default)]
pub struct Chosen {
    /// The parts that call it, and from which places.
    pub callers: BTreeMap<usize, BTreeSet<Site>>,
    /// Whether it stands in a table of operations.
    pub is_entered: bool,
}

/// What is chosen for a part.
#[derive(Debug, Default)]
pub struct Choice {
    /// Functions that are called across its border.
    pub callees: usize,
    /// Of these, how many only tables of operations name.
    pub by_table_only: usize,
    /// Of these, how many are over before a probe would be.
    pub small: usize,
    /// Of these, how many are left to the probe of one that they call.
    pub wrappers: usize,
    /// What is left.
    pub probes: BTreeMap<usize, Chosen>,
}

/// Chooses the probes of each part.
pub fn choose(
    program: &Program,
    parts: &[Option<usize>],
    borders: &CallBoundaries,
) -> BTreeMap<usize, Choice> {
    let mut choices: BTreeMap<usize, Choice> = BTreeMap::new();
    for ((part, callee), callers) in &borders.crossings {
        let choice = choices.entry(*part).or_default();
        choice.callees += 1;
        choice.by_table_only += usize::from(callers.values().all(BTreeSet::is_empty));
        if is_small(&program.functions[*callee]) {
            choice.small += 1;
            continue;
        }
        let probed = inner(program, parts, *callee);
        choice.wrappers += usize::from(probed != *callee);
        let chosen = choice.probes.entry(probed).or_default();
        chosen.is_entered |= borders.entered.contains(callee);
        for (from, places) in callers {
            chosen.callers.entry(*from).or_default().extend(places);
        }
    }
    choices
}

fn is_small(function: &Function) -> bool {
    function.instructions <= SMALL
        && !function.loops
        && function.by_pointer == 0
        && function.callees.is_empty()
}

/// The function that another is there to call, or itself.
fn inner(program: &Program, parts: &[Option<usize>], outer: usize) -> usize {
    let mut at = outer;
    let mut passed = BTreeSet::from([outer]);
    loop {
        let function = &program.functions[at];
        let is_wrapper =
            function.instructions <= WRAPPER && !function.loops && function.by_pointer == 0;
        match function.callees[..] {
            [(callee, 1)]
                if is_wrapper
                    && parts[callee] == parts[at]
                    && !is_small(&program.functions[callee]) =>
            {
                if !passed.insert(callee) {
                    return outer;
                }
                at = callee;
            }
            _ => return at,
        }
    }
}
