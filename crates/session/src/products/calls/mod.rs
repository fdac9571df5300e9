//! System calls: what those of a command, or of a process that runs, cost in each part of the kernel.
//!
//! Reads the kernel side's table and its single calls, or what a library in the command's programs counts; emits a
//! [`CallsReport`](weigh_schema::call::CallsReport), and each call to a [`CallSink`]. Refuses what it can before the command is started.

mod boundaries;
mod bpf;
mod job_calls;
mod overhead;
pub(super) mod parts;
mod preload;
mod recorder;
mod report;
mod served_programs;
mod settings;

use anyhow::bail;
use weigh_collect::calls::{CallsRequest, Counters};
use weigh_collect::notice;
use weigh_collect::preload::PreloadError;
use weigh_collect::spawn::SpawnError;

use parts::{Parts, PartsSettings};

pub(super) use job_calls::JobCalls;

pub use overhead::{be_caller, is_caller};
pub use recorder::CallSink;
pub use settings::{CallsMeasurement, CallsMechanism, CallsOutcome, CallsSettings};

/// The part that tells of allocations.
const MEMORY: &str = "memory";

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
            by_part: settings.by_part,
        };
        if settings.command.is_empty() == settings.pid.is_none() {
            bail!("expected either a command (weigh calls -- COMMAND) or a process (--pid PID)");
        }
        if settings.by_part
            && settings.counters.is_empty()
            && !wanted.subsystems.iter().any(|s| s.name == MEMORY)
        {
            bail!(
                "--by-part tells of each part of the kernel its allocations, with `--subsystems {MEMORY},…`, and what \
                 --counters count: neither is asked for"
            );
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
