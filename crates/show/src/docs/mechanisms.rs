//! `docs/mechanisms.md`, from the declarations of the levels and of the ways to follow a job.

use std::collections::BTreeMap;

use serde::Deserialize;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::following::{FOLLOWINGS, Following, Level};
use weigh_schema::source_traits::SourceTraits;

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

/// A row of the table of sources.
struct SourceRow<'a> {
    name: &'a str,
    gives: &'a str,
    traits: SourceTraits,
}

/// Every source of values that declares what it asks: mechanisms first, then collectors; within each those that ask the
/// job least come first.
fn sources(collectors: &[CollectorInfo]) -> String {
    let of_following = |following: &'static Following| SourceRow {
        name: following.name,
        gives: "the job as a whole: see above",
        traits: SourceTraits {
            mode: following.unasked,
            rights: following.needs,
            scope: following.scope,
            intrusiveness: following.intrusiveness,
            cost: following.cost,
        },
    };
    let of_collector = |info: &CollectorInfo| {
        Some(SourceRow { name: info.name, gives: info.gives, traits: info.traits? })
    };
    let is_mechanism = |row: &SourceRow<'_>| FOLLOWINGS.iter().any(|f| f.name == row.name);
    let mut rows: Vec<SourceRow<'_>> = FOLLOWINGS.iter().map(of_following).collect();
    rows.extend(collectors.iter().filter_map(of_collector).filter(|row| !is_mechanism(row)));
    rows.sort_by_key(|row| (!is_mechanism(row), row.traits.intrusiveness, row.traits.mode));
    let mut out = String::from(
        "\n## All sources\n\nWhat each source of values asks, mechanisms first. A query asks the kernel now and \
         then, a notification comes from it, an interposition stands between a program and the kernel. Intrusive is \
         what a job can notice: none, low (it is slower, or shares the machine with more), medium (something is in it), \
         high (some programs behave differently).\n\n\
         | source | gives | mode | rights | scope | intrusive | costs |\n|---|---|---|---|---|---|---|\n",
    );
    for SourceRow { name, gives, traits } in rows {
        let SourceTraits { mode, rights, scope, intrusiveness, cost } = traits;
        let mode = mode.word();
        out += &format!(
            "| `{name}` | {gives} | {mode} | {rights} | {scope} | {intrusiveness} | {cost} |\n"
        );
    }
    out
}

/// The reference of all mechanisms, and of these collectors beside them.
pub fn mechanisms_markdown(collectors: &[CollectorInfo]) -> String {
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
    out + &sources(collectors) + &costs()
}

fn levels(name: &str) -> String {
    let following = weigh_schema::following::following(name);
    let numbers = following.iter().flat_map(|f| f.levels).map(|level| level.number().to_string());
    numbers.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::source_traits::Intrusiveness;

    #[test]
    fn every_source_has_one_row_and_those_that_are_none_have_not() {
        const TRAITS: SourceTraits = SourceTraits {
            mode: Level::Query,
            rights: "none",
            scope: "file systems",
            intrusiveness: Intrusiveness::None,
            cost: "nothing",
        };
        let with = |name| CollectorInfo::new(name, "something", None).asks(TRAITS);
        let none = CollectorInfo::new("recording", "what was recorded", None);
        let text = mechanisms_markdown(&[with("space"), with("preload"), none]);
        let rows = |name: &str| {
            let head = format!("| `{name}` | ");
            text.lines().filter(|line| line.starts_with(&head)).count()
        };
        for following in FOLLOWINGS {
            assert_eq!(rows(following.name), 1, "{}", following.name);
        }
        assert_eq!((rows("space"), rows("recording")), (1, 0));
        assert!(
            text.contains("| `space` | something | query | none | file systems | none | nothing |")
        );
    }
}
