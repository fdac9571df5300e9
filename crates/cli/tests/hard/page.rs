//! The table as a document.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{HOWS, Outcome, Section};

const OPENING: &str = "\
# Hard cases

Made by `crates/cli/tests/hard_cases.rs`, which runs every case with every mechanism and fails where
this table is not what it found; do not edit by hand. `WEIGH_BLESS=1` writes it anew.

Each job is run without weigh first: with weigh it must end the same way and say the same on both
streams. Its number of processes, CPU time, bytes written and greatest resident size are odd amounts
that it tells before it begins, and the recording is held to them. In the table

- `exact`: nothing was harmed, all that was compared is right and counts as exact in the summary;
- `told`: nothing was harmed; what is named there counts as sampled (or unavailable, if no look came in
  time) or estimated in the summary, with the reason, and never shows more than there was. The rest is
  right and exact;
- `fails`: not mended yet.

The clock of the day is not set in the tests, for that is everybody's. Times are counted from the start
of the command by a clock that can not be set; `preload` also compares the two clocks, to know programs
in a time namespace, and what it makes of a clock that is set meanwhile was not tried.

A value that is wrong and does not say so fails the tests. Jobs run as an ordinary user with `ptrace`,
`preload` and `poll`, unless what they do needs root (R).
";

/// The outcomes of one case, in the order of [`HOWS`].
pub type Row = Vec<Outcome>;

/// The document.
pub fn page(sections: &[Section], outcomes: &[Vec<Row>]) -> String {
    let mut text = OPENING.to_string();
    for (section, rows) in sections.iter().zip(outcomes) {
        let _ = writeln!(text, "\n## {}\n", section.title);
        let names: Vec<_> = HOWS.iter().map(|how| how.name).collect();
        let _ = writeln!(text, "| case | what happens | {} |", names.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(2 + HOWS.len()));
        for (case, row) in section.cases.iter().zip(rows) {
            let rights = if case.needs_root { " (R)" } else { "" };
            let cells: Vec<_> = row.iter().map(cell).collect();
            let _ =
                writeln!(text, "| {}{rights} | {} | {} |", case.name, case.does, cells.join(" | "));
        }
    }
    text
}

fn cell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exact => "exact".to_string(),
        Outcome::Told(what) => format!("told: {what}"),
        Outcome::Fails(what) => format!("**fails**: {what}"),
    }
}

/// Compares with the committed document; with `WEIGH_BLESS` set, writes it.
pub fn hold_to(text: &str) {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hard-cases.md"));
    if std::env::var_os("WEIGH_BLESS").is_some() {
        return std::fs::write(&path, text).expect("docs/hard-cases.md can be written");
    }
    // The compiled tests may run where there is no source.
    let Ok(committed) = std::fs::read_to_string(&path) else { return };
    assert!(
        committed == text,
        "docs/hard-cases.md is not what was found; if that is meant: \
         `WEIGH_BLESS=1 cargo test -p weigh --test hard_cases`.\n--- now:\n{text}"
    );
}
