//! `weigh io` in a terminal: Ctrl-Z stops the job and weigh, `fg` continues both, by all mechanisms.

use crate::support::run::Scratch;
use crate::support::terminal::Terminal;
use crate::support::{processes, wait_until, weigh_for_everybody};
use serde_json::Value;

/// A shell with job control runs weigh, and weigh runs cat.
#[track_caller]
fn stops_and_goes_on(mechanism: &str, user: &str) {
    let scratch = Scratch::new();
    let shell = format!("{user}bash --norc --noprofile --noediting -i");
    let shell: Vec<&str> = shell.split(' ').collect();
    let mut terminal = Terminal::start(&scratch, 24, 200, &shell);
    terminal.types("PS1='prompt> '\n");
    terminal.wait_for("prompt> ", 2);
    let (weigh, json) = (weigh_for_everybody(), scratch.path("io.json"));
    let line = format!(
        "{} io -q --mechanism {mechanism} --json {} -- cat\n",
        weigh.display(),
        json.display()
    );
    terminal.types(&line);
    let find = || scratch.survivors().into_iter().find(|p| processes::command_line(*p) == "cat");
    wait_until("the command runs", 20.0, || find().is_some());
    let cat = find().expect("it was there");
    terminal.types("one\n");
    terminal.wait_for("one\n", 2);
    for round in 1..=2 {
        terminal.types("\x1a");
        terminal.wait_for("Stopped", round);
        // What a tracer has stopped is 't' until it is seen to be stopped.
        let is_stopped = || processes::state(cat).is_some_and(|state| "Tt".contains(state));
        wait_until("the command is stopped", 10.0, is_stopped);
        terminal.types("echo shell$((40 + 2))\n");
        terminal.wait_for("shell42\n", round);
        terminal.types("fg\n");
        wait_until("the command goes on", 10.0, || processes::state(cat) == Some('S'));
        terminal.types(&format!("round{round}\n"));
        terminal.wait_for(&format!("round{round}\n"), 2);
    }
    terminal.types("\x04");
    wait_until("the command has ended", 10.0, || !processes::is_alive(cat));
    terminal.types("echo status $?\n");
    terminal.wait_for("status 0\n", 1);
    terminal.types("exit\n");
    terminal.end();
    // What it has read and written is counted through it all.
    let report: Value = serde_json::from_str(&scratch.text("io.json")).expect("a report");
    let typed = "one\nround1\nround2\n".len() as u64;
    let rows = report["files"].as_array().expect("files").iter();
    let of = |row: &Value, key: &str| row["by_kind"]["plain"][key].as_u64().unwrap_or(0);
    let on_terminal = rows.filter(|row| row["name"].as_str().is_some_and(|n| n.contains("/pts/")));
    let moved: Vec<[u64; 2]> = on_terminal
        .map(|row| ["read_bytes", "written_bytes"].map(|key| of(row, key)))
        .filter(|moved| *moved != [0, 0])
        .collect();
    assert_eq!(moved, [[typed, typed]], "{mechanism}: {report}");
}

/// As nobody, where there is a tool for it: a shell in a terminal is not started by the test itself.
fn nobody() -> &'static str {
    const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
    let words: Vec<&str> = NOBODY.split_whitespace().collect();
    let tried = std::process::Command::new(words[0]).args(&words[1..]).arg("true").output();
    if tried.is_ok_and(|output| output.status.success()) { NOBODY } else { "" }
}

#[test]
fn without_rights_by_a_library() {
    stops_and_goes_on("preload", nobody());
}

#[test]
fn without_rights_by_a_tracer() {
    stops_and_goes_on("ptrace", nobody());
}

#[test]
fn without_rights_by_both() {
    stops_and_goes_on("preload+ptrace", nobody());
}

#[test]
fn by_the_kernel() {
    needs_root!();
    stops_and_goes_on("bpf", "");
}
