//! `weigh serve`: the live page of the node and of recordings, until it is told to end.

mod export_loop;
mod node_feed;

use std::path::PathBuf;
use std::process::ExitCode;

use weigh_collect::message::notice;
use weigh_export::metrics::openmetrics;
use weigh_keep::{Recording, default_directory};
use weigh_session::products::top::{ListedProcesses, TopSettings};
use weigh_web::{PageBuilder, ServeSettings, Server};

use crate::arguments::ServeArguments;
use crate::show::page_data;
use crate::terminal::{check_output, print};
use export_loop::ExportLoop;
use node_feed::{INTERVAL, TopFeed};

/// Serves until TERM or INT.
pub fn execute(arguments: &ServeArguments) -> anyhow::Result<ExitCode> {
    check_output()?;
    let listed = ListedProcesses::of(arguments.all);
    let settings = TopSettings { interval: INTERVAL, listed };
    let server = Server::bind(ServeSettings {
        address: arguments.http,
        folders: folders(arguments)?,
        feed: Box::new(move || Box::new(TopFeed::new(settings))),
        pages: page_builder(),
        metrics: Some(openmetrics),
    })?;
    let _exports = ExportLoop::start(&arguments.exports, arguments.export_interval)?;
    print(&format!("{}\n", server.url()))?;
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

/// Those that are named, else where recordings are kept; none where that place cannot be had: the node is there all the same.
fn folders(arguments: &ServeArguments) -> anyhow::Result<Vec<PathBuf>> {
    if !arguments.folders.is_empty() {
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

fn page_builder() -> PageBuilder {
    Box::new(|recording: &Recording| page_data(recording).map_err(Into::into))
}
