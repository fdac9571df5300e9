//! `weigh run`: starts a command, follows it, and leaves a recording.
//!
//! Reads the arguments; emits the recording, the live line, the table on standard error, the summary
//! where `--json` says. Refuses what it can before the command is started.

mod live_line;
mod outcome;
mod recording;
mod settings;

use std::process::ExitCode;

use weigh_session::Sink;
use weigh_session::products::run::{EventHook, RunFailure, RunOutcome, RunPlan};

pub use weigh_session::products::run::{be_helper, is_helper};

use live_line::LiveLine;
use weigh_arguments::RunArguments;

/// Runs the command.
pub fn execute(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    weigh_session::require_recording(arguments.status.require_recording);
    let (settings, mut output) = settings::read(arguments)?;
    let plan = RunPlan::new(settings)?;
    weigh_collect::requirements::check_proc()?;
    // Before orphans are adopted: the helper is to be nobody's child but the system's.
    let hook = EventHook::start(output.on_event.as_ref())?;
    let mut recording = recording::create(&mut output)?;
    let mut live = LiveLine::new(&output);
    match run(plan, hook, &mut recording, &mut live) {
        Ok(outcome) => outcome::conclude(outcome, output, recording, live),
        Err(failure) => {
            // Where the command has not run nothing is lost.
            if !failure.has_begun
                && let Ok(writer) = recording
            {
                writer.discard();
            }
            Err(failure.error)
        }
    }
}

fn run(
    plan: RunPlan,
    hook: EventHook,
    sink: &mut dyn Sink,
    live: &mut LiveLine,
) -> Result<RunOutcome, RunFailure> {
    plan.prepare(hook)?.run(sink, live)
}
