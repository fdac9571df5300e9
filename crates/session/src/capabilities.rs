//! Gives up what a thread may: all that it has, or that programs which it starts gain any.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// All of this thread, and so of what it starts: a program of root gets none of them back. Users have none.
pub fn drop_all() {
    let is_bounded = drop_bounding_set();
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let _ = set_capabilities(None, none);
    // Where the right to drop them for good is missing, as in a unit, a program of root gets none in this way.
    if rustix::process::geteuid().is_root() && !is_bounded {
        let _ = set_no_new_privs(true);
    }
}

/// No program that this thread starts as another user has any, or gets any by what it executes.
pub fn forbid_gains() {
    drop_bounding_set();
    let _ = clear_ambient_capability_set();
    let _ = set_no_new_privs(true);
}

/// Whether none is left in it.
fn drop_bounding_set() -> bool {
    let all = (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number));
    // Past the last one that the kernel knows there is an error.
    let is_there = |one: &CapabilitySet| capability_is_in_bounding_set(*one).unwrap_or(false);
    all.clone().filter(is_there).for_each(|one| {
        let _ = remove_capability_from_bounding_set(one);
    });
    !all.clone().any(|one| is_there(&one))
}
