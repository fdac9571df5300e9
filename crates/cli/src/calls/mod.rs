//! `weigh calls`: what the system calls of a command, or of a process that runs, cost in each part
//! of the kernel.
//!
//! Reads the kernel side's table and its single calls; emits a table on standard error (standard
//! output is the command's), and JSON where `--json` says. Refuses what it can before the command
//! is started.

mod follow;
mod marked;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use weigh_collect::calls::Wanted;
use weigh_schema::call::CallsReport;
use weigh_schema::nearest;
use weigh_schema::subsystem::{SUBSYSTEMS, Subsystem};

use crate::arguments::{CallsArguments, CallsMechanism};
use crate::destination::Destination;
use crate::foreground;
use crate::show::{color, print, width};

/// All subsystems.
const ALL: &str = "all";

/// Follows the calls, and tells of them.
pub fn execute(arguments: &CallsArguments) -> anyhow::Result<ExitCode> {
    let wanted = Wanted {
        subsystems: subsystems(&arguments.subsystems)?,
        grouping: arguments.by.into(),
        every_call: true,
    };
    if arguments.command.is_empty() == arguments.pid.is_none() {
        bail!("expected either a command (weigh calls -- COMMAND) or a process (--pid PID)");
    }
    if arguments.mechanism == CallsMechanism::Preload {
        marked::refuse(arguments)?;
    }
    let json = arguments.json.as_deref().map(Destination::open).transpose()?;
    let followed = if arguments.mechanism == CallsMechanism::Preload {
        marked::follow(arguments, &wanted)?
    } else {
        follow::follow(arguments, &wanted)?
    };
    let followed = match followed {
        Ok(followed) => followed,
        Err(error) => {
            eprintln!("weigh: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    if !arguments.quiet {
        if arguments.mechanism == CallsMechanism::Auto && arguments.pid.is_none() {
            eprintln!("{AUTO}");
        }
        tell(&followed.report, arguments)?;
    }
    if let Some(json) = json {
        json.write(&(serde_json::to_string_pretty(&followed.report)? + "\n"))?;
    }
    Ok(followed.status.map_or(ExitCode::SUCCESS, foreground::end_like))
}

/// What was chosen, why, and what each costs.
const AUTO: &str = "weigh: by bpf, which misses no call, at a price for each call on \
                    the machine; --mechanism preload costs others nothing, and sees functions of the \
                    C library in dynamic programs";

/// The table: where the command can not have anything to do with it.
fn tell(report: &CallsReport, arguments: &CallsArguments) -> anyhow::Result<()> {
    let (err, out) = (std::io::stderr(), std::io::stdout());
    if arguments.pid.is_some() {
        let columns = if out.is_terminal() { width(&out) } else { WIDE };
        return print(&weigh_show::calls::render(report, arguments.rows, columns, color(&out)));
    }
    let columns = if err.is_terminal() { width(&err) } else { WIDE };
    eprint!("{}", weigh_show::calls::render(report, arguments.rows, columns, color(&err)));
    Ok(())
}

/// Where nobody's terminal has to hold it.
const WIDE: usize = 160;

fn subsystems(names: &[String]) -> anyhow::Result<Vec<&'static Subsystem>> {
    if names.iter().any(|name| name == ALL) {
        return Ok(SUBSYSTEMS.iter().collect());
    }
    names.iter().map(|name| subsystem(name)).collect()
}

fn subsystem(name: &str) -> anyhow::Result<&'static Subsystem> {
    Subsystem::named(name).with_context(|| {
        let known: Vec<&str> = SUBSYSTEMS.iter().map(|s| s.name).collect();
        let hint = match nearest(name, known.iter().copied()).first() {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are {} and {ALL}", known.join(", ")),
        };
        format!("there is no part of the kernel named '{name}'; {hint}")
    })
}
