//! `docs/io.md`: what `weigh io` tells, from the declarations.

use std::fmt::Write as _;

use weigh_schema::Unit;
use weigh_schema::io::{FIELDS, REPORT, SEEN, SIZES, STRIDES, Transfer};

/// What no declaration says.
const PROSE: &str = include_str!("io.md");

/// A rule: its name, its threshold, its reason.
pub type Rule = (&'static str, &'static str, &'static str);

/// The whole page.
pub fn markdown(rules: &[Rule]) -> String {
    let mut out = PROSE
        .replace("{REPORT}", REPORT)
        .replace("{SEEN}", &SEEN.to_string())
        .replace("{STRIDES}", &STRIDES.to_string())
        .replace("{SIZES}", &SIZES.to_string());
    out.push_str("\n## Kinds of transfer\n\n| kind | what |\n|---|---|\n");
    for kind in Transfer::ALL {
        let _ = writeln!(out, "| `{}` | {} |", kind.name(), kind.help());
    }
    out.push_str("\n## Numbers of a file and process\n\n| key | unit | what |\n|---|---|---|\n");
    for field in FIELDS {
        let unit = match field.unit() {
            Unit::Count => "count".to_string(),
            unit => unit.to_string(),
        };
        let _ = writeln!(out, "| `{}` | {unit} | {} |", field.key(), field.help());
    }
    out.push_str("\n## Advice\n\nA rule speaks when its threshold is reached, never without its figures.\n\n");
    out.push_str("| rule | threshold | why, and what to do |\n|---|---|---|\n");
    for (name, threshold, reason) in rules {
        let _ = writeln!(out, "| `{name}` | {threshold} | {reason} |");
    }
    out
}
