//! `docs/mechanisms.md`, from the declarations of the levels and of the ways to follow a job.

use std::collections::BTreeMap;

use serde::Deserialize;
use weigh_schema::following::{FOLLOWINGS, Following, Level};

/// What `make bench` has measured.
const COSTS: &str = include_str!("../../../../docs/measurements/costs.json");

#[derive(Deserialize)]
struct Costs {
    measured: String,
    machine: Vec<(String, String)>,
    works: Vec<Work>,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Work {
    work: String,
    ways: Vec<Cost>,
}

#[derive(Deserialize)]
struct Cost {
    way: String,
    cpu_more_percent: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct Call {
    way: String,
    us_a_call: f64,
}

/// The figures by way and work, as a table; nothing if there are none.
fn costs() -> String {
    // The file is written by `make bench`, and read here by a test.
    let costs: Costs =
        serde_json::from_str(COSTS).expect("docs/measurements/costs.json is what bench writes");
    if costs.works.is_empty() {
        return String::new();
    }
    let machine: Vec<_> = costs.machine.iter().map(|(_, fact)| fact.as_str()).collect();
    let mut out = format!(
        "\n## What each costs\n\nCPU time that a command takes more, in percent (median, and its 95 % \
         interval), measured on {} ({}) by `make bench`; the method, and what weigh itself uses \
         beside the command, are in [measurements/performance.md](measurements/performance.md).\n\n| mechanism, level |",
        costs.measured,
        machine.join("; ")
    );
    out.extend(costs.works.iter().map(|work| format!(" {} |", work.work)));
    out += &format!("\n|---|{}\n", "---|".repeat(costs.works.len()));
    let slow: BTreeMap<&str, f64> =
        costs.calls.iter().map(|call| (call.way.as_str(), call.us_a_call)).collect();
    for following in FOLLOWINGS {
        for level in following.levels {
            let way = format!("{} {}", following.name, level.number());
            out += &format!("| {way} |");
            for work in &costs.works {
                let cell = match work.ways.iter().find(|cost| cost.way == way) {
                    Some(Cost { cpu_more_percent, low, high, .. }) => {
                        format!("{cpu_more_percent:+.1} ({low:+.1} … {high:+.1})")
                    }
                    None => slow
                        .get(way.as_str())
                        .map_or("–".to_string(), |us| format!("{us:.1} µs a call")),
                };
                out += &format!(" {cell} |");
            }
            out.push('\n');
        }
    }
    out
}

/// The reference of all mechanisms.
pub fn mechanisms_markdown() -> String {
    let mut out = String::from(
        "# Levels and mechanisms\n\n\
         Derived from the declarations in `crates/schema/src/following.rs`; do not edit by hand. \
         What each costs is measured in [measurements/performance.md](measurements/performance.md).\n\n\
         `weigh run --mechanism NAME --level N` chooses. Without them weigh takes the first of \
         these that works, and says on standard error why it is not a better \
         one; `weigh doctor` says what works. A mechanism that is named and does not work is an \
         error, and the command is not run.\n\n",
    );
    out.push_str("| level | |\n|---|---|\n");
    for level in Level::ALL {
        out.push_str(&format!("| {} | {} |\n", level.number(), level.help()));
    }
    out.push_str("\n| mechanism | levels | needs | a limit is noticed |\n|---|---|---|---|\n");
    for Following { name, needs, limits, .. } in FOLLOWINGS {
        out.push_str(&format!("| [`{name}`](#{name}) | {} | {needs} | {limits} |\n", levels(name)));
    }
    for Following { name, mechanism, sees, loses, needs, unasked, .. } in FOLLOWINGS {
        out.push_str(&format!(
            "\n## {name}\n\nSource of its values in the summary: `{mechanism}`. Levels: {}; {} unless asked for.\n\n\
             - Sees: {sees}.\n- Loses: {loses}.\n- Needs: {needs}.\n",
            levels(name),
            unasked.number()
        ));
    }
    out + &costs()
}

fn levels(name: &str) -> String {
    let following = weigh_schema::following::following(name);
    let numbers = following.iter().flat_map(|f| f.levels).map(|level| level.number().to_string());
    numbers.collect::<Vec<_>>().join(", ")
}
