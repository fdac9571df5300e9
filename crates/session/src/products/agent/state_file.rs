//! The file in which the agent's streams survive a restart. It is there only while no agent runs: numbers of records that
//! were given since would be given again.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Far more than all streams have; a file that is longer is none of the agent's.
const MOST_BYTES: u64 = 64 << 20;

/// The file, for the agent's own user alone.
pub struct StateFile(PathBuf);

impl StateFile {
    /// One at a path.
    pub fn new(path: &Path) -> StateFile {
        StateFile(path.to_owned())
    }

    /// Takes what an agent has left, if one has. Errors: it cannot be read, or not be taken away, or this agent could
    /// leave nothing in its turn.
    pub fn take(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let failed = || format!("--state {}", self.0.display());
        let file = match File::open(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.create_beside().and_then(std::fs::remove_file).with_context(failed)?;
                return Ok(None);
            }
            opened => opened.with_context(failed)?,
        };
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes).with_context(failed)?;
        std::fs::remove_file(&self.0).with_context(failed)?;
        Ok(Some(bytes))
    }

    /// Leaves something for the next agent. Errors: there is no room, or the folder is not the agent's to write to.
    pub fn leave(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let write = || -> io::Result<()> {
            let beside = self.create_beside()?;
            let mut file = File::options().write(true).open(&beside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.0)
        };
        write().with_context(|| format!("--state {}", self.0.display()))
    }

    /// An empty file that is to take its place.
    fn create_beside(&self) -> io::Result<PathBuf> {
        let beside = self.0.with_extension("new");
        let _ = std::fs::remove_file(&beside);
        File::options().write(true).create_new(true).mode(0o600).open(&beside)?;
        Ok(beside)
    }
}

#[cfg(test)]
mod tests {
    use super::StateFile;

    #[test]
    fn a_folder_in_which_nothing_can_be_left_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = StateFile::new(&folder.path().join("missing/state"));
        let error = missing.take().expect_err("there is no folder");
        assert!(format!("{error:#}").contains("missing/state: No such file"), "{error:#}");

        let state = StateFile::new(&folder.path().join("state"));
        assert!(state.take().expect("a folder").is_none());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        state.leave(b"records").expect("left");
        assert_eq!(state.take().expect("a file").as_deref(), Some(&b"records"[..]));
    }
}
