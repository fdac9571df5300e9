//! `weigh explain`: what made slow calls slow.
//!
//! Reads the file of `weigh calls --per-call`, twice; emits text on standard output (on standard error
//! where JSON is on that), JSON and a page where that is wanted. Refuses a file that holds no calls, names of calls and tokens that are not in it, and
//! intervals where it has none. What the file lacks is told as such, and is not 0.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use weigh_account::{FollowedCommand, Intervals, Missing, Survey};
use weigh_keep::{Lacking, calls_note, each_call};
use weigh_schema::amount::show_number_of;
use weigh_schema::call_row::CallRow;
use weigh_schema::explain::{AskedToken, ExplainReport, INTERVAL, Of, Unavailable};
use weigh_schema::nearest;

use crate::arguments::{CompareBy, ExplainArguments};
use crate::destination::Destination;
use crate::show::tell;

/// Where nobody's terminal has to hold it.
const WIDE: usize = 100;

/// Explains the calls.
pub fn execute(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let json = arguments.json.as_deref().map(Destination::open).transpose()?;
    let report = report(arguments)?;
    if !arguments.quiet {
        let is_taken = json.as_ref().is_some_and(Destination::is_standard_output);
        tell(is_taken, WIDE, |screen| {
            weigh_show::explain::render(&report, arguments.rows, screen.columns, screen.color)
        })?;
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
    let (note, lacking) = calls_note(&arguments.file)?;
    let of = compared(arguments)?;
    let mut survey = Survey::asked_for(&arguments.tokens);
    let found = match of {
        Of::Call => survey_calls(arguments, &mut survey)?,
        Of::Interval | Of::Token => survey_intervals(arguments, &mut survey, of, &lacking)?,
    };
    let mut comparison = survey.compare(arguments.slow);
    each(&arguments.file, of, |row| {
        if found.contains(&row.call) {
            comparison.add(&row);
        }
    })?;
    let missing = Missing {
        untold: note.untold,
        lost: note.lost,
        untold_later: note.untold_later,
        merged_later: note.merged_later,
        unknown_later: note.unknown_later,
        unavailable: unavailable(&lacking),
    };
    let followed = FollowedCommand { words: note.command, base64: note.command_base64 };
    Ok(comparison.report(of, followed, missing))
}

/// What is compared; intervals where these are asked for.
fn compared(arguments: &ExplainArguments) -> anyhow::Result<Of> {
    match arguments.by {
        None if arguments.tokens.is_empty() => Ok(Of::Call),
        None | Some(CompareBy::Interval) => Ok(Of::Interval),
        Some(by) if arguments.tokens.is_empty() => Ok(by.into()),
        Some(_) => bail!(
            "--token compares intervals with all others: leave out --by, or say --by interval"
        ),
    }
}

/// What is known of no call, for the file has it not.
fn unavailable(lacking: &Lacking) -> Vec<Unavailable> {
    let reason = why(lacking);
    let names = lacking.columns.iter().chain(&lacking.numbers);
    names.map(|name| Unavailable { name: name.to_string(), reason: reason.clone() }).collect()
}

fn why(lacking: &Lacking) -> String {
    match lacking.maker.as_str() {
        // An older one of the same version is possible: one that is being worked on.
        maker if maker.starts_with("weigh ") => {
            format!("the file was made by an older weigh ({maker})")
        }
        "" => "the file was not made by weigh, or was changed since".to_string(),
        maker => format!("the file was changed since, by {maker}"),
    }
}

/// Shows all calls of a file, or all intervals.
fn each(file: &Path, of: Of, mut visit: impl FnMut(CallRow)) -> anyhow::Result<()> {
    let mut intervals = Intervals::new(of);
    each_call(file, |row| {
        if let Some(row) = intervals.add(row) {
            visit(row);
        }
    })?;
    intervals.rest().for_each(visit);
    Ok(())
}

/// The kinds of calls that are wanted.
fn survey_calls(
    arguments: &ExplainArguments,
    survey: &mut Survey,
) -> anyhow::Result<BTreeSet<String>> {
    let is_wanted = |call: &String| arguments.calls.is_empty() || arguments.calls.contains(call);
    let (mut found, mut others) = (BTreeSet::new(), BTreeSet::new());
    each(&arguments.file, Of::Call, |row| {
        let of_kind = if is_wanted(&row.call) {
            survey.add(&row);
            &mut found
        } else {
            &mut others
        };
        if !of_kind.contains(&row.call) {
            of_kind.insert(row.call);
        }
    })?;
    if let Some(call) = arguments.calls.iter().find(|call| !found.contains(*call)) {
        let known = others.iter().chain(&found).map(String::as_str);
        let hint = match nearest(call, known).first() {
            Some(near) => format!("; did you mean {near}?"),
            None => String::new(),
        };
        bail!("{} holds no call named '{call}'{hint}", arguments.file.display());
    }
    Ok(found)
}

fn survey_intervals(
    arguments: &ExplainArguments,
    survey: &mut Survey,
    of: Of,
    lacking: &Lacking,
) -> anyhow::Result<BTreeSet<String>> {
    if !arguments.calls.is_empty() {
        bail!("--call looks at single calls: leave it out with --by interval and --by token");
    }
    if let Some(column) = ["interval", "token"].iter().find(|name| lacking.columns.contains(*name))
    {
        let (file, reason) = (arguments.file.display(), why(lacking));
        bail!(
            "{file} does not say which calls are of an interval: it has no column {column}, for {reason}"
        );
    }
    let mut is_any = false;
    each(&arguments.file, of, |row| {
        is_any = true;
        survey.add(&row);
    })?;
    if !is_any {
        bail!(
            "{} holds no intervals: no call was made between weigh_begin() and weigh_end() of \
             libweigh; --by call compares single calls",
            arguments.file.display()
        );
    }
    if let Some(unfound) = survey.unfound() {
        bail!("{}", that_there_is_none(&arguments.file, unfound)?);
    }
    Ok(BTreeSet::from([INTERVAL.to_string()]))
}

/// That a file has no interval of a token; and how many of others, by which one sees whether it is the right file.
fn that_there_is_none(file: &Path, asked: &AskedToken) -> anyhow::Result<String> {
    let (mut intervals, mut tokens) = (0, BTreeSet::new());
    each(file, Of::Interval, |row| {
        intervals += 1;
        tokens.extend(row.interval.map(|interval| interval.token));
    })?;
    Ok(format!(
        "{} holds no interval of {asked}: it has {} of {}",
        file.display(),
        Of::Interval.number(intervals),
        show_number_of(tokens.len() as u64, "token", "tokens")
    ))
}
