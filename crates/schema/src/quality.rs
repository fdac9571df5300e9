//! How a value was got and how far it can be trusted.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::printable::in_words;
pub use crate::unit::Number;
use crate::unit::Unit;

/// How far a value can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// Counted at every event, by the kernel or by weigh.
    Exact,
    /// Looked at now and then: what happened between two looks is not in it.
    Sampled,
    /// Computed from other values; the reason says how and within which bounds.
    Estimated,
    /// Not known; the reason says why.
    #[default]
    Unavailable,
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quality::Exact => "exact",
            Quality::Sampled => "sampled",
            Quality::Estimated => "estimated",
            Quality::Unavailable => "unavailable",
        })
    }
}

/// How a value was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// BPF programs at the kernel's tracepoints and functions. Older recordings name a library beside them.
    #[serde(alias = "preload+bpf")]
    Bpf,
    /// ptrace(2) events of the job's threads.
    Ptrace,
    /// A library that is loaded into the job's programs.
    Preload,
    /// A library in dynamic programs, and ptrace(2) for those that it cannot be in.
    #[serde(rename = "preload+ptrace")]
    PreloadPtrace,
    /// A file system in user space that weigh serves.
    Fuse,
    /// Hardware counters by `perf_event_open`.
    Perf,
    /// Control group files.
    Cgroup,
    /// Files under `/proc`.
    Proc,
    /// `wait4` and `getrusage`.
    Rusage,
    /// fanotify events.
    Fanotify,
    /// inotify events.
    Inotify,
    /// Directory scans with `stat`.
    Stat,
    /// NVIDIA's management library.
    Nvml,
    /// The monotonic clock.
    Clock,
    /// No mechanism: the value is unavailable.
    None,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mechanism::Bpf => "bpf",
            Mechanism::Ptrace => "ptrace",
            Mechanism::Preload => "preload",
            Mechanism::PreloadPtrace => "preload+ptrace",
            Mechanism::Fuse => "fuse",
            Mechanism::Perf => "perf",
            Mechanism::Cgroup => "cgroup",
            Mechanism::Proc => "proc",
            Mechanism::Rusage => "rusage",
            Mechanism::Fanotify => "fanotify",
            Mechanism::Inotify => "inotify",
            Mechanism::Stat => "stat",
            Mechanism::Nvml => "nvml",
            Mechanism::Clock => "clock",
            Mechanism::None => "none",
        })
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
