//! What is measured of calls, of whom, and what came of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use weigh_agent::LeftOut;
use weigh_collect::calls::{CallsRequest, Functions};
use weigh_schema::call::{CallsReport, Grouping, Sharing};
use weigh_schema::subsystem::CpuCounter;

use crate::command::CommandWait;

/// How it is learned where calls begin and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallsMechanism {
    /// By the kernel's own tracepoints: every call of every program.
    #[default]
    Bpf,
    /// By a library in dynamic programs: functions of the C library alone.
    Preload,
}

/// What is measured, of whom and for how long.
#[derive(Clone, Debug)]
pub struct CallsSettings {
    /// The command and its arguments; empty where a process is followed that runs.
    pub command: Vec<OsString>,
    /// That process.
    pub pid: Option<u32>,
    /// For how long; none: until the last thread has ended.
    pub duration: Option<Duration>,
    /// How calls are bounded.
    pub mechanism: CallsMechanism,
    /// Parts of the kernel by their names; none: all.
    pub subsystems: Vec<String>,
    /// The file of a configuration of parts.
    pub config: Option<PathBuf>,
    /// The functions at borders are probed, of those that these calls reach: all if none are named.
    pub boundaries: Option<Vec<String>>,
    /// Whether allocations, and the counters, are told of each part of the kernel.
    pub by_part: bool,
    /// Counters of the CPU.
    pub counters: Vec<&'static CpuCounter>,
    /// The calls that the library marks; none: all.
    pub only: Vec<String>,
    /// What has a row of its own in the table.
    pub grouping: Grouping,
    /// How those who wrote to one page share what comes of it.
    pub sharing: Sharing,
    /// How many of the slowest calls are reported.
    pub slowest: usize,
    /// Whether calls that only waited for somebody else are among the slowest.
    pub has_idle: bool,
    /// Whether each call goes to a sink.
    pub has_sink: bool,
    /// Whether nothing is said of counters that cannot be had.
    pub is_quiet: bool,
}

/// What came of it.
pub struct CallsOutcome {
    /// What was found.
    pub report: CallsReport,
    /// Whether the sink has taken every call.
    pub recorded: anyhow::Result<()>,
    /// What is to be waited for when that has been shown.
    pub rest: CommandWait,
}

/// A measurement whose settings were found to be possible. Nothing is started yet.
pub struct CallsMeasurement<'a> {
    pub(super) settings: &'a CallsSettings,
    pub(super) wanted: CallsRequest,
    pub(super) functions: Functions,
    pub(super) left_out: LeftOut,
}
