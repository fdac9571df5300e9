//! No job, however nasty, is harmed or miscounted, whatever follows it; see `hard/mod.rs`.
//!
//! `WEIGH_HARD=full` takes the full sizes, and with `WEIGH_BLESS=1` notes what it found, for the
//! table of it; `WEIGH_HARD_ONLY=TEXT` runs the cases whose names, or mechanisms, contain that text,
//! and compares no table.

use std::time::Instant;

use crate::hard;
use crate::hard::page::{Part, Row};
use crate::hard::{Case, How, Outcome, Section};

/// What came of a section.
#[derive(Default)]
struct Findings<'s> {
    rows: Vec<Row>,
    failures: String,
    /// Of a machine of the tests' own.
    alone: Vec<(&'s Case, &'static How, Outcome)>,
}

/// Which cases are asked for by a part of their name and mechanism.
fn is_wanted(name: &str, how: &str) -> bool {
    let all = format!("{name} by {how}");
    std::env::var("WEIGH_HARD_ONLY").ok().is_none_or(|part| all.contains(part.as_str()))
}

/// Runs the cases of a section, one after the other, by two mechanisms at a time.
fn findings(section: &Section) -> Findings<'_> {
    let mut found = Findings::default();
    let is_ours = section.needs_own_machine;
    if is_ours && !crate::support::is_own_machine() {
        found.rows = section.cases.iter().map(hard::alone::row).collect();
        return found;
    }
    // In a guest without a CPU of its own what differs is the kernel, and so the mechanism in it; what is of its own
    // machine cannot be tried elsewhere.
    let some = crate::support::worth_the_time(&hard::HOWS, 1);
    let hows = if is_ours { &hard::HOWS } else { some };
    let at_once = if is_ours { 1 } else { 2 };
    for case in &section.cases {
        let mut row = Vec::new();
        let hows: Vec<_> = hows.iter().filter(|how| is_wanted(case.name, how.name)).collect();
        for (how, outcome) in hows.chunks(at_once).flat_map(|some| outcomes(case, some)) {
            match outcome {
                Ok(outcome) => {
                    row.push(hard::page::cell(&outcome));
                    if is_ours {
                        found.alone.push((case, how, outcome));
                    }
                }
                Err(error) => {
                    found.failures += &format!("=== {} by {}: {error}\n", case.name, how.name);
                }
            }
        }
        found.rows.push(row);
    }
    found
}

type Found = (&'static How, Result<Outcome, String>);

/// What came of a case with each of these mechanisms, beside each other.
fn outcomes(case: &Case, hows: &[&'static How]) -> Vec<Found> {
    let outcome = |how: &'static How| {
        let begun = Instant::now();
        let outcome = case.outcome(how);
        let told = outcome.as_ref().map_or("FAILED".to_string(), |outcome| format!("{outcome:?}"));
        println!("{} by {}: {told} ({:.1} s)", case.name, how.name, begun.elapsed().as_secs_f64());
        (how, outcome)
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = hows.iter().map(|how| scope.spawn(|| outcome(how))).collect();
        all.into_iter().map(|one| one.join().expect("a case's panic is a failure")).collect()
    })
}

/// Sections are beside each other, and in each two mechanisms: most of their cases wait for most of their time.
#[test]
fn every_case_with_every_mechanism() {
    needs_root!();
    let mut sections = hard::sections();
    if crate::support::is_slow() {
        sections.retain(|section| section.is_about_the_kernel);
    }
    let found: Vec<Findings<'_>> = std::thread::scope(|scope| {
        let all: Vec<_> =
            sections.iter().map(|section| scope.spawn(|| findings(section))).collect();
        all.into_iter().map(|one| one.join().expect("a case's panic is a failure")).collect()
    });
    let failures: String = found.iter().map(|found| found.failures.as_str()).collect();
    assert!(failures.is_empty(), "{failures}");
    let alone: Vec<_> = found.iter().flat_map(|found| found.alone.iter().cloned()).collect();
    if !alone.is_empty() {
        hard::alone::hold_to(&alone);
    }
    if std::env::var_os("WEIGH_HARD_ONLY").is_none() && !crate::support::is_slow() {
        let rows: Vec<Vec<Row>> = found.into_iter().map(|found| found.rows).collect();
        hard::page::hold_to(Part::Found, &hard::page::page(&sections, &rows));
    }
}

#[test]
fn the_table_of_full_sizes_is_that_of_its_figures() {
    let sections = hard::sections();
    let cases: Vec<_> = sections.iter().flat_map(|s| &s.cases).map(|case| case.name).collect();
    hard::page::hold_to(Part::Full, &hard::full::section(&cases));
}
