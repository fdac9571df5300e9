//! Tests that leave themselves, or a part of themselves, out where the machine has not what they need. None does so in
//! silence: `scripts/test.sh` shows each with its reason, and fails where the guest of tests/vm was to run it and does not.
//!
//! `WEIGH_TESTS_LEFT_OUT` names the file that takes a line `PROGRAM TEST: REASON` of each, with `guest ` before it of
//! those for the guest.

// Not every test program uses all of it.
#![allow(dead_code)]

use std::io::Write as _;

/// Says that the test of this thread leaves something out, and why.
pub fn leave_out(reason: &str) {
    note("", reason);
}

/// The same of a test that the guest of tests/vm runs, which is named in tests/vm/tests.txt. There it fails.
#[track_caller]
pub fn leave_to_guest(reason: &str) {
    let is_guest = std::env::var_os("WEIGH_TEST_KERNEL_IMAGE").is_some();
    assert!(!is_guest, "the guest is there to run this: {reason}");
    note("guest ", reason);
}

fn note(mark: &str, reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    let line = format!("{mark}{} {test}: {reason}\n", program());
    eprint!("left out: {line}");
    let Some(path) = std::env::var_os("WEIGH_TESTS_LEFT_OUT") else { return };
    let mut file = std::fs::File::options().append(true).create(true).open(path).expect("a file");
    file.write_all(line.as_bytes()).expect("a line");
}

/// The name of the test program, without its hash.
fn program() -> String {
    let path = std::env::current_exe().expect("its path");
    let name = path.file_name().expect("a file").to_string_lossy().into_owned();
    name.rsplit_once('-').map_or(name.clone(), |(name, _)| name.to_string())
}
