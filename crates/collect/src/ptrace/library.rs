//! Whether a library that counts by itself is in a program that has just begun (`weigh io --mechanism preload+ptrace`).
//!
//! Reads what the dynamic loader will go by: what the program is, its environment, and whether it trusts that. Where
//! the library cannot be in it for sure, the tracer counts. Nothing is asked of the program.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::calls::executed::auxiliary_value as auxiliary;
use crate::preload::LibraryEntry;
use crate::procfs;

/// Set where a program is not to trust its environment.
const AT_SECURE: u64 = 23;

/// The library of one job.
pub struct Library {
    entry: LibraryEntry,
    /// The library's file.
    device: u64,
    inode: u64,
}

impl Library {
    /// One that programs find by this entry; none if it is not there.
    pub fn new(entry: LibraryEntry) -> Option<Library> {
        let about = std::fs::metadata(&entry.library).ok()?;
        Some(Library { entry, device: about.dev(), inode: about.ino() })
    }

    /// Whether the loader will put it into the program that a process has just begun, if it is one for which it is.
    pub fn is_loaded_by(&self, pid: u32) -> bool {
        let variables = procfs::read_of(pid, "environ").unwrap_or_default();
        if !is_named_in(&variables, &self.entry) {
            return false;
        }
        let values = procfs::read_of(pid, "auxv").unwrap_or_default();
        auxiliary(&values, AT_SECURE) == Some(0) && self.is_within_reach_of(pid)
    }

    /// It may have another root directory, and other mounts.
    fn is_within_reach_of(&self, pid: u32) -> bool {
        let seen = Path::new("/proc").join(pid.to_string()).join("root");
        let below = self.entry.library.strip_prefix("/").unwrap_or(&self.entry.library);
        let about = std::fs::metadata(seen.join(below));
        about.is_ok_and(|about| (about.dev(), about.ino()) == (self.device, self.inode))
    }
}

/// Whether an environment says where the library is, and where it counts.
fn is_named_in(variables: &[u8], entry: &LibraryEntry) -> bool {
    let value = |name: &[u8]| {
        let mut all = variables.split(|byte| *byte == 0);
        all.find_map(|variable| variable.strip_prefix(name)?.strip_prefix(b"="))
    };
    let library = entry.library.as_os_str().as_bytes();
    let is_loaded = value(b"LD_PRELOAD").is_some_and(|list| {
        list.split(|byte| matches!(byte, b':' | b' ')).any(|path| path == library)
    });
    let file = entry.file.as_os_str().as_bytes();
    let counts = value(b"WEIGH_PRELOAD")
        .and_then(|place| place.strip_prefix(file))
        .is_some_and(|slot| slot.starts_with(b":"));
    is_loaded && counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_names_the_library_and_its_file() {
        let entry = LibraryEntry { library: "/run/w/lib.so".into(), file: "/run/w/file".into() };
        let of = |variables: &[u8]| is_named_in(variables, &entry);
        assert!(of(b"A=1\0LD_PRELOAD=/run/w/lib.so\0WEIGH_PRELOAD=/run/w/file:7\0"));
        assert!(of(b"WEIGH_PRELOAD=/run/w/file:7\0LD_PRELOAD=/a.so:/run/w/lib.so /b.so\0"));
        assert!(!of(b"LD_PRELOAD=/run/w/lib.so\0"));
        assert!(!of(b"LD_PRELOAD=/run/w/lib.so.2\0WEIGH_PRELOAD=/run/w/file:7\0"));
        assert!(!of(b"LD_PRELOAD=/run/w/lib.so\0WEIGH_PRELOAD=/run/w/file2:7\0"));
        assert!(!of(b""));
    }
}
