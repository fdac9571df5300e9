//! `weigh calls`: what the system calls of a command, or of a process that runs, cost in each part
//! of the kernel.
//!
//! Reads the kernel side's table and its single calls; emits a table on standard error (standard
//! output is the command's), and JSON where `--json` says. Refuses what it can before the command
//! is started.

mod borders;
mod each;
mod follow;
mod marked;
pub mod parts;
mod price;

use std::process::ExitCode;

use anyhow::bail;
use weigh_collect::calls::{Counters, KernelCalls, Wanted};
use weigh_collect::notice;
use weigh_collect::preload::PreloadError;
use weigh_schema::call::CallsReport;
use weigh_session::end_with;
use weigh_show::io::Extent;

use crate::arguments::{CallsArguments, CallsMechanism};
use crate::destination::Destination;
use crate::rows_file;
use crate::show::tell;
use parts::{Choice, Parts};
pub use price::{be_caller, is_caller};

/// Follows the calls, and tells of them.
pub fn execute(arguments: &CallsArguments) -> anyhow::Result<ExitCode> {
    arguments.status.apply();
    let parts = Parts::chosen(&Choice::of_calls(arguments))?;
    let wanted = Wanted {
        subsystems: parts.built_in,
        grouping: arguments.by.into(),
        every_call: true,
        sharing: arguments.share.into(),
        counters: Counters::of(&arguments.counters),
    };
    if arguments.command.is_empty() == arguments.pid.is_none() {
        bail!("expected either a command (weigh calls -- COMMAND) or a process (--pid PID)");
    }
    if arguments.mechanism == CallsMechanism::Preload {
        marked::refuse(arguments)?;
    } else if !arguments.only.is_empty() {
        bail!("--only takes --mechanism preload: the kernel's tracepoints are of all calls");
    }
    rows_file::check(&[("--per-call", arguments.per_call.as_deref())], arguments.json.as_deref())?;
    let json = arguments.json.as_deref().map(Destination::open).transpose()?;
    let followed = if arguments.mechanism == CallsMechanism::Preload {
        match marked::follow(arguments, &wanted) {
            Err(error) if arguments.only.is_empty() && is_kept_out(&error) => {
                notice!("--mechanism preload does not work here: {error}; by bpf instead");
                follow::follow(arguments, &wanted, &parts.functions, parts.left_out)?
            }
            followed => followed?,
        }
    } else {
        follow::follow(arguments, &wanted, &parts.functions, parts.left_out)?
    };
    let followed = match followed {
        Ok(followed) => followed,
        Err(error) => {
            notice!("{error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    let told = tell_all(&followed.report, arguments, json);
    end_with(followed.rest, told)
}

/// Whether the library has no place for a limit that is meant for the job.
fn is_kept_out(error: &anyhow::Error) -> bool {
    PreloadError::of_file_size(&**error).is_some()
}

/// Devices' programs are attached while they have something to see.
fn not_driven(calls: &KernelCalls) -> Option<String> {
    let packets = match calls.not_driven() {
        0 => return None,
        1 => "1 packet was".to_string(),
        many => format!("{many} packets were"),
    };
    Some(format!(
        "net: {packets} handed to a device before its driver was looked at: the time in the driver is in the \
         remainder"
    ))
}

fn tell_all(
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
