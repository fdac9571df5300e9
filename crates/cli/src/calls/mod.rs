//! `weigh calls`: what the system calls of a command, or of a process that runs, cost in each part
//! of the kernel.
//!
//! Reads the arguments; emits a table on standard error (standard output is the command's), JSON where `--json` says,
//! and a file of all calls. Refuses what it can before the command is started.

mod per_call_file;

use std::process::ExitCode;

use weigh_collect::notice;
use weigh_schema::call::CallsReport;
use weigh_session::products::calls::{CallsMeasurement, CallsSettings};
use weigh_session::{end_with, require_recording};
use weigh_show::io::Extent;

use crate::destination::Destination;
use crate::io::row_files::together;
use crate::rows_file;
use crate::show::tell;
use per_call_file::{PER_CALL, PerCallFile};
use weigh_arguments::CallsArguments;

/// Follows the calls, and reports them.
pub fn execute(arguments: &CallsArguments) -> anyhow::Result<ExitCode> {
    require_recording(arguments.status.require_recording);
    let settings = CallsSettings::from(arguments);
    let measurement = CallsMeasurement::prepare(&settings)?;
    rows_file::check(&[(PER_CALL, arguments.per_call.as_deref())], arguments.json.as_deref())?;
    let json = arguments.json.as_deref().map(Destination::open).transpose()?;
    let sink = PerCallFile::create(arguments)?;
    match measurement.run(sink)? {
        Ok(outcome) => {
            let reported = report(&outcome.report, arguments, json);
            end_with(outcome.rest, together([outcome.recorded, reported]))
        }
        Err(error) => {
            notice!("{error}");
            Ok(ExitCode::from(error.exit_status()))
        }
    }
}

fn report(
    report: &CallsReport,
    arguments: &CallsArguments,
    json: Option<Destination>,
) -> anyhow::Result<()> {
    if !arguments.quiet {
        let extent = match (arguments.all, arguments.rows) {
            (true, rows) => Extent::All(rows.unwrap_or(usize::MAX)),
            (false, Some(rows)) => Extent::Rows(rows),
            (false, None) => Extent::Lines(LINES),
        };
        // Standard output is the command's, or the JSON's.
        let is_json = json.as_ref().is_some_and(Destination::is_standard_output);
        tell(arguments.pid.is_none() || is_json, WIDE, |screen| {
            let with_idle = arguments.idle || arguments.all;
            weigh_show::calls::render(report, extent, with_idle, screen)
        })?;
    }
    if let Some(json) = json {
        json.write(&(serde_json::to_string_pretty(report)? + "\n"))?;
    }
    Ok(())
}

/// Lines of the table, unless more is asked for.
const LINES: usize = 24;

/// Where nobody's terminal has to hold it.
const WIDE: usize = 160;
