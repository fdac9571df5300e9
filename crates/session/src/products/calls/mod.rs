//! System calls: what those of a command, or of a process that runs, cost in each part of the kernel.
//!
//! Reads the kernel side's table and its single calls, or what a library in the command's programs counts; emits a
//! [`CallsReport`], and each call to a [`CallSink`]. Refuses what it can before the command is started.

mod boundaries;
mod bpf;
mod overhead;
pub(super) mod parts;
mod preload;
mod recorder;
mod served_programs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use weigh_agent::LeftOut;
use weigh_collect::calls::{CallsRequest, Counters, Functions};
use weigh_collect::notice;
use weigh_collect::preload::PreloadError;
use weigh_collect::spawn::SpawnError;
use weigh_schema::call::{CallsReport, Grouping, Sharing};
use weigh_schema::subsystem::CpuCounter;

use crate::CommandWait;
use parts::{Parts, PartsSettings};

pub use overhead::{be_caller, is_caller};
pub use recorder::CallSink;

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
    settings: &'a CallsSettings,
    wanted: CallsRequest,
    functions: Functions,
    left_out: LeftOut,
}

impl<'a> CallsMeasurement<'a> {
    /// Chooses the parts of the kernel, and refuses what the mechanism cannot do.
    pub fn prepare(settings: &'a CallsSettings) -> anyhow::Result<CallsMeasurement<'a>> {
        let Parts { built_in, functions, left_out } = Parts::choose(&PartsSettings {
            names: &settings.subsystems,
            config: settings.config.as_deref(),
            boundaries: settings.boundaries.as_deref(),
            config_owner: "the configuration of weigh calls",
            by_functions: "it takes --functions",
        })?;
        let wanted = CallsRequest {
            subsystems: built_in,
            grouping: settings.grouping,
            every_call: true,
            sharing: settings.sharing,
            counters: Counters::of(&settings.counters),
        };
        if settings.command.is_empty() == settings.pid.is_none() {
            bail!("expected either a command (weigh calls -- COMMAND) or a process (--pid PID)");
        }
        match settings.mechanism {
            CallsMechanism::Preload => preload::refuse(settings)?,
            CallsMechanism::Bpf if !settings.only.is_empty() => {
                bail!(
                    "--only takes --mechanism preload: the kernel's tracepoints are of all calls"
                );
            }
            CallsMechanism::Bpf => {}
        }
        Ok(CallsMeasurement { settings, wanted, functions, left_out })
    }

    /// Starts the command or takes in the process, and follows until the last thread has ended, the time is over, or
    /// somebody interrupts.
    pub fn run(
        self,
        sink: Option<Box<dyn CallSink>>,
    ) -> anyhow::Result<Result<CallsOutcome, SpawnError>> {
        if self.settings.mechanism == CallsMechanism::Preload {
            match preload::follow(self.settings, &self.wanted) {
                Err(error) if self.settings.only.is_empty() && has_no_room(&error) => {
                    notice!("--mechanism preload does not work here: {error}; by bpf instead");
                }
                outcome => return outcome,
            }
        }
        bpf::follow(self, sink)
    }
}

/// Whether a limit that is meant for the job leaves the library no room.
fn has_no_room(error: &anyhow::Error) -> bool {
    PreloadError::of_file_size(&**error).is_some()
}
