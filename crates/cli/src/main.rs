//! The `weigh` binary: arguments in, tables and progress out.
//!
//! Thin: it joins the collectors, the accounting, the recording and the page, and prints errors
//! once, with what was being done.

#![cfg_attr(test, allow(clippy::expect_used, clippy::unwrap_used))]

mod arguments;
mod doctor;
mod generate;
mod run;
mod show;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Arguments, Verb};

/// weigh's own failures, as `env`, `nohup` and `docker run` do.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { FAILED } else { 0 });
        }
    };
    let outcome = match arguments.verb {
        Verb::Run(run) => run::execute(*run),
        Verb::Show(show) => show::show(&show),
        Verb::Report(report) => show::report(&report),
        Verb::Doctor(doctor) => doctor::doctor(&doctor),
        Verb::Generate(generate) => generate::generate(&generate),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weigh: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}
