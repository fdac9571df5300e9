//! The reference of rules, `docs/rules.md`: the form of a file, and the shipped rules as they are.

use std::fmt::Write as _;

use weigh_schema::amount::show_seconds;

use super::rule::Rule;
use super::rule_set::{RuleSet, SHIPPED_RULES};

const FORM: &str = include_str!("../../data/rules.md");

/// The page.
pub fn markdown() -> String {
    let mut page = FORM.to_string();
    page += "## The shipped rules\n\n";
    page += "| rule | severity | for | says |\n|---|---|---|---|\n";
    let set = RuleSet::shipped();
    for rule in set.rules() {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            rule.name,
            rule.severity.name(),
            held(rule),
            cell(&rule.text)
        );
    }
    page += "\nWhy these thresholds, and the conditions:\n\n```toml\n";
    page += rules_alone().trim();
    page += "\n```\n";
    page
}

fn held(rule: &Rule) -> String {
    match rule.for_seconds() {
        0.0 => "at once".to_string(),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds => show_seconds(seconds),
    }
}

/// Values of a text are left as what they are the values of.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['{', '}'], "`")
}

/// The file behind its head.
fn rules_alone() -> &'static str {
    SHIPPED_RULES.split_once("shipped = false\n").map_or(SHIPPED_RULES, |(_, rules)| rules)
}
