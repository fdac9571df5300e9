//! Why a job cannot be followed by a library.

use std::io;

use weigh_schema::Unit;
use weigh_schema::amount::show_amount;

use crate::follow::MechanismError;

/// Why a job cannot be followed in this way.
#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    /// The library cannot be put anywhere.
    #[error("no place for the library that is loaded into the job's programs: {tried}")]
    NoPlace {
        /// Each place, and what was wrong with it.
        tried: String,
    },
    /// What the library shares with its programs is larger than any file may be.
    #[error(
        "its programs share a file of {needed} with weigh, and none may be larger than {most} here (ulimit -f)",
        needed = show_amount(*needed as f64, Unit::Bytes),
        most = show_amount(*most as f64, Unit::Bytes)
    )]
    FileSize {
        /// Its bytes.
        needed: u64,
        /// The hard limit.
        most: u64,
    },
    /// weigh's own counts cannot be read.
    #[error("cannot read /proc/self/io: {0}")]
    OwnIo(io::Error),
    /// It is of a lower level.
    #[error("the library that was loaded does not count by file")]
    CountsNothing,
    /// Programs get the library when they begin.
    #[error("a process that runs already cannot be followed by a library: that takes bpf")]
    RunsAlready,
}

impl PreloadError {
    /// Why the library has no place, if that is a limit on the size of files.
    pub fn of_file_size<'a>(
        error: &'a (dyn std::error::Error + 'static),
    ) -> Option<&'a PreloadError> {
        let own = error.downcast_ref::<PreloadError>();
        let named = error.downcast_ref::<MechanismError>();
        own.or(named.and_then(MechanismError::downcast_ref))
            .filter(|error| matches!(error, PreloadError::FileSize { .. }))
    }
}

impl From<PreloadError> for MechanismError {
    fn from(error: PreloadError) -> MechanismError {
        MechanismError::new("preload", error)
    }
}
