//! `weigh top`: the node, jobs and processes on the terminal, or once as text or JSON.

mod busiest;
mod rules;
mod screen;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use weigh_agent::PublishedReader;
use weigh_schema::top::TopReport;
use weigh_session::products::top::{ListedProcesses, TopFocus, TopSettings, TopSource};
use weigh_session::{Launcher, Session};

use self::busiest::BusiestReader;
use crate::terminal::{check_output, print, print_json, screen};
use weigh_arguments::TopArguments;

/// For the recordings of jobs, where there is one look.
const PATIENCE: Duration = Duration::from_secs(3);

/// Shows it until it is told to end, or once.
pub fn execute(arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    let listed = ListedProcesses::of(arguments.all);
    let settings = TopSettings { interval: arguments.interval, listed };
    let rules = arguments.rules.as_deref().map(rules::read).transpose()?;
    if !arguments.once {
        check_terminal()?;
        return screen::show(settings, rules);
    }
    check_output()?;
    let mut source = TopSource::new(settings, Some(2));
    rules.into_iter().for_each(|rules| source.set_rules(rules));
    once(source, arguments)
}

/// Two looks: rates are between them.
fn once(mut source: TopSource, arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    source.set_published(PublishedReader::new(weigh_agent::socket()).values());
    source.set_focus(arguments.job.map_or(TopFocus::Node, TopFocus::Whole));
    Session::new(Launcher::prepare()?.stay(), None).run(&mut source)?;
    let mut report = source.take_report().context("interrupted before the second look")?;
    if arguments.job.is_none() {
        BusiestReader::default().complete(&mut report, None, PATIENCE);
    }
    let columns = screen(&std::io::stdout(), 120).columns;
    let text = match (arguments.job, arguments.json) {
        (None, true) => serde_json::to_string_pretty(&report)? + "\n",
        (None, false) => weigh_show::top::text(&report, columns),
        (Some(pid), is_json) => {
            let detail = source.take_detail().with_context(|| no_job(pid, &report))?;
            match is_json {
                true => serde_json::to_string_pretty(&detail)? + "\n",
                false => weigh_show::top::detail_text(&detail, columns),
            }
        }
    };
    match arguments.json {
        true => print_json(&text)?,
        false => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn no_job(pid: u32, report: &TopReport) -> String {
    let jobs: Vec<String> = report.jobs.iter().map(|job| job.pid.to_string()).collect();
    let jobs = match jobs.is_empty() {
        true => "there is no job of weigh run now".to_string(),
        false => format!("jobs of weigh run: {}", jobs.join(", ")),
    };
    let whose = if report.user.is_some() { " of yours (--all: of anybody)" } else { "" };
    format!("--job {pid}: no job and no process{whose} has this PID; {jobs}")
}

/// It moves a cursor and reads keys: a file or a pipe has neither.
fn check_terminal() -> anyhow::Result<()> {
    const INSTEAD: &str = "`weigh top --once` prints one look, with --json for programs";
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail!("weigh top needs a terminal for its input and output; {INSTEAD}");
    }
    match std::env::var_os("TERM").filter(|term| !term.is_empty()) {
        Some(term) if term == "dumb" => {
            bail!(
                "weigh top needs a terminal that can move its cursor, and TERM is dumb; {INSTEAD}"
            )
        }
        Some(_) => Ok(()),
        None => bail!("weigh top needs to know its terminal, and TERM is not set; {INSTEAD}"),
    }
}
