//! Regions of libweigh: programs of `libweigh/tests` that hold their own profile to what they did.

use std::process::Command;

use crate::support::library::{must, program};

#[test]
fn a_profile_says_what_a_program_did_rightly_or_not() {
    must(&mut Command::new(program("regions")));
}
