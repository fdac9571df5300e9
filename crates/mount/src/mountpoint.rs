//! What is refused before anything is mounted: places that cannot be served, or not be served at.

use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use weigh_schema::Mechanism;
use weigh_schema::availability::CollectorInfo;
use weigh_schema::event::CollectorStatus;
use weigh_schema::source_traits::{Intrusiveness, SourceMode, SourceTraits};

use crate::error::MountError;

const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";
/// Where it is, for who has a short PATH.
const PLACES: [&str; 2] = ["/usr/bin", "/bin"];

/// What is served, and where: as absolute paths.
#[derive(Debug)]
pub struct MountPaths {
    /// The folder that has the files.
    pub source: PathBuf,
    /// The folder where they appear.
    pub mountpoint: PathBuf,
}

impl MountPaths {
    /// Looks at both.
    pub fn check(source: &Path, mountpoint: &Path) -> Result<MountPaths, MountError> {
        let source = directory("SOURCE", source)?;
        let mountpoint = directory("MOUNTPOINT", mountpoint)?;
        if source.starts_with(&mountpoint) || mountpoint.starts_with(&source) {
            return Err(MountError::Nested { source_path: source, mountpoint });
        }
        let unreachable = |error| unreachable("MOUNTPOINT", &mountpoint, error);
        if mountpoint.read_dir().map_err(unreachable)?.next().is_some() {
            return Err(MountError::NotEmpty(mountpoint));
        }
        Ok(MountPaths { source, mountpoint })
    }
}

fn unreachable(what: &'static str, path: &Path, error: io::Error) -> MountError {
    if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) {
        return MountError::Dead(path.to_owned());
    }
    MountError::Unreachable { what, path: path.to_owned(), error }
}

fn directory(what: &'static str, path: &Path) -> Result<PathBuf, MountError> {
    let whole = path.canonicalize().map_err(|error| unreachable(what, path, error))?;
    let is_directory = whole.metadata().map_err(|error| unreachable(what, path, error))?.is_dir();
    match is_directory {
        true => Ok(whole),
        false => Err(MountError::NoDirectory { what, path: path.to_owned() }),
    }
}

/// Whether this process may mount by itself, and have the kernel pass reads and writes through.
pub fn is_privileged() -> bool {
    let sets = rustix::thread::capabilities(None);
    sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// What it is for, and what it takes.
pub const INFO: CollectorInfo = CollectorInfo::new(
    "mount",
    "reads and writes of all files below a folder, by whom they are made (weigh io mount)",
    None,
)
.probed_by(probe)
.asks(SourceTraits {
    mode: SourceMode::Interposition,
    rights: "none with fusermount3, else CAP_SYS_ADMIN",
    scope: "folder",
    intrusiveness: Intrusiveness::High,
    cost: "one more way through the kernel and weigh at each read and write of a file there",
});

fn probe() -> CollectorStatus {
    CollectorStatus::of_trial(INFO.name, Mechanism::Fuse, check_means())
}

/// What mounting needs besides the two folders.
pub fn check_means() -> Result<(), MountError> {
    let mut options = std::fs::OpenOptions::new();
    let cloexec = rustix::fs::OFlags::CLOEXEC.bits() as i32;
    match options.read(true).write(true).custom_flags(cloexec).open(DEVICE) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(MountError::NoDevice),
        Err(error) => return Err(MountError::Device(error)),
    }
    if is_privileged() || has_helper() {
        return Ok(());
    }
    Err(MountError::NoHelper)
}

fn has_helper() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path);
    of_path.chain(PLACES.map(PathBuf::from)).any(|folder| folder.join(HELPER).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(source: &Path, mountpoint: &Path) -> String {
        MountPaths::check(source, mountpoint).expect_err("refused").to_string()
    }

    #[test]
    fn places_that_can_not_be_served_are_named() {
        let scratch = tempfile::tempdir().expect("a folder");
        let [source, at] = ["source", "at"].map(|name| scratch.path().join(name));
        std::fs::create_dir_all(source.join("inner")).expect("made");
        assert!(refused(&source, &at).starts_with("MOUNTPOINT"), "absent");
        std::fs::create_dir(&at).expect("made");
        assert!(MountPaths::check(&source, &at).is_ok());
        assert!(refused(&source, &source).contains("inside the other"));
        assert!(refused(&source, &source.join("inner")).contains("inside the other"));
        assert!(refused(&source.join("inner"), scratch.path()).contains("inside the other"));
        assert!(refused(&at, &source).contains("an empty directory"));
        std::fs::write(at.join("file"), "x").expect("written");
        assert!(refused(&at.join("file"), &source.join("inner")).contains("no directory"));
    }

    #[test]
    fn a_name_that_begins_alike_is_not_inside() {
        let scratch = tempfile::tempdir().expect("a folder");
        let [source, at] = ["a", "ab"].map(|name| scratch.path().join(name));
        std::fs::create_dir(&source).expect("made");
        std::fs::create_dir(&at).expect("made");
        assert!(MountPaths::check(&source, &at).is_ok());
    }
}
