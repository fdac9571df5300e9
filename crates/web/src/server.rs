//! The server: listens on loopback, or elsewhere with TLS, takes so many clients at once, and looks after what is live.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use weigh_wire::Token;

use crate::access::Access;
use crate::connection;
use crate::error::WebError;
use crate::feed::FeedOpener;
use crate::folder::RecordingsFolder;
use crate::jobs::JobTable;
use crate::names::ServerNames;
use crate::node::NodeBoard;
use crate::routes::{App, MetricsText, router};
use crate::tls::TlsIdentity;
use crate::tokens::{Grant, TokenAuthority, TokenTable};

/// Clients at once: those beyond wait in the kernel's queue.
const CLIENTS: usize = 256;
/// Threads that read files.
const READERS: usize = 8;
/// While somebody watches a job, its journal is read so often.
const LIVE_INTERVAL: Duration = Duration::from_millis(100);
/// Between two looks at whether the certificate is another one.
const RENEWAL: Duration = Duration::from_secs(10);
/// After a failure to accept, as when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// What is served, and what the binary hands in.
pub struct ServeSettings {
    /// Where to listen.
    pub listening: Listening,
    /// Its certificate; without one it listens on loopback alone.
    pub tls: Option<TlsIdentity>,
    /// What renews the certificate.
    pub renewal: Option<TlsRenewal>,
    /// Recordings, and folders with recordings.
    pub folders: Vec<PathBuf>,
    /// For whom the page is.
    pub audience: PageAudience,
    /// With this token programs collect the node's metrics.
    pub metrics_token: Option<Token>,
    /// Writes the node's values for `/metrics`; without it there is no such path.
    pub metrics: Option<MetricsText>,
}

/// Looks after the certificate of a server: it is called now and then, and at once when that is asked for by SIGHUP (true).
pub struct TlsRenewal {
    /// Renews it if there is another one. It may block.
    pub renew: Arc<dyn Fn(bool) + Send + Sync>,
    /// Whether SIGHUP asks for it; else that ends the server.
    pub by_hangup: bool,
}

/// Where a server listens.
pub enum Listening {
    /// At an address; port 0 for any.
    At(SocketAddr),
    /// By a socket that listens already.
    By(OwnedFd),
}

/// For whom the page is.
pub enum PageAudience {
    /// For who has started the server: one token, and these values of the node.
    Starter(FeedOpener),
    /// For the holders of tokens that somebody else knows.
    Users(Arc<dyn TokenAuthority>),
}

/// A server that listens.
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    app: Arc<App>,
    access: Arc<Access>,
    tls: Option<TlsIdentity>,
    renewal: Option<TlsRenewal>,
}

impl Server {
    /// Listens; refuses addresses that other machines can reach without TLS, and folders that cannot be read.
    pub fn bind(settings: ServeSettings) -> Result<Server, WebError> {
        let ServeSettings { listening, tls, renewal, .. } = settings;
        let ServeSettings { folders, audience, metrics_token, metrics, .. } = settings;
        let listener = listen(listening, tls.is_some())?;
        let folders = folders.iter().map(|path| open_folder(path)).collect::<Result<_, _>>()?;
        let names = ServerNames::new(listener.local_addr()?, tls.clone())?;
        let access = Arc::new(Access::new(tokens(audience, metrics_token)?, names));
        let app = App::new(JobTable::new(folders), metrics);
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(READERS).build()?;
        Ok(Server { runtime, listener, app: Arc::new(app), access, tls, renewal })
    }

    /// The URL that opens the page: with the token.
    pub fn url(&self) -> String {
        self.access.url()
    }

    /// Serves until TERM or INT.
    pub fn run(self) -> Result<(), WebError> {
        let Server { runtime, listener, app, access, tls, renewal } = self;
        let served: Result<(), WebError> = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let mut ends = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
            let router = router(app.clone(), access);
            tokio::spawn(read_on_while_watched(app));
            if let Some(renewal) = renewal {
                let hangups =
                    renewal.by_hangup.then(|| signal(SignalKind::hangup())).transpose()?;
                tokio::spawn(renew(renewal.renew, hangups));
            }
            let serving = tokio::spawn(accept(listener, router, tls));
            first_of(&mut ends).await;
            serving.abort();
            Ok(())
        });
        // A reader that hangs on a disk is not waited for.
        runtime.shutdown_background();
        served
    }
}

fn listen(listening: Listening, has_tls: bool) -> Result<TcpListener, WebError> {
    let listener = match listening {
        Listening::At(address) => {
            check_address(address, has_tls)?;
            let failed = |source| WebError::Listen { address, source };
            TcpListener::bind(address).map_err(failed)?
        }
        Listening::By(socket) => {
            let listener = TcpListener::from(socket);
            check_address(listener.local_addr()?, has_tls)?;
            listener
        }
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether a page may be served there. Errors: other machines can reach the address, and there is no TLS.
pub fn check_address(address: SocketAddr, has_tls: bool) -> Result<(), WebError> {
    match has_tls || address.ip().is_loopback() {
        true => Ok(()),
        false => Err(WebError::NotLoopback(address)),
    }
}

fn tokens(audience: PageAudience, of_metrics: Option<Token>) -> Result<TokenTable, WebError> {
    let feed = match audience {
        PageAudience::Users(authority) => return Ok(TokenTable::of_authority(authority)),
        PageAudience::Starter(feed) => feed,
    };
    let node = Arc::new(NodeBoard::start(feed)?);
    let grant = |is_for_metrics| Grant { node: node.clone(), is_for_metrics };
    let table = TokenTable::default().with(Token::generate()?, grant(false));
    Ok(match of_metrics {
        Some(token) => table.with(token, grant(true)),
        None => table,
    })
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

async fn accept(listener: tokio::net::TcpListener, router: axum::Router, tls: Option<TlsIdentity>) {
    let clients = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let Ok(permit) = clients.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                let acceptor = tls.as_ref().map(TlsIdentity::acceptor);
                tokio::spawn(async move {
                    connection::serve(stream, router, acceptor).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Now and then, and at each hangup.
async fn renew(renew: Arc<dyn Fn(bool) + Send + Sync>, mut hangups: Option<Signal>) {
    loop {
        let asked = async {
            match &mut hangups {
                Some(hangups) => hangups.recv().await.map(drop),
                None => std::future::pending().await,
            }
        };
        let is_asked = tokio::time::timeout(RENEWAL, asked).await.is_ok();
        let renew = renew.clone();
        // A panic there is the next round's to meet.
        let _ = tokio::task::spawn_blocking(move || renew(is_asked)).await;
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
