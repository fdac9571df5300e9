//! Kernel costs of regions: exact odd numbers of bytes, as the program counts them, and waits, as the kernel does; in the
//! recording, as text and as JSON. Where nobody measures they are absent, with the reason.

use weigh_schema::region::{KernelCosts, RegionKind, RegionRow, RegionsFound, UNBOUND};
use weigh_schema::subsystem::Subsystem;
use weigh_schema::{Number, Quality};

use crate::support::is_there_an_agent;
use crate::support::library::program;
use crate::support::measured::Measured;
use crate::support::run::{Weigh, weigh};

fn costs(what: &str) -> Weigh {
    Weigh::run([program("regions_costs").display().to_string(), what.to_string()])
}

/// Rows of regions, by thread in the order of their calls.
fn rows(measured: &Measured) -> Vec<RegionRow> {
    let mut rows = Vec::new();
    measured.recording().each_region(|row| rows.push(row)).expect("the table can be read");
    rows.retain(|row| row.kind != RegionKind::Thread);
    rows
}

fn found(measured: &Measured) -> RegionsFound {
    *measured.summary().regions.clone().unwrap_or_else(|| panic!("{}", measured.everything()))
}

fn number(row: &RegionRow, part: &str, name: &str) -> Option<u64> {
    let costs = row.kernel_costs.as_ref()?;
    let part = Subsystem::named(part).expect("a part of the kernel");
    let field = part.fields.iter().find(|field| field.name == name).expect("a field");
    match costs.number(part, field)? {
        Number::Whole(number) => Some(number),
        Number::Real(_) => panic!("{name} is whole"),
    }
}

/// Calls, and bytes that were sent and received, of each row of a path.
fn told(rows: &[RegionRow], path: &[&str]) -> Vec<(u64, Option<u64>, Option<u64>)> {
    let rows = rows.iter().filter(|row| row.path == path);
    let numbers = |row: &RegionRow| {
        let bytes = |name| number(row, "socket", name);
        (row.calls, bytes("sent"), bytes("received"))
    };
    let mut told: Vec<_> = rows.map(numbers).collect();
    told.sort_unstable();
    told
}

#[test]
fn a_region_has_what_its_system_calls_cost() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let measured = costs("all").measure();
    let rows = rows(&measured);
    let of = |calls: u64, bytes: u64| (calls, Some(calls * bytes), Some(calls * bytes));
    // The other two are the threads'.
    assert_eq!(told(&rows, &["send"]), [of(5, 101), of(7, 411), of(8, 101)], "{rows:#?}");
    assert_eq!(told(&rows, &["outer"]), [of(5, 112)]);
    assert_eq!(told(&rows, &["outer", "inner"]), [of(5, 53)]);
    assert_eq!(told(&rows, &["outer", "without"]), [(5, None, None)]);
    let wait = rows.iter().find(|row| row.path == ["wait"]).expect("a row");
    let said = String::from_utf8_lossy(&measured.stdout);
    let waits = said.trim().strip_prefix("waits ").and_then(|n| n.parse().ok());
    assert!(waits.is_some_and(|waits| waits >= 3), "{said}");
    assert_eq!(number(wait, "sched", "switches"), waits, "{wait:#?}");
    let unavailable = found(&measured).kernel_costs_unavailable;
    assert_eq!(unavailable, [(UNBOUND.to_string(), 1)].into());
    is_shown(&measured);
}

/// Over threads, in words and as JSON.
fn is_shown(measured: &Measured) {
    let place = measured.scratch.path("recording").display().to_string();
    let text = |options: &[&str]| {
        let arguments = [&["show", "--regions"], options, &[place.as_str()]].concat();
        String::from_utf8_lossy(&weigh(&measured.scratch, &arguments).stdout).into_owned()
    };
    assert!(text(&[]).contains("B sent (socket)"), "{}", text(&[]));
    let flat: serde_json::Value = serde_json::from_str(&text(&["--flat", "--json"])).expect("JSON");
    let regions = flat["regions"].as_array().expect("a list");
    let send = regions.iter().find(|region| region["name"] == "send").expect("a region");
    let sent = &send["kernel_costs"]["parts"]["socket"]["sent_bytes_total"];
    assert_eq!(*sent, 7 * 411 + 13 * 101, "{send:#}");
    let without = regions.iter().find(|region| region["name"] == "without").expect("a region");
    assert!(without.get("kernel_costs").is_none(), "{without:#}");
}

/// Of a program that asks for none itself, or not for this one.
#[test]
fn regions_of_a_pattern_have_an_account_without_the_program() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let rows = rows(&costs("all").options("--regions=costs:nothing,costs:with*").measure());
    assert_eq!(told(&rows, &["outer", "without"]), [(5, Some(55), Some(55))], "{rows:#?}");
    assert_eq!(told(&rows, &["outer"]), [(5, Some(505), Some(505))]);
}

#[test]
fn a_killed_program_leaves_the_costs_of_calls_that_had_ended() {
    needs_root!();
    if is_there_an_agent() {
        return;
    }
    let rows = rows(&costs("killed").end());
    assert_eq!(told(&rows, &["send"]), [(4, Some(388), Some(388))]);
    assert_eq!(rows[0].open_calls, 1);
}

#[test]
fn where_nobody_measures_costs_are_absent_with_the_reason() {
    if is_there_an_agent() {
        return;
    }
    let measured = costs("all").options("--mechanism poll").end();
    let rows = rows(&measured);
    assert_eq!(told(&rows, &["outer"]), [(5, None, None)]);
    let outer = rows.iter().find(|row| row.path == ["outer"]).expect("a row");
    let costs = outer.kernel_costs.as_ref().expect("an account is bound to it");
    let reason = costs.reason.clone().expect("a reason");
    assert_eq!(*costs, KernelCosts::unavailable(&reason));
    assert!(reason.contains("no agent of weigh answers"), "{reason}");
    assert_eq!(costs.quality, Quality::Unavailable);
    assert_eq!(found(&measured).kernel_costs_unavailable[&reason], 6);
}
