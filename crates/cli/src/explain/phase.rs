//! `weigh explain --phase`: which resource moves with a phase of a recording's programs.
//!
//! Reads the recording's phases and samples; emits text, and JSON where that is wanted. Refuses a phase that there is none
//! of, with the names of those that there are.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use weigh_account::{PhaseSurvey, PhaseTimes, shell_words};
use weigh_keep::Recording;
use weigh_schema::amount::show_number_of;
use weigh_schema::explain::PhaseUsage;

use crate::destination::Destination;
use crate::show::tell;
use weigh_arguments::ExplainArguments;

/// Where nobody's terminal has to hold it.
const WIDE: usize = 100;
/// So many names are told of those that there are.
const NAMES: usize = 20;

/// Explains the phase.
pub fn execute(arguments: &ExplainArguments, phase: &str) -> anyhow::Result<ExitCode> {
    let json = arguments.json.as_deref().map(Destination::open).transpose()?;
    let report = report(&Recording::open(&arguments.file)?, phase)?;
    if !arguments.quiet {
        let is_taken = json.as_ref().is_some_and(Destination::is_standard_output);
        tell(is_taken, WIDE, |screen| {
            weigh_show::explain::phase::render(&report, screen.columns, screen.color)
        })?;
    }
    if let Some(json) = json {
        json.write(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn report(recording: &Recording, phase: &str) -> anyhow::Result<PhaseUsage> {
    let mut times = PhaseTimes::default();
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    recording.each_phase(|row| {
        if row.name == phase {
            times.add(&row);
        }
        if names.len() < NAMES || names.contains_key(&row.name) {
            *names.entry(row.name).or_default() += 1;
        }
    })?;
    if times.is_empty() {
        return no_such_phase(phase, &names);
    }
    let summary = recording.summary();
    let start_ns = i64::try_from(summary.job.started.as_nanosecond()).unwrap_or(i64::MAX);
    let mut survey = PhaseSurvey::new(times, start_ns);
    recording.each_sample(|row| survey.sample(&row))?;
    Ok(survey.report(&summary.metrics, shell_words(&summary.job.command), phase.to_string()))
}

fn no_such_phase(phase: &str, names: &BTreeMap<String, u64>) -> anyhow::Result<PhaseUsage> {
    if names.is_empty() {
        bail!(
            "no phase has ended in this recording: programs name them (see the page `regions` of weigh's documentation)"
        );
    }
    let told = names
        .iter()
        .map(|(name, times)| format!("{name} ({})", show_number_of(*times, "time", "times")));
    let more = if names.len() == NAMES { ", …" } else { "" };
    bail!("no phase is named {phase}; there are: {}{more}", told.collect::<Vec<_>>().join(", "))
}
