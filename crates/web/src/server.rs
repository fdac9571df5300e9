//! The server: listens on loopback, takes so many clients at once, and looks after what is live.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

use crate::access::{Access, Token};
use crate::connection;
use crate::error::WebError;
use crate::feed::FeedOpener;
use crate::folder::RecordingsFolder;
use crate::jobs::JobTable;
use crate::node::NodeBoard;
use crate::page::PageBuilder;
use crate::routes::{App, MetricsText, router};

/// Clients at once: those beyond wait in the kernel's queue.
const CLIENTS: usize = 256;
/// Threads that read files.
const READERS: usize = 8;
/// While somebody watches a job, its journal is read so often.
const LIVE_INTERVAL: Duration = Duration::from_millis(100);
/// After a failure to accept, as when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// What is served, and what the binary hands in.
pub struct ServeSettings {
    /// Where to listen; port 0 for any.
    pub address: SocketAddr,
    /// Recordings, and folders with recordings.
    pub folders: Vec<PathBuf>,
    /// Values of the node.
    pub feed: FeedOpener,
    /// Makes the data of a recording's page.
    pub pages: PageBuilder,
    /// Writes the node's values for `/metrics`; without it there is no such path.
    pub metrics: Option<MetricsText>,
}

/// A server that listens.
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    app: Arc<App>,
    access: Arc<Access>,
}

impl Server {
    /// Listens; refuses addresses that other machines can reach, and folders that cannot be read.
    pub fn bind(settings: ServeSettings) -> Result<Server, WebError> {
        let ServeSettings { address, folders, feed, pages, metrics } = settings;
        if !address.ip().is_loopback() {
            return Err(WebError::NotLoopback(address));
        }
        let folders = folders.iter().map(|path| open_folder(path)).collect::<Result<_, _>>()?;
        let listen = |source| WebError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true)?;
        let access = Access::new(Token::generate()?, listener.local_addr()?);
        let app = App::new(NodeBoard::start(feed)?, JobTable::new(folders), pages, metrics);
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(READERS).build()?;
        Ok(Server { runtime, listener, app: Arc::new(app), access: Arc::new(access) })
    }

    /// The URL that opens the page: with the token.
    pub fn url(&self) -> String {
        self.access.url()
    }

    /// Serves until TERM or INT.
    pub fn run(self) -> Result<(), WebError> {
        let Server { runtime, listener, app, access } = self;
        let served: Result<(), WebError> = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let mut ends = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
            let router = router(app.clone(), access);
            tokio::spawn(read_on_while_watched(app));
            let serving = tokio::spawn(accept(listener, router));
            first_of(&mut ends).await;
            serving.abort();
            Ok(())
        });
        // A reader that hangs on a disk is not waited for.
        runtime.shutdown_background();
        served
    }
}

fn open_folder(path: &Path) -> Result<RecordingsFolder, WebError> {
    let shown = || path.display().to_string();
    RecordingsFolder::open(path).map_err(|source| WebError::Folder { path: shown(), source })
}

/// Waits for one of the signals.
async fn first_of(signals: &mut [Signal]) {
    std::future::poll_fn(|context| {
        let mut polled = signals.iter_mut().map(|signal| signal.poll_recv(context).is_ready());
        match polled.any(|is_ready| is_ready) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

async fn accept(listener: tokio::net::TcpListener, router: axum::Router) {
    let clients = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let Ok(permit) = clients.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    connection::serve(stream, router).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// While there are streams: new lines of journals that are watched, and changes of the folders.
async fn read_on_while_watched(app: Arc<App>) {
    let mut viewers = app.viewers.subscribe();
    while viewers.wait_for(|viewers| *viewers > 0).await.is_ok() {
        let shared = app.clone();
        let read = move || {
            shared.jobs.scan();
            shared.jobs.read_on_watched();
        };
        // A panic there is the next round's to meet.
        let _ = tokio::task::spawn_blocking(read).await;
        tokio::time::sleep(LIVE_INTERVAL).await;
    }
}
