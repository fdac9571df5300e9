//! `weigh trace list`: what can be followed on this kernel, with the arguments and their types.
//!
//! Prints sets and tracepoints, and functions if the pattern begins with `fn:`. With a pattern that nothing matches:
//! the nearest names, and status 1.

use std::process::ExitCode;

use weigh_collect::notice;
use weigh_session::products::trace::catalog;

use crate::terminal::print;
use weigh_arguments::TraceListArguments;

/// Prints what there is.
pub fn list(arguments: &TraceListArguments) -> anyhow::Result<ExitCode> {
    let pattern = arguments.pattern.as_deref().unwrap_or("*");
    if arguments.names {
        return print(&catalog::names(pattern)?).map(|()| ExitCode::SUCCESS);
    }
    let found = catalog::list(pattern)?;
    if found.lines.is_empty() {
        let near = match (&found.unavailable, &found.nearest[..]) {
            (Some(why), _) => format!(": {why}"),
            (None, []) => String::new(),
            _ => format!("; near it: {}", found.nearest.join(", ")),
        };
        notice!("nothing here is like '{pattern}'{near}");
        return Ok(ExitCode::from(1));
    }
    print(&found.lines)?;
    if let Some(why) = found.unavailable {
        notice!("{why}: none of these can be followed here");
    }
    Ok(ExitCode::SUCCESS)
}
