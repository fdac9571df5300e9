//! Where recordings are kept if nobody says otherwise, and what they are called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::KeepError;

/// The directory for the recording of that name: `$XDG_STATE_HOME/weigh/ID`, else
/// `$HOME/.local/state/weigh/ID`. Refuses a name that is no file name.
pub fn default_directory(id: &str) -> Result<PathBuf, KeepError> {
    directory_under(id, std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

fn directory_under(
    id: &str,
    state: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf, KeepError> {
    if Path::new(id).file_name().is_none_or(|name| name != id) || id.contains('\0') {
        return Err(KeepError::BadId { id: id.to_string() });
    }
    // The XDG base directory specification: a path that is not absolute is to be ignored.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let base = state
        .and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".local/state")))
        .ok_or(KeepError::NoStateDirectory)?;
    Ok(base.join("weigh").join(id))
}

/// A name for a job that starts now: UTC time to the second, and weigh's own PID, which together
/// are unique on the node.
pub fn new_job_id(now: Timestamp, pid: u32) -> String {
    format!("{}-{pid}", now.strftime("%Y%m%dT%H%M%S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(state: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
        directory_under("a", state.map(Into::into), home.map(Into::into)).ok()
    }

    #[test]
    fn the_state_directory_comes_before_home() {
        assert_eq!(under(Some("/s"), Some("/h")), Some("/s/weigh/a".into()));
        assert_eq!(under(None, Some("/h")), Some("/h/.local/state/weigh/a".into()));
        assert_eq!(under(Some(""), Some("/h")), Some("/h/.local/state/weigh/a".into()));
        assert_eq!(under(Some("relative"), Some("/h")), Some("/h/.local/state/weigh/a".into()));
        assert_eq!(under(None, None), None);
        assert_eq!(under(Some("s"), Some("h")), None);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for id in ["", ".", "..", "a/b", "/a", "../a", "a/", "a\0b"] {
            let refused = directory_under(id, Some("/s".into()), None);
            assert!(matches!(refused, Err(KeepError::BadId { .. })), "{id:?} gave {refused:?}");
        }
    }

    #[test]
    fn a_job_id_is_time_and_pid() {
        let now: Timestamp = "2026-11-21T20:39:00.999999999Z".parse().unwrap();
        assert_eq!(new_job_id(now, 12345), "20261121T203900-12345");
    }
}
