//! One client's connection: bounded in what it may hold of memory, and for how long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A request's head, and a handshake, has to come within.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of a head, and of what waits to be sent.
const BUFFER_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;
/// A client that takes nothing for so long has gone.
const STALL_TIME: Duration = Duration::from_secs(30);

/// The first byte of a handshake of TLS.
const HANDSHAKE: u8 = 0x16;
/// For who speaks HTTP to a port of TLS.
const SPEAK_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
                           This port speaks TLS: its URL begins with https://\n";

/// Serves one client until it or the server has enough.
pub(crate) async fn serve(stream: TcpStream, router: Router, tls: Option<TlsAcceptor>) {
    // Events go out at once.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve_plainly(stream, router).await,
        Some(acceptor) => {
            if let Some(stream) = handshake(stream, acceptor).await {
                serve_http(stream, router).await;
            }
        }
    }
}

/// None where the client does not get through it.
async fn handshake(
    stream: TcpStream,
    acceptor: TlsAcceptor,
) -> Option<TlsStream<PatientStream<TcpStream>>> {
    let mut first = [0];
    let bytes = timeout(HEAD_TIME, stream.peek(&mut first)).await.ok()?.ok()?;
    if bytes > 0 && first[0] != HANDSHAKE {
        // What has come is taken: the kernel would reset the connection before the answer is read. It may have gone.
        let _ = stream.try_read(&mut vec![0; BUFFER_BYTES]);
        let _ = stream.try_write(SPEAK_TLS);
        return None;
    }
    timeout(HEAD_TIME, acceptor.accept(PatientStream::new(stream))).await.ok()?.ok()
}

/// The same without TLS, by any kind of stream.
pub(crate) async fn serve_plainly<S>(stream: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_http(PatientStream::new(stream), router).await;
}

async fn serve_http<S>(stream: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that breaks off is no failure of the server.
    let _ = connection.await;
}

/// A stream whose writes fail when the other side has taken nothing for a while.
struct PatientStream<S> {
    stream: S,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> PatientStream<S> {
    fn new(stream: S) -> PatientStream<S> {
        PatientStream { stream, deadline: None }
    }

    /// What a write has come to, unless it waits for too long.
    fn patient<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let sleep = || Box::pin(tokio::time::sleep_until(Instant::now() + STALL_TIME));
        let deadline = self.deadline.get_or_insert_with(sleep);
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.patient(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.patient(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
