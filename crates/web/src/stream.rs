//! Server-sent events: what is new of the node, of a job and of the list of jobs.
//!
//! Each source has a task that hands events to the connection's short queue. A client that does not read holds up its
//! own tasks and nobody else: of the node it gets the newest report next, of a job it is told what it has missed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body::Frame;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast, mpsc, watch};
use tokio::task::JoinSet;

use crate::event::event;
use crate::node::{NodeState, NodeViewer};

/// Events that wait for a client.
const QUEUE: usize = 4;
/// A comment goes out so often, so that nobody takes a quiet stream for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Events that a client has missed.
#[derive(Serialize)]
pub(crate) struct Missed {
    pub(crate) events: u64,
}

/// A stream that is being made.
pub(crate) struct EventStream {
    sender: mpsc::Sender<Bytes>,
    body: EventBody,
}

/// What a connection sends, and what it holds meanwhile.
struct EventBody {
    receiver: mpsc::Receiver<Bytes>,
    /// They end with it.
    tasks: JoinSet<()>,
    /// Dropped with it.
    held: Vec<Box<dyn Send + Sync>>,
}

impl EventStream {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> EventStream {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let body = EventBody { receiver, tasks: JoinSet::new(), held: vec![Box::new(permit)] };
        let mut stream = EventStream { sender, body };
        let sender = stream.sender.clone();
        stream.body.tasks.spawn(async move {
            while sender.send(Bytes::from_static(b": weigh\n\n")).await.is_ok() {
                tokio::time::sleep(KEEP_ALIVE).await;
            }
        });
        stream
    }

    /// Holds something as long as the client is there.
    pub(crate) fn hold(&mut self, watcher: impl Send + Sync + 'static) {
        self.body.held.push(Box::new(watcher));
    }

    /// Sends each report of the node that the client is fast enough for, the first one whole, then what has changed; and why
    /// there is none.
    pub(crate) fn add_node(&mut self, viewer: NodeViewer, mut looks: watch::Receiver<NodeState>) {
        self.hold(viewer);
        let sender = self.sender.clone();
        self.body.tasks.spawn(async move {
            let mut known = None;
            while looks.changed().await.is_ok() {
                let state = looks.borrow_and_update().clone();
                let Some(event) = state.event_after(&mut known) else { continue };
                if sender.send(event).await.is_err() {
                    break;
                }
            }
        });
    }

    /// Sends how a job is, then what is new of it.
    pub(crate) fn add_job(&mut self, first: Bytes, events: Vec<broadcast::Receiver<Bytes>>) {
        let sender = self.sender.clone();
        self.body.tasks.spawn(async move {
            if sender.send(first).await.is_ok() {
                let mut passing: JoinSet<()> =
                    events.into_iter().map(|events| pass_on(events, sender.clone())).collect();
                while passing.join_next().await.is_some() {}
            }
        });
    }

    /// Says when the list of jobs is another.
    pub(crate) fn add_list(&mut self, mut version: watch::Receiver<u64>) {
        let sender = self.sender.clone();
        self.body.tasks.spawn(async move {
            version.mark_unchanged();
            while version.changed().await.is_ok() {
                if sender.send(event("jobs", &serde_json::json!({}))).await.is_err() {
                    break;
                }
            }
        });
    }

    /// The answer; it ends with the client.
    pub(crate) fn into_response(self) -> Response {
        let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
        ([(CONTENT_TYPE, kind)], Body::new(self.body)).into_response()
    }
}

/// Sends events as they come; of those that came too fast, how many there were.
async fn pass_on(mut events: broadcast::Receiver<Bytes>, sender: mpsc::Sender<Bytes>) {
    loop {
        let next = match events.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(events)) => event("missed", &Missed { events }),
            Err(RecvError::Closed) => return,
        };
        if sender.send(next).await.is_err() {
            return;
        }
    }
}

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.receiver.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
