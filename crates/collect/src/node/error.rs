//! Where the collectors of the node read, and why one has no values.

use std::path::{Path, PathBuf};

use crate::procfs::ProcError;

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
    /// A file cannot be read, or does not hold what it should.
    #[error(transparent)]
    File(#[from] ProcError),
    /// A file is longer than any that is read; half of it would be taken for the whole.
    #[error("{path} is longer than {bytes} bytes")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The longest that is read.
        bytes: usize,
    },
}
