//! The `weigh` binary: arguments in, tables and progress out.
//!
//! Thin: it joins the collectors, the accounting, the recording and the page, and prints errors
//! once, with what was being done.

#![cfg_attr(test, allow(clippy::expect_used, clippy::unwrap_used))]

mod agent;
mod arguments;
mod calls;
mod descriptors;
mod destination;
mod doctor;
mod explain;
mod export;
mod foreground;
mod generate;
mod io;
mod kernel;
mod live;
mod rows_file;
mod run;
mod serving;
mod show;
mod trace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use weigh_schema::library::Followed;

use arguments::{Arguments, GenerateArguments, Verb};

/// weigh's own failures, as `env`, `nohup` and `docker run` do.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    if let Some(command) = run::is_helper(std::env::args_os()) {
        return run::be_helper(&command);
    }
    if serving::is_helper(std::env::args_os()) {
        return serving::be_helper();
    }
    if let Some(place) = doctor::place_of_calls(std::env::args_os()) {
        return doctor::be_caller(&place);
    }
    if calls::is_caller(std::env::args_os()) {
        return calls::be_caller();
    }
    match weigh_agent::is_session(std::env::args_os()) {
        Some((peer, Followed::Events)) => return trace::be_stream(peer),
        Some(session) => return weigh_agent::be_session(session),
        None => {}
    }
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "generate") {
        return generate(std::env::args_os().skip(1));
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    weigh_collect::delays::restore_abandoned();
    let outcome = match arguments.verb {
        Verb::Run(run) => run::execute(*run),
        Verb::Calls(calls) => calls::execute(&calls),
        Verb::Trace(trace) => trace::execute(&trace),
        Verb::Io(io) => io::execute(&io),
        Verb::Explain(explain) => explain::execute(&explain),
        Verb::Show(show) => show::show(&show),
        Verb::Report(report) => show::report(&report),
        Verb::Export(wanted) => export::execute(&wanted),
        Verb::Doctor(doctor) => doctor::doctor(&doctor),
        Verb::Agent(agent) => agent::agent(&agent),
    };
    ended(outcome)
}

/// For whoever builds weigh: `weigh generate DIR`.
fn generate(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match GenerateArguments::try_parse_from(arguments) {
        Ok(arguments) => ended(generate::generate(&arguments)),
        Err(error) => refused(&error),
    }
}

fn refused(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { FAILED } else { 0 })
}

fn ended(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weigh: {}", in_full(&error));
            ExitCode::from(FAILED)
        }
    }
}

/// An error with its causes; what one says already is not said again by the next.
fn in_full(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        match (text.is_empty(), text.ends_with(&cause)) {
            (true, _) => cause,
            (_, true) => text,
            _ => text + ": " + &cause,
        }
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_cause_that_is_named_already_is_not_named_again() {
        let full = std::io::Error::other("the disk is full");
        let error = anyhow::Error::new(full).context("cannot write it: the disk is full");
        let error = error.context("the recording is lost");
        let expected = "the recording is lost: cannot write it: the disk is full";
        assert_eq!(super::in_full(&error), expected);
    }
}
