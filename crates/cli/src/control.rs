//! `weigh control`: sends a request to programs that name regions, and says whether they have taken it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};
use weigh_schema::Printable;
use weigh_schema::control::{CONTROL, ControlRequest, ControlTarget, ControlledProcess};
use weigh_session::products::control::{ControlOutcome, Controlled, control};

use crate::terminal::{print, print_json};
use weigh_arguments::{ControlArguments, ControlVerb};

/// Sends, waits and tells.
pub fn execute(arguments: &ControlArguments) -> anyhow::Result<ExitCode> {
    let sent = requests(arguments.request.as_ref());
    let is_question = sent.is_empty();
    let controlled = control(&target(&arguments.target), sent, arguments.wait)?;
    if let [(process, ControlOutcome::Refused(why))] = &controlled.processes[..] {
        bail!("process {}: {}", process.pid, Printable(why));
    }
    match (arguments.json, is_question) {
        (true, _) => print_json(&format!("{:#}\n", document(&controlled)))?,
        (false, true) => print(&table(&controlled))?,
        (false, false) => print(&outcomes(&controlled))?,
    }
    let is_taken = |(_, outcome): &(_, _)| *outcome == ControlOutcome::Taken;
    let is_done = is_question || controlled.processes.iter().all(is_taken);
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Digits are a PID, what is a directory is one, and all else is a job's name.
fn target(text: &str) -> ControlTarget {
    if let Ok(pid) = text.parse() {
        return ControlTarget::Pid(pid);
    }
    match Path::new(text).canonicalize() {
        Ok(path) => ControlTarget::Directory(path.to_string_lossy().into_owned()),
        Err(_) => ControlTarget::Job(text.to_string()),
    }
}

fn requests(verb: Option<&ControlVerb>) -> Vec<ControlRequest> {
    let pattern = |pattern: &Option<String>| pattern.clone().unwrap_or_default();
    let one = match verb {
        None => return Vec::new(),
        Some(ControlVerb::Set { assignments }) => {
            let set = |(key, value): &(String, String)| ControlRequest::Set {
                key: key.clone(),
                value: value.clone(),
            };
            return assignments.iter().map(set).collect();
        }
        Some(ControlVerb::Publish) => ControlRequest::Publish,
        Some(ControlVerb::On { pattern: name }) => {
            ControlRequest::RegionsOn { pattern: pattern(name) }
        }
        Some(ControlVerb::Off { pattern: name }) => {
            ControlRequest::RegionsOff { pattern: pattern(name) }
        }
        Some(ControlVerb::PublishEvery { every }) => {
            ControlRequest::PublishEvery { seconds: every.as_secs_f64() }
        }
    };
    vec![one]
}

fn word(outcome: &ControlOutcome) -> &'static str {
    match outcome {
        ControlOutcome::Taken => "taken",
        ControlOutcome::Waiting => "waiting",
        ControlOutcome::Ended => "ended",
        ControlOutcome::Refused(_) => "refused",
    }
}

fn document(controlled: &Controlled) -> Value {
    let process = |(process, outcome): &(ControlledProcess, ControlOutcome)| {
        let ControlledProcess { pid, sent, taken, publishes, refused } = process;
        json!({
            "pid": pid, "outcome": word(outcome), "reason": refused,
            "sent_total": sent, "taken_total": taken, "publishes_total": publishes,
        })
    };
    let processes: Vec<Value> = controlled.processes.iter().map(process).collect();
    json!({ "schema": CONTROL, "seconds": controlled.took.as_secs_f64(), "processes": processes })
}

fn outcomes(controlled: &Controlled) -> String {
    let mut text = String::new();
    for (process, outcome) in &controlled.processes {
        let waiting = process.sent.saturating_sub(process.taken);
        let line = match outcome {
            ControlOutcome::Taken => format!("taken after {:.3} s", controlled.took.as_secs_f64()),
            ControlOutcome::Waiting => format!(
                "not taken yet, {waiting} waiting: the program takes them when it calls weigh_poll_control()"
            ),
            ControlOutcome::Ended => {
                "has ended; whether it took this before is not known".to_string()
            }
            ControlOutcome::Refused(why) => format!("not sent: {}", Printable(why)),
        };
        let _ = writeln!(text, "process {}: {line}", process.pid);
    }
    text
}

fn table(controlled: &Controlled) -> String {
    let mut text = format!("{:>10} {:>8} {:>8} {:>10}\n", "PROCESS", "SENT", "TAKEN", "PUBLISHES");
    for (ControlledProcess { pid, sent, taken, publishes, .. }, _) in &controlled.processes {
        let _ = writeln!(text, "{pid:>10} {sent:>8} {taken:>8} {publishes:>10}");
    }
    text
}
