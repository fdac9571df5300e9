//! What is served where, and how much of it is seen.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use weigh_collect::io::RowScope;

/// A folder that is served at another place.
#[derive(Clone, Debug)]
pub struct ServedFolder {
    /// The folder that has the files.
    pub source: PathBuf,
    /// Where they appear: an empty folder.
    pub mountpoint: PathBuf,
    /// Whether every read and write comes to weigh: nothing is cached.
    pub is_exact: bool,
    /// Whether the kernel may read and write by itself, where it can.
    pub may_pass: bool,
    /// Whether each call has a row.
    pub each_call: bool,
    /// Whose numbers are kept apart.
    pub apart: RowScope,
    /// Where the files appear over the folder itself, for a command alone; `mountpoint` is weigh's own then.
    pub over: Option<OverSettings>,
}

/// How a command gets its folder covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverSettings {
    /// Whether a user namespace may be made for it.
    pub user_namespace: bool,
}

/// How reads and writes at a mount are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountMechanism {
    /// By BPF where the kernel passes reads and writes through and weigh may use BPF, else by requests.
    #[default]
    Auto,
    /// By the kernel's own tracepoints.
    Bpf,
    /// By the requests that come to weigh.
    Fuse,
}

/// One measurement of a mount.
#[derive(Clone, Debug)]
pub struct MountSettings {
    /// What is served, and where.
    pub folder: ServedFolder,
    /// The command that uses it; none: until it is interrupted or unmounted.
    pub command: Vec<OsString>,
    /// How reads and writes are counted.
    pub mechanism: MountMechanism,
    /// For how long is counted.
    pub duration: Option<Duration>,
}
