//! `docs/calls.md`: what `weigh calls` tells, from the declarations of the subsystems.

use std::fmt::Write as _;

use weigh_schema::Unit;
use weigh_schema::call::REPORT;
use weigh_schema::subsystem::{BY_PART, Field, LATER, PART, SUBSYSTEMS};

/// What no declaration says.
const PROSE: &str = include_str!("calls.md");

/// The whole page.
pub fn markdown() -> String {
    let mut out = PROSE.replace("{REPORT}", REPORT);
    out.push_str("\n## Parts of the kernel\n\nOf each:\n\n");
    out.push_str(&table(PART));
    out.push_str("\nBeside that:\n\n");
    for subsystem in SUBSYSTEMS {
        let _ = writeln!(out, "### `{}`\n\n{}.\n", subsystem.name, capitalised(subsystem.help));
        if !subsystem.fields.is_empty() {
            out.push_str(&table(subsystem.fields));
            out.push('\n');
        }
    }
    out.push_str(
        "## What a part's own code did\n\nOn request (`--by-part`), in `by_part`, an object for each part: while it was the innermost \
         one, so that numbers of several parts add up to those of the whole.\n\n",
    );
    out.push_str(&table(BY_PART));
    out.push('\n');
    out.push_str(
        "## What comes later\n\nThings that calls caused and that happened when they had returned, \
         in `later`:\n\n",
    );
    out.push_str(&table(LATER));
    out
}

fn table(fields: &[Field]) -> String {
    let mut out = String::from("| key | unit | what |\n|---|---|---|\n");
    for field in fields {
        let unit = match field.unit {
            Unit::Count => "count".to_string(),
            unit => unit.to_string(),
        };
        let _ = writeln!(out, "| `{}` | {unit} | {} |", field.key(), field.help);
    }
    out
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
