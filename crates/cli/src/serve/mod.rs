//! `weigh serve`: the live page of the node and of recordings, until it is told to end.

mod export_bound;
mod export_loop;
mod node_feed;
pub mod tls_files;
pub mod token_file;
mod users;

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use weigh_collect::message::notice;
use weigh_export::metrics::{self, TextFormat};
use weigh_keep::default_directory;
use weigh_session::products::top::{ListedProcesses, TopSettings};
use weigh_web::{FeedOpener, Listening, MetricsText, PageAudience, ServeSettings, Server};

use crate::terminal::{check_output, print};
use export_bound::ExportBound;
use export_loop::ExportLoop;
use node_feed::{AgentFeed, INTERVAL, TopFeed};
pub use token_file::read_or_make;
use weigh_arguments::ServeArguments;

/// Serves until TERM or INT.
pub fn execute(arguments: &ServeArguments) -> anyhow::Result<ExitCode> {
    check_output()?;
    let tls = tls_files::server_identity(arguments)?;
    if arguments.for_users {
        users::confine(arguments.child_of, tls.as_ref())?;
    }
    let server = Server::bind(ServeSettings {
        listening: listening(arguments)?,
        renewal: tls_files::renewal(arguments, tls.as_ref()),
        tls,
        folders: folders(arguments)?,
        audience: audience(arguments),
        metrics_token: arguments.token_file.as_deref().map(read_or_make).transpose()?,
        metrics: Some(metrics_text(export_bound(arguments))),
    })?;
    let bound = export_bound(arguments);
    let exported = feed(arguments, exported_processes(arguments));
    let _exports =
        ExportLoop::start(&arguments.exports, arguments.export_interval, bound, exported)?;
    print(&format!("{}\n", server.url()))?;
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

/// Processes are never exported; jobs are made of them.
fn exported_processes(arguments: &ServeArguments) -> ListedProcesses {
    match arguments.most_jobs() {
        0 => ListedProcesses::Nobody,
        _ => ListedProcesses::of(arguments.all),
    }
}

fn export_bound(arguments: &ServeArguments) -> ExportBound {
    ExportBound::new(arguments.most_jobs(), arguments.most_published())
}

/// What `/metrics` says, with so many jobs and published values.
fn metrics_text(bound: ExportBound) -> MetricsText {
    let bound = Mutex::new(bound);
    Box::new(move |report, accept, text| {
        let mut report = report.clone();
        // Nobody panics while it holds the lock; if one did, the bound is whole all the same.
        bound.lock().unwrap_or_else(PoisonError::into_inner).apply(&mut report);
        let format = TextFormat::accepted(accept);
        metrics::metrics_text(&report, format, text);
        format.content_type()
    })
}

fn listening(arguments: &ServeArguments) -> anyhow::Result<Listening> {
    Ok(match arguments.http {
        Some(address) => Listening::At(address),
        None => Listening::By(std::io::stdin().as_fd().try_clone_to_owned()?),
    })
}

fn audience(arguments: &ServeArguments) -> PageAudience {
    match agent_socket(arguments) {
        Some(socket) if arguments.for_users => users::audience(socket),
        _ => PageAudience::Starter(feed(arguments, ListedProcesses::of(arguments.all))),
    }
}

/// Where the agent answers whose values are shown, if it is an agent's.
fn agent_socket(arguments: &ServeArguments) -> Option<PathBuf> {
    let socket = arguments.agent.clone()?;
    Some(socket.unwrap_or_else(weigh_agent::socket))
}

/// The agent's values if one is named, else this process's own.
fn feed(arguments: &ServeArguments, listed: ListedProcesses) -> FeedOpener {
    match agent_socket(arguments) {
        Some(socket) => Box::new(move || Box::new(AgentFeed::new(socket, INTERVAL))),
        None => {
            let settings = TopSettings { interval: INTERVAL, listed };
            Box::new(move || Box::new(TopFeed::new(settings)))
        }
    }
}

/// Those that are named, else where recordings are kept; none where that place cannot be had: the node is there all the same.
fn folders(arguments: &ServeArguments) -> anyhow::Result<Vec<PathBuf>> {
    // Recordings are their users' own.
    if !arguments.folders.is_empty() || arguments.for_users {
        return Ok(arguments.folders.clone());
    }
    let mut folder = default_directory("any")?;
    folder.pop();
    match std::fs::create_dir_all(&folder) {
        Ok(()) => Ok(vec![folder]),
        Err(error) => {
            notice(format_args!("no recordings are served: {}: {error}", folder.display()));
            Ok(Vec::new())
        }
    }
}
