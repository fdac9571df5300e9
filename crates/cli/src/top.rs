//! `weigh top`: the node, jobs and processes on the terminal, or once as text or JSON.

mod screen;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use weigh_schema::top::TopReport;
use weigh_session::products::top::{TopSettings, TopSource};
use weigh_session::{Launcher, Session};

use crate::arguments::TopArguments;
use crate::terminal::{check_output, print, print_json, screen};

/// Shows it until it is told to end, or once.
pub fn execute(arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    let settings = TopSettings { interval: arguments.interval, everybody: arguments.all };
    match arguments.once {
        true => once(settings, arguments.json),
        false => {
            check_terminal()?;
            screen::show(settings)
        }
    }
}

/// Two looks: rates are between them.
fn once(settings: TopSettings, json: bool) -> anyhow::Result<ExitCode> {
    check_output()?;
    let mut source = TopSource::new(settings, Some(2));
    Session::new(Launcher::prepare()?.stay(), None).run(&mut source)?;
    let report = source.take_report().context("interrupted before the second look")?;
    match json {
        true => print_json(&(serde_json::to_string_pretty(&report)? + "\n"))?,
        false => print(&text(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(report: &TopReport) -> String {
    weigh_show::top::text(report, screen(&std::io::stdout(), 120).columns)
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
