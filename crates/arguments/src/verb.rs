//! The command line as a whole: a verb and what it is told.

use std::ffi::OsString;

use clap::{Parser, Subcommand, ValueEnum};

use crate::agent::PushArguments;
use crate::calls::{CallsArguments, ExplainArguments};
use crate::control::ControlArguments;
use crate::io::IoArguments;
use crate::others::{
    AgentArguments, DoctorArguments, ExportArguments, ReportArguments, ShowArguments, TopArguments,
};
use crate::run::RunArguments;
use crate::serve::ServeArguments;
use crate::trace::{TraceArguments, TraceSubject};

/// Accounts for every resource a program uses, while it runs, exactly, and at next to no cost.
#[derive(Parser, Debug)]
#[command(
    name = "weigh",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Begin with:\n  weigh run -- COMMAND      measure a command and everything it starts\n  weigh doctor              what can be measured here, and what is missing"
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,

    /// Whether tables have colours.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR says otherwise.
    Auto,
    /// Into a file or a pipe, too.
    Always,
    /// Nowhere.
    Never,
}

/// What weigh can do.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Run a command and account for everything it and its descendants use.
    Run(Box<RunArguments>),
    /// Say what each system call of a command or process costs in each part of the kernel.
    Calls(Box<CallsArguments>),
    /// Show events of the kernel as they happen, filtered and sampled there, or write them to a file.
    Trace(Box<TraceArguments>),
    /// Say what a command or process reads and writes, by file: by calls, io_uring and mapped memory.
    Io(Box<IoArguments>),
    /// Say what made the slow calls slow, of those that `weigh calls --per-call` kept.
    Explain(ExplainArguments),
    /// Show a recording as a table, or its summary as JSON.
    Show(ShowArguments),
    /// Make the page of a recording again, or of one that was cut short.
    Report(ReportArguments),
    /// Write a recording in the form of another program.
    Export(ExportArguments),
    /// Send requests to programs that name regions: publish, regions on and off, values of their own.
    Control(ControlArguments),
    /// Say which mechanisms work here, which do not, why, and what each costs or loses.
    Doctor(DoctorArguments),
    /// Serve users without rights: measure programs that use libweigh, follow jobs of `weigh run`; watch the node.
    Agent(Box<AgentArguments>),
    /// Publish values to the agent's readers, for scripts.
    Push(PushArguments),
    /// Show the node, jobs and processes while they run; once as text or JSON for scripts.
    Top(TopArguments),
    /// Serve a page of the node and of recordings, live while jobs run, on this machine's loopback.
    Serve(ServeArguments),
}

impl Verb {
    /// The command that runs all the same where it cannot be measured. None where it was asked to be kept within limits,
    /// where its files would not be in their place, and where a recording is required.
    pub fn command_to_run_anyway(&self) -> Option<&[OsString]> {
        let (command, status) = match self {
            Verb::Run(run) if !run.has_limits() && run.served_folder().is_none() => {
                (&run.command, run.status)
            }
            Verb::Calls(calls) => (&calls.command, calls.status),
            Verb::Io(io) if io.subject.is_none() => (&io.command, io.telling.status),
            Verb::Trace(trace) => match &trace.subject {
                Some(TraceSubject::Packets(packets)) => (&packets.command, packets.status),
                Some(_) => return None,
                None => (&trace.command, trace.status),
            },
            _ => return None,
        };
        (!command.is_empty() && !status.require_recording).then_some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declarations_hold_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_of_the_command_are_its_own() {
        let parsed = Arguments::try_parse_from(["weigh", "run", "--", "ls", "--quiet", "-o"])
            .expect("parses");
        let Verb::Run(run) = parsed.verb else { panic!("a run") };
        assert_eq!(run.command, ["ls", "--quiet", "-o"]);
        assert!(!run.quiet);
    }
}
