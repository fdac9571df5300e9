//! Regions of libweigh: programs of `libweigh/tests` that hold their own profile to what they did.

use std::process::Command;

use crate::support::library::{Agent, NOBODY, folder, must, program};

#[test]
fn a_profile_says_what_a_program_did_rightly_or_not() {
    must(&mut Command::new(program("regions")));
    must(&mut Command::new(program("regions_values")));
}

#[test]
fn forks_and_execs_begin_profiles_of_their_own() {
    must(&mut Command::new(program("regions_life")));
}

#[test]
fn threads_signals_and_kills_leave_whole_profiles() {
    let cases = [
        "threads",
        "others",
        "late",
        "signals",
        "jumps",
        "names",
        "first",
        "together",
        "killed",
        "anywhere",
        "descriptors",
    ];
    for case in cases {
        must(Command::new(program("regions_life")).arg(case));
    }
}

#[test]
fn crowds_find_room_or_are_counted() {
    for case in ["names", "places", "threads"] {
        must(Command::new(program("regions_crowd")).arg(case));
    }
}

#[test]
fn short_regions_are_braked_and_times_add_up() {
    must(Command::new(program("regions_crowd")).arg("braked"));
    must(Command::new(program("regions_crowd")).arg("sums"));
}

#[test]
fn a_publish_is_of_one_moment() {
    must(&mut Command::new(program("regions_publish")));
    must(Command::new(program("regions_publish")).arg("3"));
}

#[test]
fn a_profile_without_a_listener_is_a_file() {
    let place = folder();
    must(Command::new(program("regions_values")).arg("file").arg(place.path()));
}

/// A file system of 1 MiB: a profile of 2.5 MiB is not begun there.
#[test]
fn a_full_disk_harms_nobody() {
    needs_root!();
    let place = folder();
    let script = "mkdir \"$1/full\" && mount -t tmpfs -o size=1m none \"$1/full\" && exec \"$2\" file \"$1\"";
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "sh", "-c", script, "sh"]).arg(place.path());
    must(apart.arg(program("regions_values")));
}

/// A program with more rights than its user makes no file for it, and speaks to no listener.
#[test]
fn a_program_with_more_rights_ignores_the_variables() {
    needs_root!();
    let place = folder();
    let copy = place.path().join("copy");
    for (mode, is_file) in [("755", true), ("4755", false)] {
        std::fs::copy(program("regions_values"), &copy).expect("a copy");
        must(Command::new("chmod").arg(mode).arg(&copy));
        let file = place.path().join(mode);
        let mut user = Command::new("setpriv");
        user.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&copy);
        must(user.arg("writes").env("WEIGH_PROFILE", &file));
        assert_eq!(file.exists(), is_file, "{mode}");
    }
}

#[test]
fn a_region_knows_its_system_calls() {
    needs_root!();
    let agent = Agent::start(&[]);
    must(&mut agent.command("regions_account"));
}
