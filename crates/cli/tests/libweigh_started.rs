//! Programs with libweigh where no agent is: the weigh that has started them serves them, or says why
//! not.

mod support;

use std::path::Path;
use std::process::Command;

use support::library::{Asked, NOBODY, folder, must, program};
use support::{weigh_binary, weigh_for_everybody};
use tempfile::TempDir;

fn storage() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn weigh(verb: &str) -> Command {
    let mut command = Command::new(weigh_binary());
    command.args([verb, "-q"]).env_remove("WEIGH_SOCKET");
    command
}

/// An agent of the machine would serve them, and nothing of this would be tried.
fn is_there_an_agent() -> bool {
    let there = Path::new(weigh_schema::library::SOCKET).exists();
    if there {
        eprintln!("left out: an agent serves at {}", weigh_schema::library::SOCKET);
    }
    there
}

#[test]
fn the_weigh_that_runs_a_program_serves_it() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let (storage, recording) = (storage(), folder());
    let mut run = weigh("run");
    run.arg("-o").arg(recording.path().join("recording")).arg("--");
    must(run.arg(program("exact")).arg(storage.path()).arg("20"));
}

#[test]
fn the_weigh_that_follows_a_program_s_calls_serves_it() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let storage = storage();
    let exact = program("exact");
    must(weigh("calls").arg("--").arg(exact).arg(storage.path()).args(["20", "job"]));
}

/// What a call leaves behind is charged to the account that asked for it, too.
#[test]
fn what_comes_later_reaches_the_account_of_a_program_whose_calls_are_followed() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let storage = storage();
    must(weigh("calls").arg("--").arg(program("later")).arg(storage.path()));
}

#[test]
fn a_user_without_rights_is_told_so() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    let recording = folder();
    command.arg(weigh_for_everybody()).args(["run", "-q", "-o"]);
    command.arg(recording.path().join("recording")).arg("--").arg(program("steps"));
    let mut steps = Asked::start(command.env_remove("WEIGH_SOCKET"));
    let (reason, calls, sent) = steps.numbers();
    let no_rights = weigh_schema::library::Reason::NoRights as u64;
    assert_eq!((reason, calls, sent), (no_rights, 2, 0));
}

#[test]
fn who_has_a_place_already_keeps_it() {
    let recording = folder();
    let mut run = weigh("run");
    run.env("WEIGH_SOCKET", "/nowhere").args(["--level", "1", "-o"]);
    let run = run.arg(recording.path().join("recording")).args(["--", "printenv", "WEIGH_SOCKET"]);
    assert_eq!(String::from_utf8_lossy(&must(run).stdout), "/nowhere\n");
}
