//! What is told to an agent that runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use weigh_schema::Unit;
use weigh_schema::rule::Severity;
use weigh_schema::stream::{PolicyChange, StreamPolicy};

use super::numbers::interval;

/// Where an agent answers.
#[derive(Args, Clone, Debug)]
pub struct AgentSocket {
    /// Where the agent answers [default: $WEIGH_SOCKET, else /run/weigh/agent.sock].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
}

/// What an agent that runs can be told.
#[derive(Subcommand, Debug)]
pub enum AgentVerb {
    /// Say how the agent stands: its streams, the node's collectors, who is served.
    Status(AgentStatusArguments),
    /// Print the URL of its page (--http), with a token by which it shows what you may see.
    Url(AgentUrlArguments),
    /// Run the commands of rules when the agent's events say so, in this process, until TERM or INT.
    Commands(AgentCommandsArguments),
    /// Print records of one of its streams, a JSON object a line.
    Read(AgentReadArguments),
    /// Change what it does; only root and the agent's own user may.
    Set(AgentSetArguments),
}

const READ_EXAMPLES: &str = "\
Each line is a record: sequence, time_ns, source, body. Where records are not there any more, a line with `lost` says how
many, and `next_sequence` where it goes on.

Examples:
  weigh agent read pushed                                what clients have published
  weigh agent read profiles                              regions that your programs have published
  weigh agent read events --follow | jq .body.event.text
  weigh agent read node --newest --follow --interval 100ms --count 50";

/// Options of `weigh agent read`.
#[derive(Args, Debug)]
#[command(after_help = READ_EXAMPLES)]
pub struct AgentReadArguments {
    /// Where the agent answers.
    #[command(flatten)]
    pub at: AgentSocket,
    /// The stream: node, pushed, events or profiles.
    #[arg(value_name = "STREAM")]
    pub stream: String,
    /// Begin with this sequence number [default: the oldest record that is there].
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0, hide_default_value = true)]
    pub from: u64,
    /// Of the records that are there, take the newest alone.
    #[arg(long)]
    pub newest: bool,
    /// Wait for more records, until TERM or INT.
    #[arg(short, long)]
    pub follow: bool,
    /// End after so many records.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Look so often, and have the node read as often, down to 100 ms [default: as records come].
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,
}

/// Options of `weigh agent url`.
#[derive(Args, Debug)]
pub struct AgentUrlArguments {
    /// Where the agent answers.
    #[command(flatten)]
    pub at: AgentSocket,
}

/// Options of `weigh agent commands`.
#[derive(Args, Debug)]
pub struct AgentCommandsArguments {
    /// Where the agent answers.
    #[command(flatten)]
    pub at: AgentSocket,
    /// The file of the rules (TOML), the agent's own; nobody else may be able to change it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: PathBuf,
}

/// Options of `weigh agent status`.
#[derive(Args, Debug)]
pub struct AgentStatusArguments {
    /// Where the agent answers.
    #[command(flatten)]
    pub at: AgentSocket,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

const SET_EXAMPLES: &str = "\
Policies of a stream: what a record that comes, and a reader, do to those that are there.
  replace-read   a record replaces the one before it; reads leave it
  fill-drain     records are added; one that all readers have taken goes
  replace-drain  a record replaces the one before it, and goes when all readers have taken it
  fill(K)-read   records are added, K at most, then each replaces the oldest; reads leave them

Examples:
  weigh agent set --interval 0.5s
  weigh agent set --stream node --policy 'fill(600)-read'
  weigh agent set --collector gpu=off";

/// Options of `weigh agent set`.
#[derive(Args, Debug)]
#[command(after_help = SET_EXAMPLES, arg_required_else_help = true)]
pub struct AgentSetArguments {
    /// Where the agent answers.
    #[command(flatten)]
    pub at: AgentSocket,
    /// The stream whose policy changes.
    #[arg(long, value_name = "NAME", requires = "policy")]
    pub stream: Option<String>,
    /// Its policy from now on.
    #[arg(long, value_name = "POLICY", requires = "stream")]
    pub policy: Option<StreamPolicy>,
    /// Read the node so often, while no reader wants it more often.
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,
    /// Read a collector of the node, or not (several times for several).
    #[arg(long, value_name = "NAME=on|off", value_parser = switch)]
    pub collector: Vec<(String, bool)>,
}

impl AgentSetArguments {
    /// The change of a stream's policy, if there is one.
    pub fn policy_change(&self) -> Option<PolicyChange> {
        let (stream, policy) = self.stream.clone().zip(self.policy)?;
        Some(PolicyChange { stream, policy })
    }
}

fn switch(text: &str) -> Result<(String, bool), String> {
    match text.split_once('=') {
        Some((name, "on")) => Ok((name.to_string(), true)),
        Some((name, "off")) => Ok((name.to_string(), false)),
        _ => Err("expected NAME=on or NAME=off".to_string()),
    }
}

const PUSH_EXAMPLES: &str = "\
What is published stands in the agent's stream `pushed`, which everybody on this machine can read, with the user and the
process that it came from. All values of one call are taken, or none.

Examples:
  weigh push queue_length=17
  weigh push --scope job:4711 --unit bytes cache_bytes=1.5e9 spilled_bytes=0
  weigh push --event deployed='version 3 is out'";

/// Options of `weigh push`.
#[derive(Args, Debug)]
#[command(after_help = PUSH_EXAMPLES)]
pub struct PushArguments {
    /// Where the agent answers.
    #[command(flatten)]
    pub at: AgentSocket,
    /// What the values are about.
    #[arg(long, value_name = "SCOPE", default_value = "node")]
    pub scope: String,
    /// The unit of the values: seconds, bytes, count, cores, ratio, threads, celsius, watts, joules.
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    pub unit: Option<Unit>,
    /// Publish an event instead: its name, and a text.
    #[arg(long, value_name = "NAME=TEXT", value_parser = event, conflicts_with_all = ["values", "unit"])]
    pub event: Option<(String, String)>,
    /// How much the event matters: critical, warning, note.
    #[arg(long, value_name = "SEVERITY", default_value = "note", value_parser = severity, requires = "event")]
    pub severity: Severity,
    /// The values.
    #[arg(value_name = "NAME=VALUE", required_unless_present = "event", value_parser = value)]
    pub values: Vec<(String, f64)>,
}

fn event(text: &str) -> Result<(String, String), String> {
    let (name, text) = text.split_once('=').ok_or("expected NAME=TEXT")?;
    Ok((name.to_string(), text.to_string()))
}

fn severity(text: &str) -> Result<Severity, String> {
    let found = Severity::NAMES.iter().find(|(name, _)| *name == text);
    let names = Severity::NAMES.map(|(name, _)| name);
    found
        .map(|(_, severity)| *severity)
        .ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

fn value(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let value = value.parse().ok().filter(|value: &f64| value.is_finite());
    Ok((name.to_string(), value.ok_or("expected a finite number behind NAME=")?))
}

fn unit(text: &str) -> Result<Unit, String> {
    let found = Unit::ALL.iter().find(|unit| unit.to_string() == text);
    let names: Vec<String> = Unit::ALL.iter().map(Unit::to_string).collect();
    found.copied().ok_or_else(|| format!("expected one of {}", names.join(", ")))
}
