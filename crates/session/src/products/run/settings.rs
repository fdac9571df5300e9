//! What one run is to measure, and what becomes of its job at a limit.

use std::ffi::OsString;
use std::fs::Metadata;
use std::path::PathBuf;
use std::time::Duration;

use weigh_account::WatchSpec;
use weigh_collect::io::{RowScope, Telling};
use weigh_schema::Mechanism;
use weigh_schema::following::Level;
use weigh_schema::limit::{Limit, OnLimit};

use super::conventions::Conventions;
use crate::products::io::mount::ServedFolder;

/// One run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// The name of the job.
    pub id: String,
    /// Where the recording is made: that is no part of the job's disk footprint. Empty: there is no place for one.
    pub directory: PathBuf,
    /// Other files that weigh writes.
    pub own_files: Vec<Metadata>,
    /// The command and its arguments; none where a process is joined.
    pub command: Vec<OsString>,
    /// A process that runs already: it is followed in place of a command.
    pub pid: Option<u32>,
    /// For how long it is followed at most.
    pub duration: Option<Duration>,
    /// What kind of job it is.
    pub category: Option<String>,
    /// Labels of the recording.
    pub labels: Vec<(String, String)>,
    /// Whether nothing but errors, and what limits do, is told.
    pub is_quiet: bool,
    /// Whether it is told why no better mechanism follows the job.
    pub is_verbose: bool,
    /// When the job is over.
    pub wait_for: WaitFor,
    /// Time between samples, and the window of rates; none: as the mechanism can have it.
    pub interval: Option<Duration>,
    /// The limits.
    pub limits: Vec<Limit>,
    /// What happens when one is crossed.
    pub on_limit: OnLimit,
    /// Time between TERM and KILL.
    pub grace: Duration,
    /// The files that are watched for snapshots.
    pub snapshots: Vec<WatchSpec>,
    /// What follows the job; none: the best that works.
    pub mechanism: Option<Mechanism>,
    /// How deep it looks; none: as deep as it does by itself.
    pub level: Option<Level>,
    /// Whether a filter in the job lets only the calls of interest stop under a tracer.
    pub seccomp: bool,
    /// The collectors that are left out.
    pub without: Vec<Collector>,
    /// The folders whose disk footprint is measured; none: the working directory.
    pub footprint: Vec<PathBuf>,
    /// Whether opens are followed by fanotify where functions cannot be probed.
    pub fanotify: bool,
    /// Whether the job gets a control group of its own.
    pub cgroup: bool,
    /// Whether delay accounting is turned on, and the wait for a CPU is split by who had it.
    pub delays: bool,
    /// Whether each dirty page is followed until it is on the device.
    pub written: bool,
    /// Reads and writes by file, if they are measured.
    pub io: Option<RunIoSettings>,
    /// The parts of the kernel of which it is measured what system calls cost there: all where none is named; none: calls
    /// are not followed.
    pub calls: Option<Vec<String>>,
    /// The conventions by which annotated programs tell their regions.
    pub conventions: Option<Conventions>,
}

/// How reads and writes of a job are measured.
#[derive(Clone, Debug)]
pub struct RunIoSettings {
    /// How they are seen.
    pub mechanism: RunIoMechanism,
    /// Whether each call has a row.
    pub each_call: bool,
    /// Whose numbers are kept apart.
    pub apart: RowScope,
    /// The folder that is served to the job, if it is that which is measured.
    pub mount: Option<ServedFolder>,
}

impl RunIoSettings {
    /// The same for the mechanism.
    pub(super) fn telling(&self) -> Telling {
        if self.each_call { Telling::Each } else { Telling::Sums }
    }
}

impl RunSettings {
    /// Whether a collector was not turned off.
    pub fn wants(&self, collector: Collector) -> bool {
        !self.without.contains(&collector)
    }
}

/// How a run sees reads and writes, beside the mechanism that follows the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunIoMechanism {
    /// By BPF where that is allowed, else by the mechanism that follows the job.
    Auto,
    /// By the kernel's own tracepoints.
    Bpf,
    /// By BPF: once a library counted in the same job.
    PreloadBpf,
    /// By a library in dynamic programs, and by a tracer in the others.
    PreloadPtrace,
    /// By the tracer that follows the job.
    Ptrace,
}

impl RunIoMechanism {
    /// Whether a tracer counts. It has to be the one that follows the job: a process can have one only.
    pub fn takes_tracer(self) -> bool {
        matches!(self, RunIoMechanism::PreloadPtrace | RunIoMechanism::Ptrace)
    }

    /// Its name, as in options.
    pub fn name(self) -> &'static str {
        match self {
            RunIoMechanism::Auto => "auto",
            RunIoMechanism::Bpf => "bpf",
            RunIoMechanism::PreloadBpf => "preload+bpf",
            RunIoMechanism::PreloadPtrace => "preload+ptrace",
            RunIoMechanism::Ptrace => "ptrace",
        }
    }
}

/// When a job is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// When the command itself has ended.
    Main,
    /// When the last of its descendants has ended, however it was started.
    All,
}

/// The collectors that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collector {
    /// The BPF programs: everything that follows the job in the kernel.
    Bpf,
    /// Hardware counters.
    Hardware,
    /// Sockets.
    Network,
    /// Opened files.
    Files,
    /// Disk footprint.
    Footprint,
    /// Control group of the job.
    Cgroup,
    /// Graphics processors.
    Gpu,
    /// Scans of shared pages.
    Pages,
    /// The kernel's delay accounting.
    Delays,
}

impl Collector {
    /// Its name in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Collector::Bpf => "bpf",
            Collector::Hardware => "hardware",
            Collector::Network => "network",
            Collector::Files => "files",
            Collector::Footprint => "footprint",
            Collector::Cgroup => "cgroup",
            Collector::Gpu => "gpu",
            Collector::Pages => "pages",
            Collector::Delays => "delays",
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Those of a run of which nothing was asked.
    pub fn settings() -> RunSettings {
        RunSettings {
            id: "job".to_string(),
            directory: PathBuf::from("recording"),
            own_files: Vec::new(),
            command: vec!["true".into()],
            pid: None,
            duration: None,
            category: None,
            labels: Vec::new(),
            is_quiet: false,
            is_verbose: false,
            wait_for: WaitFor::All,
            interval: None,
            limits: Vec::new(),
            on_limit: OnLimit::Kill,
            grace: Duration::ZERO,
            snapshots: Vec::new(),
            mechanism: None,
            level: None,
            seccomp: false,
            without: Vec::new(),
            footprint: Vec::new(),
            fanotify: false,
            cgroup: false,
            delays: false,
            written: false,
            io: None,
            calls: None,
            conventions: None,
        }
    }

    impl RunSettings {
        /// With reads and writes by file.
        pub fn with_io(self, mechanism: RunIoMechanism) -> RunSettings {
            let io = RunIoSettings {
                mechanism,
                each_call: false,
                apart: RowScope::Processes,
                mount: None,
            };
            RunSettings { io: Some(io), ..self }
        }
    }
}
