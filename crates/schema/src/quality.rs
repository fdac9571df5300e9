//! How a value was got and how far it can be trusted.

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::printable::in_words;
pub use crate::unit::Number;
use crate::unit::Unit;

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

/// A value with all that is needed to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The number; absent exactly when the quality is `unavailable`.
    pub value: Option<Number>,
    /// The metric's unit.
    pub unit: Unit,
    /// How it was got.
    pub source: Mechanism,
    /// How far it can be trusted.
    pub quality: Quality,
    /// Why it is not exact, or what it leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Value {
    /// A number that was counted at every event.
    pub fn exact(unit: Unit, number: f64, source: Mechanism) -> Value {
        let value = Some(unit.number(number));
        Value { value, unit, source, quality: Quality::Exact, reason: None }
    }

    /// The same number with what there is to say of it.
    pub fn qualified(self, quality: Quality, reason: impl Into<String>) -> Value {
        Value { quality, reason: Some(reason.into()), ..self }
    }

    /// The same number, which is estimated for these reasons, if there are any.
    pub fn estimated_for(self, reasons: &[String]) -> Value {
        match reasons {
            [] => self,
            reasons => self.qualified(Quality::Estimated, reasons.join("; ")),
        }
    }

    /// A value that is not known, and why.
    pub fn unavailable(unit: Unit, reason: impl Into<String>) -> Value {
        Value {
            value: None,
            unit,
            source: Mechanism::None,
            quality: Quality::Unavailable,
            reason: Some(in_words(reason.into())),
        }
    }

    /// The number as a real, if there is one.
    pub fn number(&self) -> Option<f64> {
        self.value.map(Number::as_f64)
    }
}
