//! Tests of what every verb does to a program, of odd surroundings and of bad input.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod as_if_absent;
mod availability;
mod disks;
mod errors;
mod hard;
mod hard_cases;
mod kernel;
mod messages;
mod shortages;
mod surroundings;
mod unprivileged;
