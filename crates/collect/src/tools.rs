//! The library that turns what annotated programs say into regions (`libweigh/tools`), where a command's programs find it.
//!
//! Emits its path, and the folder that holds it; both are gone when this is dropped. What a weigh leaves that was killed
//! is removed by a later one, once no process has a use for it, as with the other libraries.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::preload::{Folder, PreloadError, must_not_be_named};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_tools.so"));

const PERFSTUBS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libweigh_perfstubs.so"));

/// What Python imports at its start.
const PYTHON: &str = include_str!("../../../libweigh/tools/sitecustomize.py");

/// The library, in a folder of one run.
pub struct ToolsLibrary {
    folder: Folder,
}

impl ToolsLibrary {
    /// Puts the library into the first place that allows it; where no other one does, into `last_resort`.
    pub fn new(last_resort: &Path) -> Result<ToolsLibrary, PreloadError> {
        let (folder, _) = Folder::new(last_resort, LIBRARY, &[])?;
        Ok(ToolsLibrary { folder })
    }

    /// Where programs find it.
    pub fn library(&self) -> &Path {
        &self.folder.library
    }

    /// Puts the library for PerfStubs beside it: where it is.
    pub fn add_perfstubs(&self) -> io::Result<PathBuf> {
        self.folder.add_library("libweigh-perfstubs.so", PERFSTUBS)
    }

    /// Puts there what Python imports at its start: the folder for its path.
    pub fn add_python(&self) -> io::Result<PathBuf> {
        let module = self.folder.add("python/sitecustomize.py", PYTHON.as_bytes())?;
        Ok(module.parent().map(Path::to_path_buf).unwrap_or_default())
    }

    /// The folder that was made for it: it is weigh's, not the job's.
    pub fn folder(&self) -> PathBuf {
        self.folder.path.clone()
    }
}

/// Whether no library may be loaded before the command's own: its sanitizer's runtime must be the first one, or it is
/// for another C library.
pub fn cannot_be_preloaded(command: &OsStr) -> bool {
    must_not_be_named(command)
}
