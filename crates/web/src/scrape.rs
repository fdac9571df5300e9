//! `/metrics` of one stream of values: at a socket of this user's, or at a port of loopback behind a token.
//!
//! Reads requests; emits what the next report says, in the format that the client accepts. A report is made only while a
//! client waits for one, and the one who makes it never waits for a client. Refuses other users, and requests without
//! the token.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use rustix::process::geteuid;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot, watch};
use weigh_schema::synthesis::SynthesisReport;
use weigh_wire::Token;

use crate::access::METRICS;
use crate::connection;
use crate::error::WebError;
use crate::server::check_address;

/// Clients at once: those beyond wait in the kernel's queue.
const CLIENTS: usize = 32;
/// A stream that makes no report for so long has ended, or is stopped.
const PATIENCE: Duration = Duration::from_secs(5);
/// After a failure to accept, as when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// Writes a report for a client with this `Accept`; says the type of what was written.
pub type SynthesisText = fn(&SynthesisReport, Option<&str>) -> (&'static str, String);

/// Where metrics are collected.
pub enum ScrapePlace {
    /// A socket in the file system.
    Socket(PathBuf),
    /// An address of loopback, and the token that opens it.
    Port(SocketAddr, Token),
}

/// Serves reports for as long as it lives.
pub struct ScrapeServer {
    board: Arc<ScrapeBoard>,
    /// Taken away in the end.
    path: Option<PathBuf>,
    address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the server and the one who makes reports have in common.
pub struct ScrapeBoard {
    is_wanted: AtomicBool,
    report: watch::Sender<Option<Arc<SynthesisReport>>>,
    text: SynthesisText,
    token: Option<Token>,
}

impl ScrapeBoard {
    /// Whether a client waits for a report.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Gives it to all clients that wait.
    pub fn publish(&self, report: &SynthesisReport) {
        self.is_wanted.store(false, Ordering::Release);
        self.report.send_replace(Some(Arc::new(report.clone())));
    }

    fn is_let_in(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        bearer
            .and_then(|value| value.strip_prefix("Bearer "))
            .is_some_and(|text| token.is(text.trim()))
    }
}

impl ScrapeServer {
    /// Listens, in a thread of its own.
    pub fn start(place: ScrapePlace, text: SynthesisText) -> Result<ScrapeServer, WebError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (listener, path, token) = {
            let _inside = runtime.enter();
            match place {
                ScrapePlace::Socket(path) => (listen_at(&path)?, Some(path), None),
                ScrapePlace::Port(address, token) => (listen_on(address)?, None, Some(token)),
            }
        };
        let address = listener.address();
        let report = watch::channel(None).0;
        let board =
            Arc::new(ScrapeBoard { is_wanted: AtomicBool::new(false), report, text, token });
        let (stop, stopped) = oneshot::channel();
        let router = Router::new().route(METRICS, get(metrics)).with_state(board.clone());
        let serve = move || {
            runtime.block_on(async {
                tokio::spawn(accept(listener, router));
                // It ends when the other side is gone.
                let _ = stopped.await;
            });
        };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(serve)?;
        Ok(ScrapeServer { board, path, address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where reports go.
    pub fn board(&self) -> Arc<ScrapeBoard> {
        self.board.clone()
    }

    /// The address, where it is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for ScrapeServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}

enum Listener {
    Socket(UnixListener),
    Port(TcpListener),
}

impl Listener {
    fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Socket(_) => None,
            Listener::Port(listener) => listener.local_addr().ok(),
        }
    }
}

fn listen_on(address: SocketAddr) -> Result<Listener, WebError> {
    check_address(address, false)?;
    let failed = |source| WebError::Listen { address, source };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Port(TcpListener::from_std(listener)?))
}

/// One that nobody listens at any more is taken away; nothing else is.
fn listen_at(path: &Path) -> Result<Listener, WebError> {
    let failed = |source| WebError::ListenAt { path: path.display().to_string(), source };
    let is_left = std::fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket())
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_left {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Other users are turned away in any case.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(Listener::Socket(listener))
}

async fn accept(listener: Listener, router: Router) {
    let clients = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let Ok(permit) = clients.clone().acquire_owned().await else { return };
        let router = router.clone();
        let accepted = match &listener {
            Listener::Socket(listener) => listener.accept().await.map(|(stream, _)| {
                let is_trusted = stream.peer_cred().is_ok_and(|peer| is_trusted(peer.uid()));
                is_trusted.then(|| {
                    tokio::spawn(async move {
                        connection::serve_plainly(stream, router).await;
                        drop(permit);
                    })
                });
            }),
            Listener::Port(listener) => listener.accept().await.map(|(stream, _)| {
                tokio::spawn(async move {
                    connection::serve_plainly(stream, router).await;
                    drop(permit);
                });
            }),
        };
        if accepted.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

async fn metrics(State(board): State<Arc<ScrapeBoard>>, headers: HeaderMap) -> Response {
    if !board.is_let_in(&headers) {
        let text = "expected the token of --token-file as `Authorization: Bearer TOKEN`\n";
        return (StatusCode::UNAUTHORIZED, text).into_response();
    }
    let mut reports = board.report.subscribe();
    board.is_wanted.store(true, Ordering::Release);
    let came = tokio::time::timeout(PATIENCE, reports.changed()).await;
    let report = reports.borrow().clone().filter(|_| matches!(came, Ok(Ok(()))));
    let Some(report) = report else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the stream makes no report\n").into_response();
    };
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let (kind, text) = (board.text)(&report, accept);
    ([(CONTENT_TYPE, kind)], text).into_response()
}
