//! Why events cannot be had.

use std::io;

use crate::job::JobError;
use crate::requirements::Missing;

/// Why events cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel or the rights do not allow it.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Membership cannot be followed, or there is no such process.
    #[error(transparent)]
    Members(#[from] JobError),
    /// A map could not be made.
    #[error("{what} of {bytes} bytes cannot be made: {error}")]
    Map {
        /// Which.
        what: &'static str,
        /// How large.
        bytes: usize,
        /// The kernel's reason.
        error: libbpf_rs::Error,
    },
    /// The kernel does not take a program.
    #[error("the kernel refuses the program for {probe}: {error}{said}")]
    Load {
        /// What it is for.
        probe: String,
        /// The kernel's reason.
        error: io::Error,
        /// What the verifier said last.
        said: String,
    },
    /// A program cannot be attached.
    #[error("{probe} cannot be attached: {error}{hint}")]
    Attach {
        /// What it is for.
        probe: String,
        /// The kernel's reason.
        error: io::Error,
        /// What may help.
        hint: &'static str,
    },
    /// Rings cannot be read.
    #[error("the rings cannot be read: {0}")]
    Read(#[from] io::Error),
    /// A counter cannot be had.
    #[error("the counter '{name}' cannot be had: {why}")]
    Counter {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
}
