//! What can go wrong with a recording, each with the path it went wrong at.
//!
//! A recording may come from elsewhere: what an error quotes of it cannot steer a terminal.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use weigh_schema::Printable;
use weigh_schema::printable::printable;

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// The directory is taken.
    #[error(
        "{} already holds a recording ({found}); choose another directory, or say --replace",
        shown(path)
    )]
    AlreadyRecorded {
        /// The directory.
        path: PathBuf,
        /// The file that shows it.
        found: &'static str,
    },
    /// The directory is taken by a job that runs.
    #[error(
        "{} holds a recording that is still being written: its job runs; choose another directory",
        shown(path)
    )]
    StillWritten {
        /// The directory.
        path: PathBuf,
    },
    /// Something is there that is no file, and would be gone.
    #[error(
        "{} is {found}, and no file: what is written there is made beside it, and takes its place when it is whole",
        shown(path)
    )]
    NoFile {
        /// What was asked for.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// A file or directory could not be created or written.
    #[error("cannot write {}: {source}", shown(path))]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file or directory could not be read.
    #[error("cannot read {}: {source}", shown(path))]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no such directory.
    #[error("there is no directory {}", shown(path))]
    NoSuchDirectory {
        /// What was asked for.
        path: PathBuf,
    },
    /// It is a file; a recording is a directory.
    #[error(
        "{} is not a directory; a recording is the directory that holds summary.json",
        shown(path)
    )]
    NotADirectory {
        /// What was asked for.
        path: PathBuf,
    },
    /// The directory holds no recording.
    #[error(
        "{} is not a recording: it holds neither {} nor {}",
        shown(path),
        weigh_schema::recording::files::SUMMARY,
        weigh_schema::recording::files::JOURNAL
    )]
    NotARecording {
        /// The directory.
        path: PathBuf,
    },
    /// A journal that does not say which job it is about.
    #[error(
        "{} says nothing about its job: weigh was killed before it had written its first entry, \
         or its beginning is damaged ({lines} lines, {damaged} of them damaged)",
        shown(path)
    )]
    NoBeginning {
        /// The journal.
        path: PathBuf,
        /// Lines that it has.
        lines: u64,
        /// Lines that could not be read.
        damaged: u64,
    },
    /// The recording was written in another version of the schema.
    #[error(
        "{} has the schema '{}'; this weigh reads '{}'. Another version of weigh has written it, and can show it",
        shown(path),
        Printable(found),
        reads
    )]
    UnknownSchema {
        /// The file.
        path: PathBuf,
        /// What it says its schema is.
        found: String,
        /// What this version reads.
        reads: &'static str,
    },
    /// A file is not what it should be.
    #[error("{} is damaged: {}", shown(path), Printable(reason))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that holds no calls, and never did.
    #[error(
        "{} holds no calls: it is {is}. `weigh calls --per-call FILE -- COMMAND` writes one that does",
        shown(path)
    )]
    NoCalls {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        is: &'static str,
    },
    /// A name for a recording that cannot be the name of a directory.
    #[error("'{}' cannot name a recording: it must be a file name, without '/'", Printable(id))]
    BadId {
        /// What was asked for.
        id: String,
    },
    /// Nobody says where recordings are to be kept.
    #[error(
        "no place to keep recordings: neither XDG_STATE_HOME nor HOME is set to an absolute path"
    )]
    NoStateDirectory,
}

/// A path as a terminal may have it: it may be that of a recording from elsewhere.
fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

impl KeepError {
    pub(crate) fn write(path: &Path, source: io::Error) -> KeepError {
        KeepError::Write { path: path.to_path_buf(), source }
    }

    pub(crate) fn read(path: &Path, source: io::Error) -> KeepError {
        KeepError::Read { path: path.to_path_buf(), source }
    }

    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> KeepError {
        KeepError::Damaged { path: path.to_path_buf(), reason: harmless(&reason.to_string()) }
    }

    /// The Parquet library could not read a file; what the system said is taken out of its error.
    pub(crate) fn from_reading(path: &Path, error: ParquetError) -> KeepError {
        match system_error(error) {
            Ok(source) => KeepError::read(path, source),
            Err(other) => KeepError::damaged(path, other),
        }
    }

    /// The same when it could not write one: nothing can be damaged that is not there yet.
    pub(crate) fn from_writing(path: &Path, error: ParquetError) -> KeepError {
        KeepError::write(path, system_error(error).unwrap_or_else(io::Error::other))
    }
}

/// What a damaged or foreign file says is shown without what would be a command to a terminal.
pub(crate) fn harmless(text: &str) -> String {
    let is_command = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}');
    let shown = |c: char| match is_command(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

fn system_error(error: ParquetError) -> Result<io::Error, String> {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(source) => Ok(*source),
            Err(other) => Err(other.to_string()),
        },
        other => Err(other.to_string()),
    }
}
