//! `weigh io mount`: serves a folder at another place, and says what is done with its files there.
//!
//! Emits the same table, JSON and Parquet as `weigh io`.

use std::process::ExitCode;

use weigh_account::io::{Run, report};
use weigh_account::shell_words;
use weigh_collect::notice;
use weigh_session::products::io::mount::{MountSettings, measure};
use weigh_session::{end_like, require_recording};

use super::live_table::LiveTable;
use super::row_files::RowFiles;
use weigh_arguments::MountArguments;

/// Serves, and reports.
pub fn execute(arguments: &MountArguments) -> anyhow::Result<ExitCode> {
    let telling = &arguments.telling;
    require_recording(telling.status.require_recording);
    super::check_files(telling, arguments.calls.as_deref())?;
    let (json, mut table) = (super::open_json(telling)?, LiveTable::open(telling)?);
    let mut rows = RowFiles::create(telling, arguments.calls.as_deref())?;
    let sinks = super::sinks(&mut rows, &mut table);
    let outcome = match measure(&MountSettings::from(arguments), sinks)? {
        Ok(outcome) => outcome,
        Err(error) => {
            notice!("{error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    let subject = subject(&outcome.run, arguments);
    let written = rows.finish(&subject, &outcome.book, &outcome.run, &outcome.call_name);
    let report = report(&outcome.book, &outcome.run, &outcome.call_name);
    super::tell_all(&report, telling, json, written, true)?;
    Ok(outcome.command.status().map_or(ExitCode::SUCCESS, end_like))
}

/// What files of rows name as measured.
fn subject(run: &Run, arguments: &MountArguments) -> String {
    match run.command.is_empty() {
        true => format!("mount of {}", arguments.source.display()),
        false => shell_words(&run.command),
    }
}
