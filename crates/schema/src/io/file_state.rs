//! What file systems say of files: size, mode and time of change, before a job and after it.
//!
//! Files are looked at once, when the job has ended. What one was before follows from the times that the file system
//! keeps: nobody can set the time at which a file's inode was changed last.

use serde::{Deserialize, Serialize};

/// The file system's clock goes by ticks, which are no longer than that.
const TICK_NS: i64 = 10_000_000;

const CHANGED: &str = "it was changed while the job ran: what it was before is not known";

/// What the file system says of a file at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Its size.
    pub size_bytes: u64,
    /// Its permissions: the lowest 12 bits of st_mode.
    pub mode: u32,
    /// When its content was changed last: nanoseconds since the Unix epoch, UTC.
    pub modified_ns: i64,
}

/// The same before the job began and after it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStates {
    /// Whether it was there before the job began; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_there: Option<bool>,
    /// What it was before; absent if it was not there, or if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileState>,
    /// What it was in the end; absent if it is not there any more, or if nobody could look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileState>,
    /// Why one of them is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What the file system says of a file in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAtEnd {
    /// Size, mode, time.
    pub state: FileState,
    /// When anything of its inode was changed last, nanoseconds since the Unix epoch.
    pub inode_changed_ns: i64,
    /// When it was made, where the file system keeps that.
    pub born_ns: Option<i64>,
}

impl FileStates {
    /// Why nothing is known of one that is not there any more.
    pub const NO_NAME: &str = "it has no name any more";

    /// Nothing is known, and why.
    pub fn unknown(reason: &str) -> FileStates {
        FileStates { reason: Some(reason.to_string()), ..FileStates::default() }
    }

    /// Whether nothing is known, and nothing is said of that.
    pub fn is_empty(&self) -> bool {
        *self == FileStates::default()
    }

    /// By what was found in the end, of a job that began at that time since the Unix epoch.
    pub fn of_end(end: &FileAtEnd, began_ns: i64) -> FileStates {
        let is_before = |time_ns: i64| time_ns < began_ns.saturating_sub(TICK_NS);
        let is_unchanged = is_before(end.inode_changed_ns);
        let was_there = match end.born_ns {
            _ if is_unchanged => Some(true),
            Some(born_ns) if is_before(born_ns) => Some(true),
            Some(born_ns) if born_ns >= began_ns => Some(false),
            _ => None,
        };
        let is_lost = !is_unchanged && was_there != Some(false);
        FileStates {
            was_there,
            before: is_unchanged.then_some(end.state),
            after: Some(end.state),
            reason: is_lost.then(|| CHANGED.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: i64 = 1_000_000_000_000;

    fn of(inode_changed_ns: i64, born_ns: Option<i64>) -> FileStates {
        let state = FileState { size_bytes: 4099, mode: 0o640, modified_ns: inode_changed_ns };
        FileStates::of_end(&FileAtEnd { state, inode_changed_ns, born_ns }, BEGAN)
    }

    #[test]
    fn a_file_that_nobody_changed_was_what_it_is() {
        for born_ns in [Some(7), None] {
            let states = of(BEGAN - 11_000_000, born_ns);
            assert_eq!((states.was_there, states.before), (Some(true), states.after));
            assert_eq!(states.after.map(|state| state.size_bytes), Some(4099));
            assert_eq!(states.reason, None);
        }
    }

    #[test]
    fn of_one_that_was_changed_it_is_not_known_what_it_was() {
        for changed_ns in [BEGAN - 9_000_000, BEGAN + 1] {
            let states = of(changed_ns, Some(BEGAN - 20_000_000));
            assert_eq!((states.was_there, states.before), (Some(true), None));
            assert!(states.after.is_some() && states.reason.is_some());
        }
    }

    #[test]
    fn one_that_the_job_made_was_not_there() {
        let states = of(BEGAN + 7, Some(BEGAN + 5));
        assert_eq!((states.was_there, states.before, states.reason), (Some(false), None, None));
        // By a tick it may be either.
        assert_eq!(of(BEGAN + 7, Some(BEGAN - 5)).was_there, None);
        assert_eq!(of(BEGAN + 7, None).was_there, None);
    }
}
