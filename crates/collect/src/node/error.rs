//! Where the collectors of the node read, and why one has no values.

use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel's file systems are: recorded trees stand elsewhere.
#[derive(Clone, Debug)]
pub struct NodeRoots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl NodeRoots {
    /// Where a path that the kernel names lies.
    pub(super) fn place(&self, path: &Path) -> PathBuf {
        path.strip_prefix("/sys").map_or_else(|_| path.to_owned(), |below| self.sys.join(below))
    }
}

impl Default for NodeRoots {
    fn default() -> NodeRoots {
        NodeRoots { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// Why a collector of the node has no values.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The machine has none of what it collects.
    #[error("{0}")]
    Absent(String),
    /// A file cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path} holds no {what}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// A file is longer than any that is read; half of it would be taken for the whole.
    #[error("{path} is longer than {bytes} bytes")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The longest that is read.
        bytes: usize,
    },
}
