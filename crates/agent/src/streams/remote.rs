//! The client's side of streams.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use weigh_schema::stream::{AgentStatus, NODE, PageViewer, RecordBody, StreamRead, StreamRecords};
use weigh_schema::top::TopReport;
use weigh_wire::{AgentRequest, Answer, StreamRequest};

use crate::follow::{RemoteError, stream_for};

/// Why a client has nothing from the agent.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The agent cannot be had, or has ended.
    #[error("{0}")]
    Agent(#[from] RemoteError),
    /// The agent refuses; why.
    #[error("the agent refuses it: {0}")]
    Refused(String),
}

/// A connection to the streams of an agent.
pub struct StreamClient(UnixStream);

impl StreamClient {
    /// Has the agent that listens there let this process to its streams. Errors: nobody answers there, or it is of
    /// another version; it has too many clients.
    pub fn connect(path: &Path) -> Result<StreamClient, StreamError> {
        stream_for(path, &AgentRequest::Watch).map(StreamClient).map_err(|error| match error {
            RemoteError::TurnedAway(_, why) => StreamError::Refused(why.to_string()),
            error => error.into(),
        })
    }

    fn ask(&self, request: &StreamRequest) -> Result<Answer, StreamError> {
        match weigh_wire::ask(&self.0, request, &[]).map_err(RemoteError::lost)? {
            (Answer::Refused(why), _) => Err(StreamError::Refused(why)),
            (answer, _) => Ok(answer),
        }
    }

    /// How the agent and its streams stand. Errors: the agent has gone.
    pub fn status(&self) -> Result<AgentStatus, StreamError> {
        match self.ask(&StreamRequest::Status)? {
            Answer::Status(status) => Ok(*status),
            _ => Err(RemoteError::NotUnderstood.into()),
        }
    }

    /// The page's address, with the token of this process's user. Errors: the agent has no page, or it is not served.
    pub fn page_url(&self) -> Result<String, StreamError> {
        match self.ask(&StreamRequest::PageUrl)? {
            Answer::PageUrl(url) => Ok(url),
            _ => Err(RemoteError::NotUnderstood.into()),
        }
    }

    /// Has this connection show what the holder of a token may see, and no more; none if the token is nobody's.
    /// Errors: the holder has too many clients; the agent has gone.
    pub fn login(&self, token: &str) -> Result<Option<PageViewer>, StreamError> {
        match self.ask(&StreamRequest::Login(token.to_string()))? {
            Answer::Viewer(viewer) => Ok(Some(viewer)),
            Answer::Is(false) => Ok(None),
            _ => Err(RemoteError::NotUnderstood.into()),
        }
    }

    /// Records of a stream; it waits for them if it is to. Errors: there is no such stream; the agent has gone.
    pub fn read(&self, read: StreamRead) -> Result<StreamRecords, StreamError> {
        match self.ask(&StreamRequest::Read(read))? {
            Answer::Stream(records) => Ok(*records),
            _ => Err(RemoteError::NotUnderstood.into()),
        }
    }

    /// Has something changed or published. Errors: why the agent does not do it, or that it has gone.
    pub fn send(&self, request: &StreamRequest) -> Result<(), StreamError> {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            _ => Err(RemoteError::NotUnderstood.into()),
        }
    }
}

/// The node as an agent sees it, record by record: always the newest.
pub struct NodeReader {
    client: StreamClient,
    next_sequence: u64,
    interval: Duration,
}

impl NodeReader {
    /// Reads by a connection that is there. Errors: the agent has gone.
    pub fn new(client: StreamClient, interval: Duration) -> Result<NodeReader, StreamError> {
        let mut reader = NodeReader { client, next_sequence: 0, interval };
        // The stream may have rested: what is there may be old.
        reader.read(false)?;
        Ok(reader)
    }

    /// Waits for the next report. Errors: the agent has gone.
    pub fn next_report(&mut self) -> Result<TopReport, StreamError> {
        loop {
            if let Some(RecordBody::Node(report)) = self.read(true)? {
                return Ok(*report);
            }
        }
    }

    fn read(&mut self, wait: bool) -> Result<Option<RecordBody>, StreamError> {
        let records = self.client.read(StreamRead {
            stream: NODE.to_string(),
            from_sequence: self.next_sequence,
            at_most_bytes: 1 << 20,
            newest: true,
            wait,
            interval_ms: Some(self.interval.as_millis().try_into().unwrap_or(u64::MAX)),
        })?;
        self.next_sequence = records.next_sequence;
        Ok(records.records.into_iter().next_back().map(|record| record.body))
    }

    /// How long it is from one report to the next, from the next one on.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }
}
