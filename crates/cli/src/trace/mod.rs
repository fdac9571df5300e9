//! `weigh trace`: events of the kernel, as they happen.
//!
//! Reads what is wanted, checks all of it against this kernel before anything is attached, follows,
//! and hands each record to a sink: the terminal, or a file. What the command prints, and how it ends,
//! is its own.

mod list;
mod session;
mod sinks;
mod wishes;

use std::process::ExitCode;

use anyhow::bail;

use crate::arguments::{TraceArguments, TraceSubject};
use crate::foreground;
use sinks::Sink;

/// Follows events, or says which there are.
pub fn execute(arguments: &TraceArguments) -> anyhow::Result<ExitCode> {
    if let Some(TraceSubject::List(list)) = &arguments.subject {
        return list::list(list);
    }
    if arguments.events.is_empty() {
        bail!("expected an event (-e EVENT); `weigh trace list PATTERN` says which there are");
    }
    let wished = wishes::check(arguments)?;
    for (event, refusal) in &wished.left_out {
        eprintln!("weigh: {event} is left out: {refusal}");
    }
    let probes = wished.probes;
    let followed = match session::follow(arguments, &probes)? {
        Ok(followed) => followed,
        Err(error) => {
            eprintln!("weigh: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    if !arguments.quiet {
        eprint!("{}", followed.totals.told(&probes));
    }
    if let Some(error) = followed.failed {
        return Err(error);
    }
    Ok(followed.status.map_or(ExitCode::SUCCESS, foreground::end_like))
}

/// Where events go if nobody says otherwise: to the terminal, beside what the command prints.
fn sink(
    arguments: &TraceArguments,
    probes: &[weigh_trace::probe::Probe],
) -> anyhow::Result<Box<dyn Sink>> {
    match &arguments.output {
        Some(path) => sinks::of_file(path, probes),
        None => Ok(sinks::of_terminal(arguments.command.is_empty())),
    }
}
