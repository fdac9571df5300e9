//! `weigh trace`: events of the kernel, as they happen.
//!
//! Reads what is wanted, checks all of it against this kernel before anything is attached, follows,
//! and hands each record to a sink: the terminal, or a file. While it runs, others may change what it
//! follows ([`control`]). What the command prints, and how it ends, is its own.

mod asked;
mod buffers;
mod control;
mod counters;
mod description;
mod guest;
mod held;
mod hosted;
mod list;
mod modules;
mod origin;
mod packets;
mod patterns;
mod places;
mod programs;
mod read;
mod running;
mod session;
mod sinks;
mod stream;
mod totals_text;
mod usual;
mod way;
mod wishes;

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use rustix::process::{getegid, geteuid};
use weigh_collect::spawn::SpawnError;
use weigh_collect::{message, notice};
use weigh_schema::synthesis::SynthesisReport;
use weigh_session::end_with;
use weigh_trace::sink::Totals;

use control::Control;
use running::Running;

use crate::arguments::{
    KEYS, SynthesisArguments, TraceArguments, TraceAttachArguments, TraceReadArguments,
    TraceSubject,
};
use crate::destination::Destination;
use crate::show::{self, print_path};

/// Where nobody's terminal has to hold it.
const WIDE: usize = 160;

pub use hosted::be_stream;

/// Follows events, or says which there are.
pub fn execute(arguments: &TraceArguments) -> anyhow::Result<ExitCode> {
    match &arguments.subject {
        Some(TraceSubject::List(list)) => return list::list(list),
        Some(TraceSubject::Ctl(ctl)) => return control::ask(ctl),
        Some(TraceSubject::Read(wanted)) => return read::execute(wanted),
        Some(TraceSubject::Attach(wanted)) => return attach(wanted),
        Some(TraceSubject::Packets(packets)) => return follow(&packets::as_stream(packets)),
        None => {}
    }
    follow(arguments)
}

/// Draws a recording.
pub fn report(file: &Path, page: Option<&Path>) -> anyhow::Result<ExitCode> {
    if page.is_some_and(|page| page.as_os_str() == "-") {
        return report_to_output(file);
    }
    let page = page.map_or_else(|| file.with_extension("html"), Path::to_path_buf);
    if !sinks::is_page(&page) {
        bail!("-o {}: a page's name ends in .html", page.display());
    }
    let done = read_page(file, &page)?;
    print_path(&page)?;
    Ok(done)
}

/// Draws a recording on standard output: the page is written into a file first, for it grows while rows are read.
fn report_to_output(file: &Path) -> anyhow::Result<ExitCode> {
    let place = std::env::temp_dir().join(format!("weigh-page-{}.html", std::process::id()));
    // Not what somebody else has laid there, and for nobody else to read.
    let mut options = std::fs::File::options();
    let made = options.write(true).create_new(true).mode(0o600).open(&place);
    made.with_context(|| format!("cannot make {}", place.display()))?;
    let read = read_page(file, &place);
    let text = std::fs::read_to_string(&place);
    let _ = std::fs::remove_file(&place);
    let done = read?;
    show::print_page(&text?)?;
    Ok(done)
}

fn read_page(file: &Path, page: &Path) -> anyhow::Result<ExitCode> {
    let synthesis = SynthesisArguments { keys: KEYS, ..SynthesisArguments::default() };
    let (file, output, quiet) = (file.to_path_buf(), Some(page.to_path_buf()), true);
    read::execute(&TraceReadArguments {
        file,
        output,
        quiet,
        synthesis,
        ..TraceReadArguments::default()
    })
}

/// Shows a recording.
pub fn show(file: &Path) -> anyhow::Result<ExitCode> {
    let file = file.to_path_buf();
    let synthesis = SynthesisArguments { keys: KEYS, ..SynthesisArguments::default() };
    read::execute(&TraceReadArguments { file, synthesis, ..TraceReadArguments::default() })
}

fn follow(arguments: &TraceArguments) -> anyhow::Result<ExitCode> {
    arguments.status.apply();
    let mut asked = asked::read(arguments)?;
    if arguments.events.is_empty() && asked.iter().all(|asked| asked.ask.events().is_empty()) {
        bail!("expected an event (-e EVENT); `weigh trace list PATTERN` says which there are");
    }
    if arguments.system && arguments.pid.is_some() {
        bail!("expected one of --system and --pid");
    }
    let agent = hosted::agent()?;
    let checker = match &agent {
        None => wishes::Checker::new(arguments)?,
        Some(_) => wishes::Checker::of_user(arguments, (geteuid().as_raw(), getegid().as_raw()))?,
    };
    let mut wished = wishes::check(&checker, arguments)?;
    let names: Vec<&str> = wished.wishes.iter().map(|wish| wish.probe.name.as_str()).collect();
    asked::of_page(&mut asked, arguments.output.as_deref(), &names);
    asked::complete(&checker, &asked, &mut wished.wishes)?;
    let json = arguments.synthesis.json.as_deref().map(Destination::open).transpose()?;
    tell_left_out(&wished);
    if wished.wishes.is_empty() {
        bail!("nothing is left of what was asked for");
    }
    let stream: Box<dyn Running> = match agent {
        None => {
            let room = stream::Room::default();
            Box::new(stream::Stream::open(arguments, checker, wished.wishes, &asked, room)?)
        }
        Some(_) if !arguments.into.is_empty() => {
            bail!("--into: a stream that the agent attaches for a user has one buffer")
        }
        Some(agent) => {
            let wanted = hosted::wanted(arguments, &wished.wishes);
            Box::new(guest::Guest::open(arguments, &asked, agent, wanted)?)
        }
    };
    let followed = session::follow(arguments, stream, Control::open())?;
    end(arguments, followed, json)
}

/// Reads along with another's stream.
fn attach(wanted: &TraceAttachArguments) -> anyhow::Result<ExitCode> {
    let arguments = TraceArguments {
        filters: wanted.filters.clone(),
        output: wanted.output.clone(),
        counters: wanted.counters.clone(),
        duration: wanted.duration,
        wake: wanted.wake,
        quiet: wanted.quiet,
        synthesis: wanted.synthesis.clone(),
        ..TraceArguments::default()
    };
    let asked = asked::read(&arguments)?;
    let (pid, stream) = control::connect(wanted.stream)?;
    let talk = control::Conversation::new(stream).with_context(|| format!("stream {pid}"))?;
    let json = arguments.synthesis.json.as_deref().map(Destination::open).transpose()?;
    let stream = guest::Guest::attach(&arguments, &asked, talk, wanted.from.as_deref());
    let stream = Box::new(stream.with_context(|| format!("stream {pid}"))?);
    let followed = session::follow(&arguments, stream, Control::closed())?;
    end(&arguments, followed, json)
}

fn tell_left_out(wished: &wishes::Wished) {
    for (event, refusal) in &wished.left_out {
        notice!("{event} is left out: {refusal}");
    }
    for wish in wished.wishes.iter().filter(|wish| !wish.left_out.is_empty()) {
        let (event, fields) = (&wish.probe.name, wish.left_out.join(", "));
        notice!("{event}: left out is what is not a user's to see: {fields}");
    }
}

/// Tells what came of it, and ends as the command did.
fn end(
    arguments: &TraceArguments,
    followed: Result<session::Followed, SpawnError>,
    json: Option<Destination>,
) -> anyhow::Result<ExitCode> {
    let followed = match followed {
        Ok(followed) => followed,
        Err(error) => {
            notice!("{error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    let failed = match followed.failed {
        Some(error) if session::writes_to_output(arguments) && show::is_enough(&error) => None,
        other => other,
    };
    if arguments.command.is_empty() && failed.is_none() && session::is_gone(arguments) {
        return Ok(ExitCode::SUCCESS);
    }
    let told = tell_all(arguments, &followed.totals, json);
    end_with(followed.rest, told.and(failed.map_or(Ok(()), Err)))
}

fn tell_all(
    arguments: &TraceArguments,
    totals: &Totals,
    json: Option<Destination>,
) -> anyhow::Result<()> {
    if !arguments.quiet {
        message::show(&totals_text::render(totals));
    }
    if let Some(found) = &totals.synthesis {
        if !arguments.quiet {
            tell(arguments, found)?;
        }
        if let Some(json) = json {
            json.write(&(serde_json::to_string_pretty(found)? + "\n"))?;
        }
    }
    Ok(())
}

/// What several events said together: where neither the command nor anything else has to do with it.
fn tell(arguments: &TraceArguments, found: &SynthesisReport) -> anyhow::Result<()> {
    let is_taken = !arguments.command.is_empty()
        || arguments.output.as_deref().is_some_and(|path| path.as_os_str() == "-")
        || arguments.synthesis.json.as_deref() == Some("-");
    show::tell(is_taken, WIDE, |screen| {
        weigh_show::synthesis::render(found, way::ROWS, screen.columns, screen.color)
    })
}
