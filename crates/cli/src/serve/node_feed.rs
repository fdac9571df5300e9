//! Values of the node for the page and for exporters: from this process's own collectors, or from an agent.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use weigh_agent::{NodeReader, PublishedReader, StreamClient, StreamError};
use weigh_schema::top::TopReport;
use weigh_session::Source as _;
use weigh_session::products::top::{TopSettings, TopSource};
use weigh_web::{FeedEvent, NodeFeed};

/// Between two reports, until the server says otherwise.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// Reads the node's collectors in the thread that asks, and of an agent, where there is one, what clients publish there.
pub struct TopFeed(TopSource, PublishedReader);

impl TopFeed {
    /// Opens the collectors.
    pub fn new(settings: TopSettings) -> TopFeed {
        TopFeed(TopSource::new(settings, None), PublishedReader::new(weigh_agent::socket()))
    }
}

impl NodeFeed for TopFeed {
    fn next(&mut self) -> Option<FeedEvent> {
        loop {
            let wait = self.0.deadline()?.saturating_duration_since(Instant::now());
            std::thread::sleep(wait);
            self.0.set_published(self.1.values());
            self.0.tick_if_due();
            if let Some(report) = self.0.take_report() {
                return Some(FeedEvent::Report(report.into()));
            }
        }
    }

    fn set_interval(&mut self, interval: Duration) {
        self.0.set_interval(interval);
    }

    /// A client of the agent that nobody needs takes another's place.
    fn rest(&mut self) {
        self.1.rest();
    }
}

/// The first wait before an agent that has gone is asked again; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Reads the stream `node` of an agent.
pub struct AgentFeed {
    socket: PathBuf,
    /// Whose view it is; none: this process's own.
    token: Option<String>,
    interval: Duration,
    reader: Option<NodeReader>,
    /// How long it waits before it asks again; none while the agent answers.
    pause: Option<Duration>,
}

impl AgentFeed {
    /// With what this process's user may see; it connects when it is asked.
    pub fn new(socket: PathBuf, interval: Duration) -> AgentFeed {
        AgentFeed { socket, token: None, interval, reader: None, pause: None }
    }

    /// With what the holder of a token may see; it ends when the token is nobody's any more.
    pub fn of_holder(socket: PathBuf, interval: Duration, token: String) -> AgentFeed {
        AgentFeed { token: Some(token), ..AgentFeed::new(socket, interval) }
    }

    /// None where the token is nobody's.
    fn connect(&self) -> Result<Option<NodeReader>, StreamError> {
        let client = StreamClient::connect(&self.socket)?;
        if let Some(token) = &self.token
            && client.login(token)?.is_none()
        {
            return Ok(None);
        }
        NodeReader::new(client, self.interval).map(Some)
    }

    fn read(&mut self) -> Result<Option<TopReport>, StreamError> {
        if self.reader.is_none() {
            self.reader = self.connect()?;
        }
        self.reader.as_mut().map(NodeReader::next_report).transpose()
    }
}

impl NodeFeed for AgentFeed {
    fn next(&mut self) -> Option<FeedEvent> {
        self.pause.into_iter().for_each(std::thread::sleep);
        match self.read() {
            Ok(report) => {
                self.pause = None;
                Some(FeedEvent::Report(report?.into()))
            }
            Err(error) => {
                self.reader = None;
                let next = self.pause.map_or(FIRST_PAUSE, |pause| LONGEST_PAUSE.min(pause * 2));
                self.pause = Some(next);
                Some(FeedEvent::Outage(error.to_string()))
            }
        }
    }

    fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
        self.reader.iter_mut().for_each(|reader| reader.set_interval(interval));
    }

    /// As long as it is connected the agent reads the node for it.
    fn rest(&mut self) {
        self.reader = None;
    }
}
