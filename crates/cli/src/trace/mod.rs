//! `weigh trace`: events of the kernel, as they happen.
//!
//! Reads what is wanted, checks all of it against this kernel before anything is attached, follows,
//! and hands each record to a sink: the terminal, or a file. While it runs, others may change what it
//! follows ([`control`]). What the command prints, and how it ends, is its own.

mod asked;
mod buffers;
mod control;
mod counters;
mod counts;
mod held;
mod list;
mod modules;
mod names;
mod origin;
mod packets;
mod places;
mod programs;
mod read;
mod session;
mod sinks;
mod stream;
mod threads;
mod usual;
mod way;
mod wishes;

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use weigh_schema::synthesis::SynthesisReport;

use crate::arguments::{
    KEYS, SynthesisArguments, TraceArguments, TraceReadArguments, TraceSubject,
};
use crate::destination::Destination;
use crate::foreground;
use crate::show::{color, print, width};

/// Where nobody's terminal has to hold it.
const WIDE: usize = 160;

/// Follows events, or says which there are.
pub fn execute(arguments: &TraceArguments) -> anyhow::Result<ExitCode> {
    match &arguments.subject {
        Some(TraceSubject::List(list)) => return list::list(list),
        Some(TraceSubject::Ctl(ctl)) => return control::ask(ctl),
        Some(TraceSubject::Read(wanted)) => return read::execute(wanted),
        Some(TraceSubject::Packets(packets)) => return follow(&packets::as_stream(packets)),
        None => {}
    }
    follow(arguments)
}

/// Draws a recording.
pub fn report(file: &Path, page: Option<&Path>) -> anyhow::Result<ExitCode> {
    let page = page.map_or_else(|| file.with_extension("html"), Path::to_path_buf);
    if !sinks::is_page(&page) {
        bail!("-o {}: a page's name ends in .html", page.display());
    }
    let synthesis = SynthesisArguments { keys: KEYS, ..SynthesisArguments::default() };
    let (file, output, quiet) = (file.to_path_buf(), Some(page.clone()), true);
    let wanted =
        TraceReadArguments { file, output, quiet, synthesis, ..TraceReadArguments::default() };
    let done = read::execute(&wanted)?;
    print(&format!("{}\n", page.display()))?;
    Ok(done)
}

/// Shows a recording.
pub fn show(file: &Path) -> anyhow::Result<ExitCode> {
    let file = file.to_path_buf();
    let synthesis = SynthesisArguments { keys: KEYS, ..SynthesisArguments::default() };
    read::execute(&TraceReadArguments { file, synthesis, ..TraceReadArguments::default() })
}

fn follow(arguments: &TraceArguments) -> anyhow::Result<ExitCode> {
    let mut asked = asked::read(arguments)?;
    if arguments.events.is_empty() && asked.iter().all(|asked| asked.ask.events().is_empty()) {
        bail!("expected an event (-e EVENT); `weigh trace list PATTERN` says which there are");
    }
    let json = arguments.synthesis.json.as_deref();
    let checker = wishes::Checker::new(arguments)?;
    let mut wished = wishes::check(&checker, arguments)?;
    let names: Vec<&str> = wished.wishes.iter().map(|wish| wish.probe.name.as_str()).collect();
    asked::of_page(&mut asked, arguments.output.as_deref(), &names);
    asked::complete(&checker, &asked, &mut wished.wishes)?;
    let json = json.map(Destination::open).transpose()?;
    for (event, refusal) in &wished.left_out {
        eprintln!("weigh: {event} is left out: {refusal}");
    }
    let followed = match session::follow(arguments, checker, wished.wishes, &asked)? {
        Ok(followed) => followed,
        Err(error) => {
            eprintln!("weigh: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    if !arguments.quiet {
        eprint!("{}", followed.totals.told());
    }
    if let Some(found) = &followed.totals.synthesis {
        if !arguments.quiet {
            tell(arguments, found)?;
        }
        if let Some(json) = json {
            json.write(&(serde_json::to_string_pretty(found)? + "\n"))?;
        }
    }
    if let Some(error) = followed.failed {
        return Err(error);
    }
    Ok(followed.status.map_or(ExitCode::SUCCESS, foreground::end_like))
}

/// What several events said together: where neither the command nor anything else has to do with it.
fn tell(arguments: &TraceArguments, found: &SynthesisReport) -> anyhow::Result<()> {
    let (err, out) = (std::io::stderr(), std::io::stdout());
    let is_taken = !arguments.command.is_empty()
        || arguments.output.as_deref().is_some_and(|path| path.as_os_str() == "-")
        || arguments.synthesis.json.as_deref() == Some("-");
    if is_taken {
        let columns = if err.is_terminal() { width(&err) } else { WIDE };
        eprint!("{}", weigh_show::synthesis::render(found, way::ROWS, columns, color(&err)));
        return Ok(());
    }
    let columns = if out.is_terminal() { width(&out) } else { WIDE };
    print(&weigh_show::synthesis::render(found, way::ROWS, columns, color(&out)))
}
