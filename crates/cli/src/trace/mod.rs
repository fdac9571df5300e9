//! `weigh trace`: events of the kernel, as they happen.
//!
//! Reads what is wanted, checks all of it against this kernel before anything is attached, follows,
//! and hands each record to a sink: the terminal, or a file. While it runs, others may change what it
//! follows ([`control`]). What the command prints, and how it ends, is its own.

mod control;
mod counts;
mod list;
mod names;
mod packets;
mod programs;
mod session;
mod sinks;
mod stream;
mod wishes;

use std::process::ExitCode;

use anyhow::bail;

use crate::arguments::{TraceArguments, TraceSubject};
use crate::foreground;
use sinks::Sink;

/// Follows events, or says which there are.
pub fn execute(arguments: &TraceArguments) -> anyhow::Result<ExitCode> {
    match &arguments.subject {
        Some(TraceSubject::List(list)) => return list::list(list),
        Some(TraceSubject::Ctl(ctl)) => return control::ask(ctl),
        Some(TraceSubject::Packets(packets)) => return follow(&packets::as_stream(packets)),
        None => {}
    }
    follow(arguments)
}

fn follow(arguments: &TraceArguments) -> anyhow::Result<ExitCode> {
    if arguments.events.is_empty() {
        bail!("expected an event (-e EVENT); `weigh trace list PATTERN` says which there are");
    }
    let checker = wishes::Checker::new(arguments)?;
    let wished = wishes::check(&checker, arguments)?;
    for (event, refusal) in &wished.left_out {
        eprintln!("weigh: {event} is left out: {refusal}");
    }
    let followed = match session::follow(arguments, checker, wished.wishes)? {
        Ok(followed) => followed,
        Err(error) => {
            eprintln!("weigh: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    if !arguments.quiet {
        eprint!("{}", followed.totals.told());
    }
    if let Some(error) = followed.failed {
        return Err(error);
    }
    Ok(followed.status.map_or(ExitCode::SUCCESS, foreground::end_like))
}

/// Where events go if nobody says otherwise: to the terminal, beside what the command prints.
fn sink(
    arguments: &TraceArguments,
    probes: &[&weigh_trace::probe::Probe],
) -> anyhow::Result<Box<dyn Sink>> {
    match &arguments.output {
        Some(path) => sinks::of_file(path, probes, &arguments.counters),
        None => Ok(sinks::of_terminal(arguments.command.is_empty())),
    }
}
