//! The table as a document.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use super::{HOWS, Outcome, Section};

const OPENING: &str = "\
# Hard cases

Made by `crates/cli/tests/transparent/hard_cases.rs`, which runs every case with every mechanism and fails where
this table is not what it found; do not edit by hand. `WEIGH_BLESS=1` writes it anew.

Each job is run without weigh first: with weigh it must end the same way and say the same on both
streams. Its number of processes, CPU time, bytes written and greatest resident size are odd amounts
that it tells before it begins, and the recording is held to them. In the table

- `exact`: nothing was harmed, all that was compared is right and counts as exact in the summary;
- `told`: nothing was harmed; what is named there counts as sampled (or unavailable, if no look came in
  time) or estimated in the summary, with the reason, and never shows more than there was. The rest is
  right and exact;
- `fails`: not mended yet.

Sums of bytes are estimates where sockets, splice, tee, vmsplice or AIO are in no sum: none of these jobs uses them,
so that is not told here, and they are held to be right to the byte. So are peaks of memory by the kernel's own marks,
which since Linux 6.2 may be off by what each CPU has not added yet: they are held to the job's own amount.

A value that is wrong and does not say so fails the tests. Jobs run as an ordinary user with `ptrace`,
`preload` and `poll`, unless what they do needs root (R).
";

const OWN_MACHINE: &str = "\
It is the whole machine's, so it is set only where the tests have one of their own: in QEMU, on Debian's
6.1, by `make test-vm`. What they find there is held to `docs/hard-cases-alone.json`. Each mechanism is run at
each of its levels, as root. A machine that sleeps meanwhile is not tried: all times are counted by the
clock that runs on (`CLOCK_BOOTTIME`), so that the sleep is part of the job's time in every mechanism.";

/// The cells of one case, in the order of [`HOWS`].
pub type Row = Vec<String>;

/// The document.
pub fn page(sections: &[Section], all_rows: &[Vec<Row>]) -> String {
    let mut text = OPENING.to_string();
    for (section, rows) in sections.iter().zip(all_rows) {
        let _ = writeln!(text, "\n## {}\n", section.title);
        if section.needs_own_machine {
            let _ = writeln!(text, "{OWN_MACHINE}\n");
        }
        let names: Vec<_> = HOWS.iter().map(|how| how.name).collect();
        let _ = writeln!(text, "| case | what happens | {} |", names.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(2 + HOWS.len()));
        for (case, row) in section.cases.iter().zip(rows) {
            let rights = if case.needs_root { " (R)" } else { "" };
            let _ =
                writeln!(text, "| {}{rights} | {} | {} |", case.name, case.does, row.join(" | "));
        }
    }
    text
}

/// An outcome as the table has it.
pub fn cell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exact => "exact".to_string(),
        Outcome::Told(what) => format!("told: {what}"),
        Outcome::Fails(what) => format!("**fails**: {what}"),
    }
}

/// Where the part begins that is made of figures that are not taken each time.
const FULL: &str = "\n## At full size\n";

/// The parts of the document.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What the tests find each time.
    Found,
    /// What was found at full size.
    Full,
}

/// The document without which values exactly are sampled: whether a look comes in time is chance, and a
/// faster weigh looks more often.
fn without_chance(text: &str) -> String {
    let part = |part: &str| if part.ends_with(" sampled") { "sampled" } else { part }.to_string();
    let cell = |cell: &str| match cell.strip_prefix("told: ") {
        Some(told) => told.split("; ").map(part).collect::<Vec<_>>().join("; "),
        None => cell.to_string(),
    };
    let line = |line: &str| {
        let line = line.strip_suffix(" |").unwrap_or(line);
        line.split(" | ").map(cell).collect::<Vec<_>>().join(" | ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_sampled_may_differ_and_nothing_else() {
    let line = |last: &str| format!("| a | does | exact | {last} |");
    let known = line("told: processes, memory sampled; bytes estimated");
    let same = |other: &str| without_chance(&known) == without_chance(&line(other));
    assert!(same("told: memory sampled; bytes estimated"));
    for other in ["exact", "told: memory sampled", "told: memory sampled; CPU estimated"] {
        assert!(!same(other), "{other}");
    }
}

/// Compares a part with that of the committed document; with `WEIGH_BLESS` set, writes it.
pub fn hold_to(part: Part, text: &str) {
    // Tests run beside each other, and the file is one.
    static FILE: Mutex<()> = Mutex::new(());
    let _alone = FILE.lock();
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hard-cases.md"));
    // The compiled tests may run where there is no source.
    let Ok(committed) = std::fs::read_to_string(&path) else { return };
    let (found, full) = committed.split_at(committed.find(FULL).unwrap_or(committed.len()));
    if std::env::var_os("WEIGH_BLESS").is_some() {
        let whole = match part {
            Part::Found => format!("{text}{full}"),
            Part::Full => format!("{found}{text}"),
        };
        return std::fs::write(&path, whole).expect("docs/hard-cases.md can be written");
    }
    let known = if part == Part::Found { found } else { full };
    assert!(
        without_chance(known) == without_chance(text),
        "docs/hard-cases.md is not what was found; if that is meant: \
         `WEIGH_BLESS=1 cargo test -p weigh --test hard_cases`.\n--- now:\n{text}"
    );
}
