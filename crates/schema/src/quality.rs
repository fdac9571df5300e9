//! How a value was got and how far it can be trusted.

use crate::named::named;

named! {
    /// How far a value can be trusted.
    #[derive(Default)]
    pub enum Quality {
        /// Counted at every event, by the kernel or by weigh.
        Exact = "exact",
        /// Looked at now and then: what happened between two looks is not in it.
        Sampled = "sampled",
        /// Computed from other values; the reason says how and within which bounds.
        Estimated = "estimated",
        /// Not known; the reason says why.
        #[default]
        Unavailable = "unavailable",
    }
}

impl Quality {
    /// A value that may be off by no more than this part of it counts as exact.
    pub const EXACT_WITHIN: f64 = 0.01;
}

named! {
    /// How a value was got.
    pub enum Mechanism {
        /// BPF programs at the kernel's tracepoints and functions. Older recordings name a library beside them.
        #[serde(alias = "preload+bpf")]
        Bpf = "bpf",
        /// ptrace(2) events of the job's threads.
        Ptrace = "ptrace",
        /// A library that is loaded into the job's programs.
        Preload = "preload",
        /// A library in dynamic programs, and ptrace(2) for those that it cannot be in.
        PreloadPtrace = "preload+ptrace",
        /// A file system in user space that weigh serves.
        Fuse = "fuse",
        /// Hardware counters by `perf_event_open`.
        Perf = "perf",
        /// Control group files.
        Cgroup = "cgroup",
        /// Files under `/proc`.
        Proc = "proc",
        /// `wait4` and `getrusage`.
        Rusage = "rusage",
        /// fanotify events.
        Fanotify = "fanotify",
        /// inotify events.
        Inotify = "inotify",
        /// Directory scans with `stat`.
        Stat = "stat",
        /// NVIDIA's management library.
        Nvml = "nvml",
        /// The monotonic clock.
        Clock = "clock",
        /// No mechanism: the value is unavailable.
        None = "none",
    }
}
