//! libweigh's crate: built as a program's cargo builds it, and held to what its example itself did.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::library::{Agent, folder, must};

const CRATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../libweigh/rust");

fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(CRATE);
    cargo
}

fn example() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libweigh-rust");
    let mut build = cargo();
    must(
        build
            .args(["build", "--offline", "--quiet", "--locked", "--examples", "--target-dir"])
            .arg(&target),
    );
    target.join("debug/examples/opens")
}

#[test]
fn the_crate_reads_the_same_numbers() {
    needs_root!();
    let agent = Agent::start(&[]);
    let place = folder();
    let file = place.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let mut run = Command::new(example());
    run.arg(&file).env("WEIGH_SOCKET", agent.folder.path().join("socket"));
    let output = must(&mut run);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "opens 23 allocations true sent 1000003 calls 100 unmeasured 0\n\
                    cycles None true\n\
                    block: Some(NotWanted)\n\
                    settled Some(true) None\n\
                    peer Some(100)\n\
                    accounts 2\n\
                    init: no such process is measured\n";
    assert_eq!(said, expected);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there").len(), 23);
}

#[test]
fn without_an_agent_it_says_why() {
    let nowhere = folder();
    let mut run = Command::new(example());
    run.arg("unused").env("WEIGH_SOCKET", nowhere.path().join("nobody-listens"));
    let output = run.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no agent of weigh answers"), "{said}");
}

/// It is no member of the workspace, whose lints do not reach it; it is held to the same.
#[test]
fn its_unsafe_code_says_why_it_is_sound() {
    let mut clippy = cargo();
    clippy.args(["clippy", "--offline", "--quiet", "--locked", "--target-dir"]);
    clippy.arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("libweigh-rust"));
    must(clippy.args(["--all-targets", "--", "-D", "warnings"]));
    must(cargo().args(["fmt", "--check"]));
}
