//! `--publish`: what several events say together, once a second, in the agent's stream `pushed`.
//!
//! A thread speaks to the agent: the stream never waits for it. What the agent has not taken when the next values are there
//! is replaced by them. Where the agent is away it is tried again each second, and that is said once.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weigh_agent::{StreamClient, StreamError, StreamRequest};
use weigh_collect::notice;
use weigh_collect::signals;
use weigh_collect::spawn::SignalMask;
use weigh_schema::published::published;
use weigh_schema::stream::PushedSample;
use weigh_schema::synthesis::SynthesisReport;

use super::outputs::LiveReport;

/// Between two reports.
const PAUSE: Duration = Duration::from_secs(1);
/// Rows of each table that are looked at.
const ROWS: usize = 16;

/// Publishes reports.
pub struct Publisher {
    samples: SyncSender<Vec<PushedSample>>,
    followed: Option<u32>,
    next: Instant,
}

impl Publisher {
    /// Of a stream that follows this process, if it follows one. Errors: no agent takes values at that socket now.
    pub fn start(socket: PathBuf, followed: Option<u32>) -> anyhow::Result<Publisher> {
        let client = StreamClient::connect(&socket).context("--publish")?;
        let (samples, inbox) = sync_channel(1);
        let work = move || {
            // They are for the thread that measures.
            let _ = SignalMask::block(&signals::taken(true));
            hand_over(&socket, Some(client), &inbox);
        };
        Builder::new().name("publish".into()).spawn(work).context("--publish")?;
        Ok(Publisher { samples, followed, next: Instant::now() + PAUSE })
    }
}

fn hand_over(
    socket: &std::path::Path,
    mut client: Option<StreamClient>,
    inbox: &Receiver<Vec<PushedSample>>,
) {
    let mut is_told = false;
    for samples in inbox {
        if let Err(error) = push(socket, &mut client, samples) {
            client = None;
            if !is_told {
                notice!("values are not published: {error}; it is tried again each second");
            }
            is_told = true;
        }
    }
}

fn push(
    socket: &std::path::Path,
    client: &mut Option<StreamClient>,
    samples: Vec<PushedSample>,
) -> Result<(), StreamError> {
    let client = match client {
        Some(client) => client,
        None => client.insert(StreamClient::connect(socket)?),
    };
    client.send(&StreamRequest::Push(samples))
}

impl LiveReport for Publisher {
    fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    fn rows(&self) -> usize {
        ROWS
    }

    fn show(&mut self, found: &SynthesisReport) {
        self.next = (self.next + PAUSE).max(Instant::now());
        match self.samples.try_send(published(found, std::process::id(), self.followed)) {
            // The thread has ended with a panic, or is busy: the next ones are newer.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    fn clear(&mut self) {}
}
