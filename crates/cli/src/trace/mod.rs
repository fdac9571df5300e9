//! `weigh trace`: events of the kernel, as they happen.
//!
//! Reads the command line, has [`weigh_session::products::trace`] follow, and tells what came of it.

mod control;
mod json_report;
mod list;
mod outputs;
mod read;
mod scrape;
mod sinks;
mod totals_text;

use std::cell::RefCell;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use weigh_collect::spawn::SpawnError;
use weigh_collect::{message, notice};
use weigh_schema::synthesis::SynthesisReport;
use weigh_schema::trace::is_page;
use weigh_session::products::trace::{
    AttachPlan, Publisher, TraceOutcome, TracePlan, TraceSettings, follow_reports,
};
use weigh_session::{end_with, require_recording};
use weigh_trace::filter::Filter;
use weigh_trace::sink::Totals;
use weigh_web::ScrapeServer;

use json_report::JsonReport;
use outputs::{Outputs, ROWS};

pub use weigh_session::products::trace::{be_stream, be_trigger_helper, is_trigger_helper};

use crate::terminal::{self, print_path};
use weigh_arguments::{
    KEYS, LiveValueArguments, SynthesisArguments, TraceArguments, TraceAttachArguments,
    TraceReadArguments, TraceSubject,
};

/// Where nobody's terminal has to hold it.
const WIDE: usize = 160;

/// Follows events, or says which there are.
pub fn execute(arguments: &TraceArguments) -> anyhow::Result<ExitCode> {
    match &arguments.subject {
        Some(TraceSubject::List(list)) => return list::list(list),
        Some(TraceSubject::Ctl(ctl)) => return control::ask(ctl),
        Some(TraceSubject::Read(wanted)) => return read::execute(wanted),
        Some(TraceSubject::Attach(wanted)) => return attach(wanted),
        Some(TraceSubject::Packets(packets)) if packets.explain => {
            return explain(&packets.filters);
        }
        Some(TraceSubject::Packets(packets)) => {
            require_recording(packets.status.require_recording);
            let settings = TraceSettings::from(&**packets);
            return follow(settings, Vec::new(), &LiveValueArguments::default(), packets.quiet);
        }
        None => {}
    }
    require_recording(arguments.status.require_recording);
    let settings = TraceSettings::from(arguments);
    follow(settings, arguments.counters.clone(), &arguments.live_values, arguments.quiet)
}

/// Tells filters in weigh's own words, whatever they are written in.
fn explain(filters: &[String]) -> anyhow::Result<ExitCode> {
    for text in filters {
        let filter = Filter::parse(text).map_err(|refusal| anyhow!("--filter: {refusal}"))?;
        terminal::print(&format!("{filter}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws a recording.
pub fn report(file: &Path, page: Option<&Path>) -> anyhow::Result<ExitCode> {
    if page.is_some_and(|page| page.as_os_str() == "-") {
        return report_to_output(file);
    }
    let page = page.map_or_else(|| file.with_extension("html"), Path::to_path_buf);
    if !is_page(&page) {
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
    terminal::print_page(&text?)?;
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

fn follow(
    settings: TraceSettings,
    counters: Vec<String>,
    live: &LiveValueArguments,
    is_quiet: bool,
) -> anyhow::Result<ExitCode> {
    let plan = TracePlan::prepare(settings.clone())?;
    let json = JsonReport::open(&settings.synthesis)?;
    let server = scrape::serve(live)?;
    let outputs = Outputs {
        counters,
        has_command: !settings.command.is_empty(),
        lines: json.as_ref().and_then(JsonReport::lines),
        metrics: server.as_ref().map(ScrapeServer::board),
        publisher: RefCell::new(publisher(live, settings.pid)?),
        triggers: live.on_event.clone(),
    };
    let outcome = plan.run(Rc::new(outputs))?;
    end(&settings, outcome, json, is_quiet)
}

/// What publishes reports of a stream that follows a process, if it is asked for.
fn publisher(
    live: &LiveValueArguments,
    followed: Option<u32>,
) -> anyhow::Result<Option<Publisher>> {
    let socket = live.publish.clone().map(|socket| socket.unwrap_or_else(weigh_agent::socket));
    socket.map(|socket| Publisher::start(socket, followed)).transpose()
}

/// Reads along with another's stream.
fn attach(wanted: &TraceAttachArguments) -> anyhow::Result<ExitCode> {
    if let Some(every) = wanted.reports {
        return print_reports(wanted.stream, every, wanted.duration);
    }
    let settings = TraceSettings::from(wanted);
    let plan = AttachPlan::prepare(settings.clone(), wanted.stream)?;
    let json = JsonReport::open(&settings.synthesis)?;
    let server = scrape::serve(&wanted.live_values)?;
    let outputs = Outputs {
        counters: wanted.counters.clone(),
        has_command: false,
        lines: json.as_ref().and_then(JsonReport::lines),
        metrics: server.as_ref().map(ScrapeServer::board),
        publisher: RefCell::new(publisher(&wanted.live_values, wanted.stream)?),
        triggers: wanted.live_values.on_event.clone(),
    };
    let outcome = plan.run(wanted.from.as_deref(), &outputs)?;
    end(&settings, outcome, json, wanted.quiet)
}

/// Prints reports of another's stream as they come.
fn print_reports(
    stream: Option<u32>,
    every: Duration,
    duration: Option<Duration>,
) -> anyhow::Result<ExitCode> {
    let end = duration.map(|duration| Instant::now() + duration);
    follow_reports(stream, every, |report| {
        terminal::print_json(&(serde_json::to_string(report)? + "\n"))?;
        Ok(!terminal::is_output_gone() && end.is_none_or(|end| Instant::now() < end))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Tells what came of it, and ends as the command did.
fn end(
    settings: &TraceSettings,
    outcome: Result<TraceOutcome, SpawnError>,
    json: Option<JsonReport>,
    is_quiet: bool,
) -> anyhow::Result<ExitCode> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            notice!("{error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    let failed = match outcome.failed {
        Some(error) if settings.writes_to_output() && terminal::is_enough(&error) => None,
        other => other,
    };
    let is_gone = || settings.goes_to_output_alone() && terminal::is_output_gone();
    if settings.command.is_empty() && failed.is_none() && is_gone() {
        return Ok(ExitCode::SUCCESS);
    }
    let told = tell_all(settings, &outcome.totals, json, is_quiet);
    end_with(outcome.rest, told.and(failed.map_or(Ok(()), Err)))
}

fn tell_all(
    settings: &TraceSettings,
    totals: &Totals,
    json: Option<JsonReport>,
    is_quiet: bool,
) -> anyhow::Result<()> {
    if !is_quiet {
        message::show(&totals_text::render(totals));
    }
    if let Some(found) = &totals.synthesis {
        tell_synthesis(settings, found, json, is_quiet)?;
    }
    Ok(())
}

/// What several events said together, and the same as JSON.
fn tell_synthesis(
    settings: &TraceSettings,
    found: &SynthesisReport,
    json: Option<JsonReport>,
    is_quiet: bool,
) -> anyhow::Result<()> {
    if !is_quiet {
        tell(settings, found)?;
    }
    json.map_or(Ok(()), |json| json.write(found))
}

/// Where neither the command nor anything else has to do with it.
fn tell(settings: &TraceSettings, found: &SynthesisReport) -> anyhow::Result<()> {
    let is_taken = !settings.command.is_empty()
        || settings.output.as_deref().is_some_and(|path| path.as_os_str() == "-")
        || settings.synthesis.json.as_deref() == Some("-");
    terminal::tell(is_taken, WIDE, |screen| {
        weigh_show::synthesis::render(found, ROWS, screen.columns, screen.color)
    })
}
