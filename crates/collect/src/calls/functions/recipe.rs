//! What is to be done at a function, in the kernel side's layout: see `bpf/calls/custom_subsystem.h`.

use std::mem::{offset_of, size_of};

use super::captures::CaptureSource;
use crate::calls::layout::skeleton::types;

/// What is to be done at a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recipe {
    pub(super) bounds: bool,
    pub(super) starts: bool,
    pub(super) ends: bool,
    /// An entry counts if it comes from another part.
    pub(super) crosses: bool,
    /// Of the trial: see `cost`.
    pub(super) tries: bool,
    /// The part's number, the built-in ones counted.
    pub(super) part: u32,
    pub(super) rule: u32,
    pub(super) keeps: bool,
    pub(super) count_slot: u32,
    pub(super) time_slot: u32,
    pub(super) matched: CaptureSource,
    pub(super) sums: Vec<(u32, CaptureSource)>,
}

fn put(value: &mut [u8], at: usize, bytes: &[u8]) {
    value[at..at + bytes.len()].copy_from_slice(bytes);
}

/// What is to be done at a function.
pub(super) fn bytes(recipe: &Recipe) -> Vec<u8> {
    let mut value = vec![0; size_of::<types::recipe>()];
    let does = [
        (recipe.bounds, types::recipe_does::RECIPE_BOUNDS),
        (recipe.starts, types::recipe_does::RECIPE_STARTS),
        (recipe.ends, types::recipe_does::RECIPE_ENDS),
        (recipe.crosses, types::recipe_does::RECIPE_CROSSES),
        (recipe.tries, types::recipe_does::RECIPE_TRIES),
    ];
    let does: u32 = does.iter().filter(|(is_so, _)| *is_so).map(|(_, bit)| bit.0).sum();
    for (at, number) in [
        (offset_of!(types::recipe, does), does),
        (offset_of!(types::recipe, part), recipe.part),
        (offset_of!(types::recipe, rule), recipe.rule),
        (offset_of!(types::recipe, keeps), u32::from(recipe.keeps)),
        (offset_of!(types::recipe, count_slot), recipe.count_slot),
        (offset_of!(types::recipe, time_slot), recipe.time_slot),
        (offset_of!(types::recipe, sums), recipe.sums.len() as u32),
    ] {
        put(&mut value, at, &number.to_ne_bytes());
    }
    capture(&mut value, offset_of!(types::recipe, r#match), &recipe.matched);
    for (number, (slot, found)) in recipe.sums.iter().take(MOST_SUMS).enumerate() {
        let at = offset_of!(types::recipe, sum) + number * size_of::<types::sum>();
        put(&mut value, at + offset_of!(types::sum, slot), &slot.to_ne_bytes());
        capture(&mut value, at + offset_of!(types::sum, capture), found);
    }
    value
}

/// As many as `struct recipe` has room for.
const MOST_SUMS: usize = 4;
const MOST_STEPS: usize = 6;

fn capture(value: &mut [u8], start: usize, found: &CaptureSource) {
    let small = |at: usize, number: u8| (start + at, number);
    for (at, number) in [
        small(offset_of!(types::capture, argument), found.argument),
        small(offset_of!(types::capture, steps), found.offsets.len() as u8),
        small(offset_of!(types::capture, bytes), found.bytes),
        small(offset_of!(types::capture, is_signed), u8::from(found.is_signed)),
    ] {
        value[at] = number;
    }
    let offsets = start + offset_of!(types::capture, offsets);
    for (number, offset) in found.offsets.iter().take(MOST_STEPS).enumerate() {
        put(value, offsets + 4 * number, &offset.to_ne_bytes());
    }
}

/// How often a function was entered by threads that are followed.
pub(in crate::calls) fn hits(value: &[u8]) -> u64 {
    let at = offset_of!(types::recipe, hits);
    let bytes = value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}
