//! No job, however nasty, is harmed or miscounted, whatever follows it; see `hard/mod.rs`.
//!
//! `WEIGH_HARD=full` takes the full sizes, and with `WEIGH_BLESS=1` notes what it found, for the
//! table of it; `WEIGH_HARD_ONLY=TEXT` runs the cases whose names, or mechanisms, contain that text,
//! and compares no table.

use std::time::Instant;

use crate::hard;
use crate::hard::page::Part;

#[test]
fn every_case_with_every_mechanism() {
    needs_root!();
    let only = std::env::var("WEIGH_HARD_ONLY").ok();
    let is_wanted = |name: &str, how: &str| {
        let all = format!("{name} by {how}");
        only.as_ref().is_none_or(|part| all.contains(part.as_str()))
    };
    // In a guest without a CPU of its own what differs is the kernel, and so the mechanism in it.
    let hows = crate::support::worth_the_time(&hard::HOWS, 1);
    let mut sections = hard::sections();
    if crate::support::is_slow() {
        sections.retain(|section| section.is_about_the_kernel);
    }
    let mut failures = String::new();
    let mut all_rows = Vec::new();
    let mut alone = Vec::new();
    for section in &sections {
        let is_ours = section.needs_own_machine;
        if is_ours && !crate::support::is_own_machine() {
            all_rows.push(section.cases.iter().map(hard::alone::row).collect());
            continue;
        }
        let mut rows = Vec::new();
        for case in &section.cases {
            let mut row = Vec::new();
            // Elsewhere they cannot be tried.
            let hows = if is_ours { &hard::HOWS } else { hows };
            for how in hows.iter().filter(|how| is_wanted(case.name, how.name)) {
                let begun = Instant::now();
                let outcome = case.outcome(how);
                let took = begun.elapsed().as_secs_f64();
                match outcome {
                    Ok(outcome) => {
                        println!("{} by {}: {outcome:?} ({took:.1} s)", case.name, how.name);
                        row.push(hard::page::cell(&outcome));
                        if is_ours {
                            alone.push((case, how, outcome));
                        }
                    }
                    Err(error) => {
                        println!("{} by {}: FAILED ({took:.1} s)", case.name, how.name);
                        failures += &format!("=== {} by {}: {error}\n", case.name, how.name);
                    }
                }
            }
            rows.push(row);
        }
        all_rows.push(rows);
    }
    assert!(failures.is_empty(), "{failures}");
    if !alone.is_empty() {
        hard::alone::hold_to(&alone);
    }
    if only.is_none() && !crate::support::is_slow() {
        hard::page::hold_to(Part::Found, &hard::page::page(&sections, &all_rows));
    }
}

#[test]
fn the_table_of_full_sizes_is_that_of_its_figures() {
    let sections = hard::sections();
    let cases: Vec<_> = sections.iter().flat_map(|s| &s.cases).map(|case| case.name).collect();
    hard::page::hold_to(Part::Full, &hard::full::section(&cases));
}
