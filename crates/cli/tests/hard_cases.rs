//! No job, however nasty, is harmed or miscounted, whatever follows it; see `hard/mod.rs`.
//!
//! `WEIGH_HARD=full` takes the full sizes; `WEIGH_HARD_ONLY=TEXT` runs the cases whose names, or
//! mechanisms, contain that text, and compares no table.

mod hard;
mod support;

use std::time::Instant;

#[test]
fn every_case_with_every_mechanism() {
    needs_root!();
    let only = std::env::var("WEIGH_HARD_ONLY").ok();
    let is_wanted = |name: &str, how: &str| {
        let all = format!("{name} by {how}");
        only.as_ref().is_none_or(|part| all.contains(part.as_str()))
    };
    // In a guest without a CPU of its own what differs is the kernel, and so the mechanism in it.
    let hows = support::worth_the_time(&hard::HOWS, 1);
    let mut sections = hard::sections();
    if support::is_slow() {
        sections.retain(|section| section.is_about_the_kernel);
    }
    let mut failures = String::new();
    let mut outcomes = Vec::new();
    for section in &sections {
        let mut rows = Vec::new();
        for case in &section.cases {
            let mut row = Vec::new();
            for how in hows.iter().filter(|how| is_wanted(case.name, how.name)) {
                let begun = Instant::now();
                let outcome = case.outcome(how);
                let took = begun.elapsed().as_secs_f64();
                match outcome {
                    Ok(outcome) => {
                        println!("{} by {}: {outcome:?} ({took:.1} s)", case.name, how.name);
                        row.push(outcome);
                    }
                    Err(error) => {
                        println!("{} by {}: FAILED ({took:.1} s)", case.name, how.name);
                        failures += &format!("=== {} by {}: {error}\n", case.name, how.name);
                    }
                }
            }
            rows.push(row);
        }
        outcomes.push(rows);
    }
    assert!(failures.is_empty(), "{failures}");
    if only.is_none() && !support::is_slow() {
        hard::page::hold_to(&hard::page::page(&sections, &outcomes));
    }
}
