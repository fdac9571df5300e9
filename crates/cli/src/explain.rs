//! `weigh explain`: what made slow calls slow.
//!
//! Reads the file of `weigh calls --per-call`, twice; emits text on standard output, JSON and a
//! page where that is wanted. Refuses a file that holds no calls, and names of calls that are not in it.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use weigh_account::Survey;
use weigh_keep::{calls_note, each_call};
use weigh_schema::explain::ExplainReport;
use weigh_schema::nearest;

use crate::arguments::ExplainArguments;
use crate::destination::Destination;
use crate::show::{color, print, width};

/// Where nobody's terminal has to hold it.
const WIDE: usize = 100;

/// Explains the calls.
pub fn execute(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let json = arguments.json.as_deref().map(Destination::open).transpose()?;
    let report = report(arguments)?;
    if !arguments.quiet {
        let out = std::io::stdout();
        let columns = if out.is_terminal() { width(&out) } else { WIDE };
        print(&weigh_show::explain::render(&report, arguments.rows, columns, color(&out)))?;
    }
    if let Some(page) = &arguments.page {
        std::fs::write(page, weigh_show::explain::page::render(&report))
            .with_context(|| format!("cannot write {}", page.display()))?;
    }
    if let Some(json) = json {
        json.write(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn report(arguments: &ExplainArguments) -> anyhow::Result<ExplainReport> {
    let note = calls_note(&arguments.file)?;
    let is_wanted = |call: &String| arguments.calls.is_empty() || arguments.calls.contains(call);
    let (mut survey, mut others) = (Survey::default(), BTreeSet::new());
    let mut found = BTreeSet::new();
    each_call(&arguments.file, |row| {
        if is_wanted(&row.call) {
            survey.add(&row);
            if !arguments.calls.is_empty() && !found.contains(&row.call) {
                found.insert(row.call);
            }
        } else if !others.contains(&row.call) {
            others.insert(row.call);
        }
    })?;
    for call in arguments.calls.iter().filter(|call| !found.contains(*call)) {
        let known = others.iter().chain(&found).map(String::as_str);
        let hint = match nearest(call, known).first() {
            Some(near) => format!("; did you mean {near}?"),
            None => String::new(),
        };
        bail!("{} holds no call named '{call}'{hint}", arguments.file.display());
    }
    let mut comparison = survey.compare(arguments.slow);
    each_call(&arguments.file, |row| {
        if is_wanted(&row.call) {
            comparison.add(&row);
        }
    })?;
    Ok(comparison.report(note.command, note.untold, note.lost))
}
