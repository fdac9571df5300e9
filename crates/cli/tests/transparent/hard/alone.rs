//! What was found on a machine of the tests' own: `docs/hard-cases-alone.json`. The tests there have no
//! source to compare with or write to, so the file is part of them.
//!
//! With `WEIGH_BLESS=FILE` they write what they found there; it belongs into `docs`.

use std::collections::BTreeMap;

use super::page::cell;
use super::{Case, HOWS, How, Outcome};

const NOTED: &str = include_str!("../../../../../docs/hard-cases-alone.json");

/// Cells of the table, by case and mechanism.
type Cells = BTreeMap<String, BTreeMap<String, String>>;

fn noted() -> Cells {
    serde_json::from_str(NOTED).expect("docs/hard-cases-alone.json is what was written there")
}

/// A row of the table, as it is noted.
pub fn row(case: &Case) -> Vec<String> {
    let cells = noted().remove(case.name).unwrap_or_default();
    let unknown = || "not run yet".to_string();
    HOWS.iter().map(|how| cells.get(how.name).cloned().unwrap_or_else(unknown)).collect()
}

/// Holds what was found to what is noted, or notes it.
pub fn hold_to(found: &[(&Case, &How, Outcome)]) {
    let mut cells = noted();
    for (case, how, outcome) in found {
        let row = cells.entry(case.name.to_string()).or_default();
        row.insert(how.name.to_string(), cell(outcome));
    }
    if let Some(path) = std::env::var_os("WEIGH_BLESS") {
        let text = serde_json::to_string_pretty(&cells).expect("JSON") + "\n";
        return std::fs::write(path, text).expect("the file of WEIGH_BLESS can be written");
    }
    // What exactly a look now and then has not seen depends on how fast weigh is.
    assert_eq!(kinds(cells), kinds(noted()), "docs/hard-cases-alone.json is not what was found");
}

fn kinds(cells: Cells) -> Cells {
    let kind = |text: String| text.split(':').next().unwrap_or_default().to_string();
    let row = |row: BTreeMap<String, String>| row.into_iter().map(|(how, text)| (how, kind(text)));
    cells.into_iter().map(|(case, cells)| (case, row(cells).collect())).collect()
}
