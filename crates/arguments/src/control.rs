//! Options of `weigh control`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use weigh_schema::amount::parse_duration;

const CONTROL_HELP: &str = "\
The program takes what is sent when it asks for it: weigh_poll_control() of libweigh.

Exit status:
  0    each program has taken what was sent
  1    one has not within --wait (it takes them when it asks), or has ended: it is not known whether it took them
  125  nothing was sent: there is no such job, it is another user's, or the queue is full

Examples:
  weigh control 4242                       what was sent to it, and what it has taken
  weigh control 4242 publish               have it publish its profile now
  weigh control 4242 off 'halo *'          measure no region whose name begins so
  weigh control /data/run-17 set output_every=50";

/// Options of `weigh control`.
#[derive(Args, Debug)]
#[command(after_help = CONTROL_HELP)]
pub struct ControlArguments {
    /// A process of a job by its PID; or all of a job: the PID of its `weigh run`, its name, or the directory of its
    /// recording.
    #[arg(value_name = "TARGET", value_hint = ValueHint::DirPath)]
    pub target: String,

    /// Wait at most so long for the program to take it.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration, global = true)]
    pub wait: Duration,

    /// As JSON.
    #[arg(long, global = true)]
    pub json: bool,

    /// What to send [default: nothing; how the programs stand is shown].
    #[command(subcommand)]
    pub request: Option<ControlVerb>,
}

/// What can be sent.
#[derive(Subcommand, Debug)]
pub enum ControlVerb {
    /// Publish the profile now.
    Publish,
    /// Publish by itself each DURATION; 0s: not by time.
    PublishEvery {
        /// The time between.
        #[arg(value_name = "DURATION", value_parser = parse_duration)]
        every: Duration,
    },
    /// Measure regions.
    On {
        /// Those of this name, in which `*` stands for anything [default: all].
        pattern: Option<String>,
    },
    /// Measure regions no more: they cost less then, and are not counted.
    Off {
        /// Those of this name, in which `*` stands for anything [default: all].
        pattern: Option<String>,
    },
    /// Give the program values of its own.
    Set {
        /// A key that the program knows, and its value.
        #[arg(value_name = "KEY=VALUE", required = true, value_parser = assignment)]
        assignments: Vec<(String, String)>,
    },
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err("expected KEY=VALUE".to_string()),
    }
}
