//! `weigh explain`: what made slow calls slow.
//!
//! Reads the file of `weigh calls --per-call`, twice; emits text on standard output (on standard error
//! where JSON is on that), JSON and a page where that is wanted. Refuses a file that holds no calls, and intervals of one
//! that does not say which calls are of which. What the file lacks is reported as such, and is not 0.

mod phase;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use weigh_account::{ExplainRequest, FollowedCommand, Missing, explain};
use weigh_keep::{Lacking, calls_note, each_call};
use weigh_schema::call_row::CallRow;
use weigh_schema::explain::{ExplainReport, Of, Unavailable};

use crate::destination::Destination;
use crate::show::tell;
use weigh_arguments::ExplainArguments;

/// Where nobody's terminal has to hold it.
const WIDE: usize = 100;

/// Explains the calls.
pub fn execute(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    if let Some(name) = &arguments.phase {
        return phase::execute(arguments, name);
    }
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
    let of = choose_comparison(arguments)?;
    if of != Of::Call {
        check_intervals(arguments, &lacking)?;
    }
    let missing = Missing {
        untold: note.untold,
        lost: note.lost,
        untold_later: note.untold_later,
        merged_later: note.merged_later,
        unknown_later: note.unknown_later,
        unavailable: unavailable(&lacking),
    };
    let ExplainArguments { file, calls, tokens, slow, .. } = arguments;
    let request = ExplainRequest { of, calls, tokens, slow: *slow };
    let read = |visit: &mut dyn FnMut(CallRow)| each_call(file, visit).map(drop);
    let followed = FollowedCommand { words: note.command, base64: note.command_base64 };
    match explain(&request, followed, missing, &read)? {
        Ok(report) => Ok(report),
        Err(nothing) => bail!("{} {nothing}", file.display()),
    }
}

/// Whether intervals can be asked for, with these options and of this file.
fn check_intervals(arguments: &ExplainArguments, lacking: &Lacking) -> anyhow::Result<()> {
    if !arguments.calls.is_empty() {
        bail!("--call looks at single calls: leave it out with --by interval and --by token");
    }
    if let Some(column) = ["interval", "token"].iter().find(|name| lacking.columns.contains(*name))
    {
        let (file, reason) = (arguments.file.display(), reason(lacking));
        bail!(
            "{file} does not say which calls are of an interval: it has no column {column}, for {reason}"
        );
    }
    Ok(())
}

/// What is compared; intervals where these are asked for.
fn choose_comparison(arguments: &ExplainArguments) -> anyhow::Result<Of> {
    match arguments.by {
        None if arguments.tokens.is_empty() => Ok(Of::Call),
        None | Some(Of::Interval) => Ok(Of::Interval),
        Some(by) if arguments.tokens.is_empty() => Ok(by),
        Some(_) => bail!(
            "--token compares intervals with all others: leave out --by, or say --by interval"
        ),
    }
}

/// What is known of no call, for the file has it not.
fn unavailable(lacking: &Lacking) -> Vec<Unavailable> {
    let reason = reason(lacking);
    let names = lacking.columns.iter().chain(&lacking.numbers);
    names.map(|name| Unavailable { name: name.to_string(), reason: reason.clone() }).collect()
}

fn reason(lacking: &Lacking) -> String {
    match lacking.maker.as_str() {
        // An older one of the same version is possible: one that is being worked on.
        maker if maker.starts_with("weigh ") => {
            format!("the file was made by an older weigh ({maker})")
        }
        "" => "the file was not made by weigh, or was changed since".to_string(),
        maker => format!("the file was changed since, by {maker}"),
    }
}
