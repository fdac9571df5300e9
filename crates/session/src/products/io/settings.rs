//! What is to be followed, and how.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use weigh_collect::io::RowScope;

/// One measurement of reads and writes.
#[derive(Clone, Debug)]
pub struct IoSettings {
    /// The command and its arguments, unless a process or a file system is followed.
    pub command: Vec<OsString>,
    /// A process that runs already.
    pub pid: Option<u32>,
    /// A folder whose file system is followed, for all who use it.
    pub mount: Option<PathBuf>,
    /// How reads and writes are seen.
    pub mechanism: IoMechanism,
    /// Whose numbers are kept apart.
    pub apart: RowScope,
    /// Whether each call has a row.
    pub each_call: bool,
    /// Whether a tracer stops only calls on files, by a filter in the job.
    pub seccomp: bool,
    /// For how long; else until the last thread has ended.
    pub duration: Option<Duration>,
    /// Whether the choice of a mechanism goes unmentioned.
    pub is_quiet: bool,
    /// Whether the reason of that choice is named in full.
    pub is_verbose: bool,
}

impl IoSettings {
    /// Whether nothing is started: what is followed runs already.
    pub fn runs_already(&self) -> bool {
        self.pid.is_some() || self.mount.is_some()
    }
}

/// How reads and writes are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMechanism {
    /// By BPF, weigh's own or an agent's; else by a library in the programs; else by a tracer.
    Auto,
    /// The kernel's own tracepoints.
    Bpf,
    /// A library in dynamic programs.
    Preload,
    /// As [`IoMechanism::Bpf`]: once both counted in one job.
    PreloadBpf,
    /// A library, and a tracer for programs that it cannot be in.
    PreloadPtrace,
    /// A tracer that stops each call on files.
    Ptrace,
}
