//! What can go wrong: of the server as a whole, and of one request.

use std::net::SocketAddr;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::tls::TlsError;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// Other machines can reach the address, and there is no TLS.
    #[error(
        "{0} can be reached from other machines: that needs TLS, as --http {0} --tls-cert FILE --tls-key FILE. Without, \
         serve 127.0.0.1 and reach it by `ssh -L {port}:127.0.0.1:{port} HOST`", port = .0.port()
    )]
    NotLoopback(SocketAddr),
    /// There is no TLS with this certificate.
    #[error("--tls-cert, --tls-key: {0}")]
    Tls(#[from] TlsError),
    /// It cannot listen there.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It cannot listen at a socket.
    #[error("cannot listen at {path}: {source}")]
    ListenAt {
        /// Where.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// What it needs of the system is not to be had.
    #[error("cannot start the server: {0}")]
    Start(#[from] std::io::Error),
    /// A folder cannot be read.
    #[error("cannot serve {path}: {source}")]
    Folder {
        /// The folder.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Why a request is refused.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    error: String,
    expected: String,
}

/// As clients get it.
#[derive(Serialize)]
pub(crate) struct ErrorBody<'a> {
    pub(crate) schema: &'static str,
    pub(crate) error: &'a str,
    pub(crate) expected: &'a str,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, error: &str, expected: &str) -> ApiError {
        ApiError { status, error: error.to_string(), expected: expected.to_string() }
    }

    /// A parameter is wrong.
    pub(crate) fn parameter(error: impl Into<String>, expected: &str) -> ApiError {
        let error = error.into();
        ApiError { status: StatusCode::BAD_REQUEST, error, expected: expected.to_string() }
    }

    /// There is no such job.
    pub(crate) fn no_job() -> ApiError {
        let expected = "an id of /api/v1/jobs";
        ApiError::new(StatusCode::NOT_FOUND, "there is no such job", expected)
    }

    /// A recording cannot be read.
    pub(crate) fn recording(error: impl ToString) -> ApiError {
        ApiError {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            error: error.to_string(),
            expected: "a recording that can be read".to_string(),
        }
    }

    /// The server itself has failed.
    pub(crate) fn internal(error: impl ToString) -> ApiError {
        ApiError {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            error: error.to_string(),
            expected: "an answer".to_string(),
        }
    }

    /// The node is not looked at.
    pub(crate) fn no_node() -> ApiError {
        let expected = "a server that looks at its node";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "no values of the node", expected)
    }

    /// The node is looked at by an agent that has gone.
    pub(crate) fn no_data(error: &str) -> ApiError {
        let expected = "an agent that answers: weigh serve tries again while somebody looks";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error, expected)
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body =
            ErrorBody { schema: "weigh.error/1", error: &self.error, expected: &self.expected };
        (self.status, Json(body)).into_response()
    }
}
