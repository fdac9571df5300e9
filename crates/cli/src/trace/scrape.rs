//! `--metrics`: reports for programs that collect them.

use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use weigh_collect::notice;
use weigh_collect::signals;
use weigh_collect::spawn::SignalMask;
use weigh_export::metrics::synthesis_text;
use weigh_schema::synthesis::SynthesisReport;
use weigh_session::products::trace::LiveReport;
use weigh_web::{ScrapeBoard, ScrapePlace, ScrapeServer};

use crate::serve::token_file::read_or_make;
use weigh_arguments::{LiveValueArguments, MetricsPlace};

/// Rows of each table that a report has.
const ROWS: usize = 1000;

/// Serves, if it is asked for. It ends with what is returned.
pub fn serve(arguments: &LiveValueArguments) -> anyhow::Result<Option<ScrapeServer>> {
    let Some(place) = &arguments.metrics else { return Ok(None) };
    let token = arguments.token_file.as_deref().map(read_or_make).transpose()?;
    let place = match (place, token) {
        (MetricsPlace::Socket(path), None) => ScrapePlace::Socket(path.clone()),
        (MetricsPlace::Socket(_), Some(_)) => {
            bail!(
                "--token-file: a socket of --metrics is for this user alone and asks for no token"
            )
        }
        (MetricsPlace::Port(address), Some(token)) => ScrapePlace::Port(*address, token),
        (MetricsPlace::Port(address), None) => bail!(
            "--metrics {address}: every user of this machine can reach it; expected --token-file FILE as well, or a path \
             as --metrics ./metrics.sock"
        ),
    };
    let server = start(place).context("--metrics")?;
    if let Some(address) = server.address() {
        notice!("metrics at http://{address}/metrics");
    }
    Ok(Some(server))
}

/// The server's thread has weigh's signals blocked: they are for the thread that measures.
fn start(place: ScrapePlace) -> anyhow::Result<ScrapeServer> {
    let start = move || -> anyhow::Result<ScrapeServer> {
        SignalMask::block(&signals::taken(true))?;
        Ok(ScrapeServer::start(place, synthesis_text)?)
    };
    let started = std::thread::Builder::new().name("metrics".into()).spawn(start)?;
    started.join().map_err(|_| anyhow!("the server's thread has failed"))?
}

/// Makes a report when a client waits for one.
pub struct ScrapeReport(pub Arc<ScrapeBoard>);

impl LiveReport for ScrapeReport {
    fn is_due(&self) -> bool {
        self.0.is_wanted()
    }

    fn rows(&self) -> usize {
        ROWS
    }

    fn show(&mut self, found: &SynthesisReport) {
        self.0.publish(found);
    }

    fn clear(&mut self) {}
}
