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
    /// It is one thread of a process.
    #[error(
        "--pid {pid}: {pid} is a thread of process {process}: --pid {process} follows all of its threads"
    )]
    IsThread {
        /// Its number.
        pid: u32,
        /// What is followed.
        process: u32,
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

/// An error with its causes; what one says already is not said again by the next.
pub fn in_full(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        match (text.is_empty(), text.ends_with(&cause)) {
            (true, _) => cause,
            (_, true) => text,
            _ => text + ": " + &cause,
        }
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_cause_that_is_named_already_is_not_named_again() {
        let full = std::io::Error::other("the disk is full");
        let error = anyhow::Error::new(full).context("cannot write it: the disk is full");
        let error = error.context("the recording is lost");
        let expected = "the recording is lost: cannot write it: the disk is full";
        assert_eq!(super::in_full(&error), expected);
    }
}
