//! Why a session cannot begin or go on.

use std::io;

/// What a source says is wrong with it. Boxed, so that no list here names every mechanism.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Why a session cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The kernel refuses what every session needs.
    #[error("{doing}")]
    System {
        /// What was to be done.
        doing: &'static str,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
    /// The process that was to be followed has ended.
    #[error(
        "--pid {pid}: process {pid} has ended: it is a zombie, which its parent has not waited for"
    )]
    IsZombie {
        /// Its number.
        pid: u32,
    },
    /// A source cannot go on.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl SessionError {
    pub(crate) fn system(doing: &'static str, error: impl Into<io::Error>) -> SessionError {
        SessionError::System { doing, error: error.into() }
    }
}
