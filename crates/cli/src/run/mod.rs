//! `weigh run`: starts a command, follows it, and leaves a recording.
//!
//! Reads the collectors, the signals sent to weigh, and the clock; emits the recording, the table
//! on standard error, the summary where `--json` says. Refuses what it can before the command is
//! started; from then on nothing that goes wrong in weigh ends the command, or takes its status away.

mod announce;
mod collectors;
mod cpu_wait;
mod enforce;
mod facts;
mod follow;
mod limits_file;
mod live_line;
mod looks;
mod offender;
mod oom;
mod opened;
mod outcome;
mod overshoot;
mod recorder;
mod session;
mod settings;
mod snapshots;
pub mod watched;

use std::process::ExitCode;

pub use announce::{be_helper, is_helper};

use crate::arguments::RunArguments;

/// Runs the command.
pub fn execute(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    arguments.status.apply();
    let settings = settings::Settings::new(arguments)?;
    let session = session::Session::prepare(settings)?;
    outcome::conclude(session.run()?)
}
