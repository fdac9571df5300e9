//! `weigh doctor`: which mechanisms work here, which do not, why, and what is lost without them.
//!
//! Nothing is guessed from version numbers: a real `weigh run` of a short command is made, and what
//! its collectors say of themselves is what is shown. Beside it stand the facts of the machine
//! that decide it: capabilities, kernel type information, switches. Emits a table, or JSON. Refuses
//! nothing; if the trial itself fails, it says so and how.
//!
//! Exit status: 0 if a job is followed exactly, in the kernel; 1 if by a mechanism that needs no
//! rights and loses something; 125 if `weigh run` does not work at all.

mod calls_trial;
mod conditions;
mod io;
mod kernel;
mod notes;
mod table;
mod trial;

use std::process::ExitCode;

use serde::Serialize;
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::following::{FOLLOWINGS, Following};
use weigh_schema::summary::{Host, Summary};
use weigh_schema::{METRICS, Mechanism, Quality};

use weigh_show::Screen;

use crate::arguments::{DoctorArguments, DoctorSubject};
use crate::show::{print, print_json, screen};
pub use calls_trial::{be_caller, place_of_calls};
use conditions::Condition;

/// What is exact only if the kernel itself follows the job.
const TELLTALE: &str = "processes_total";

/// Everything the doctor has to say.
#[derive(Serialize)]
struct Findings {
    /// Whether `weigh run` follows a job exactly, sees it only now and then, or does not work.
    run: Verdict,
    /// What weigh said during the run, or why it does not work.
    said: Vec<String>,
    host: Option<Host>,
    mechanisms: Vec<Followed>,
    collectors: Vec<Finding>,
    /// Metrics without a value in the trial for a reason that no collector gives.
    unknown: Vec<Unknown>,
    conditions: Vec<Condition>,
}

/// How `weigh run` works here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// In the kernel.
    Exact,
    /// Every process is told of, but not all that it does.
    Told,
    /// The job is looked at now and then.
    Fallback,
    Fails,
}

/// A way of following a job, as its own trial found it.
#[derive(Serialize)]
struct Followed {
    name: &'static str,
    works: bool,
    /// Why it does not.
    reason: Option<String>,
    sees: &'static str,
    loses: &'static str,
}

/// A collector as the trial found it.
#[derive(Serialize)]
struct Finding {
    name: String,
    mechanism: Mechanism,
    status: CollectorState,
    reason: Option<String>,
    gives: Option<&'static str>,
    /// Metrics that had no value for its reason.
    lost_metrics: Vec<&'static str>,
    /// What helps, where it does not work fully.
    remedy: Option<&'static str>,
}

/// Metrics that are not known for the same reason.
#[derive(Serialize)]
struct Unknown {
    reason: String,
    metrics: Vec<&'static str>,
}

/// Makes the trial and says what it found.
pub fn doctor(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    match &arguments.subject {
        Some(DoctorSubject::Kernel(kernel)) => return kernel::doctor(kernel),
        Some(DoctorSubject::Io(io)) => return io::doctor(io),
        None => {}
    }
    let findings = find();
    if arguments.json {
        print_json(&(serde_json::to_string_pretty(&findings)? + "\n"))?;
    } else {
        let Screen { columns, color, .. } = screen(&std::io::stdout(), 80);
        let render = if arguments.verbose { table::render } else { table::render_short };
        print(&render(&findings, columns, color))?;
    }
    Ok(match findings.run {
        Verdict::Exact => ExitCode::SUCCESS,
        Verdict::Told | Verdict::Fallback => ExitCode::from(1),
        Verdict::Fails => ExitCode::from(crate::FAILED),
    })
}

fn find() -> Findings {
    let conditions = conditions::all();
    let mechanisms = FOLLOWINGS.iter().map(follow).collect();
    match trial::run() {
        Ok(trial::Trial { summary, said }) => {
            let run = verdict(&summary);
            let mut unknown = unknown(&summary);
            let lost = share_out(&mut unknown, &summary.collectors);
            let statuses = summary.collectors.into_iter().zip(lost);
            let collectors = statuses.map(|(status, lost)| finding(status, lost)).collect();
            let host = Some(summary.host);
            Findings { run, said, host, mechanisms, collectors, unknown, conditions }
        }
        Err(error) => Findings {
            run: Verdict::Fails,
            said: vec![crate::in_full(&error)],
            host: weigh_collect::host::host().ok(),
            mechanisms,
            collectors: Vec::new(),
            unknown: Vec::new(),
            conditions,
        },
    }
}

fn verdict(summary: &Summary) -> Verdict {
    match summary.metrics.get(TELLTALE) {
        Some(value) if value.quality != Quality::Exact => Verdict::Fallback,
        Some(value) if value.source == Mechanism::Bpf => Verdict::Exact,
        Some(_) => Verdict::Told,
        None => Verdict::Fallback,
    }
}

fn follow(following: &'static Following) -> Followed {
    let failure = trial::of_mechanism(following.name).err();
    Followed {
        name: following.name,
        works: failure.is_none(),
        reason: failure.map(|error| crate::in_full(&error)),
        sees: following.sees,
        loses: following.loses,
    }
}

/// Gives each collector the metrics that went without a value for its reason: for the very same
/// one, or, if no collector has that, for one that is a part of its own. The others stay.
fn share_out(unknown: &mut Vec<Unknown>, statuses: &[CollectorStatus]) -> Vec<Vec<&'static str>> {
    let mut lost = vec![Vec::new(); statuses.len()];
    unknown.retain(|one| {
        let is_same = |status: &CollectorStatus| status.reason.as_ref() == Some(&one.reason);
        let is_part = |status: &CollectorStatus| {
            status.reason.as_ref().is_some_and(|reason| reason.contains(&one.reason))
        };
        let found = statuses.iter().position(is_same).or_else(|| statuses.iter().position(is_part));
        if let Some(place) = found {
            lost[place].extend(&one.metrics);
        }
        found.is_none()
    });
    lost
}

fn finding(status: CollectorStatus, lost_metrics: Vec<&'static str>) -> Finding {
    let note = notes::of(&status.name);
    let is_wanting =
        matches!(status.status, CollectorState::Degraded | CollectorState::Unavailable);
    Finding {
        gives: note.map(|note| note.gives),
        lost_metrics,
        remedy: note.filter(|_| is_wanting).and_then(|note| note.remedy),
        name: status.name,
        mechanism: status.mechanism,
        status: status.status,
        reason: status.reason,
    }
}

fn unknown(summary: &Summary) -> Vec<Unknown> {
    let mut all: Vec<Unknown> = Vec::new();
    for metric in METRICS {
        let Some(value) = summary.metrics.get(metric.name) else { continue };
        if value.quality != Quality::Unavailable {
            continue;
        }
        let reason = value.reason.clone().unwrap_or_else(|| "no reason given".to_string());
        match all.iter_mut().find(|unknown| unknown.reason == reason) {
            Some(unknown) => unknown.metrics.push(metric.name),
            None => all.push(Unknown { reason, metrics: vec![metric.name] }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_lost_with_the_collector_that_gives_its_reason() {
        let status = |name: &str, reason: &str| CollectorStatus {
            name: name.to_string(),
            mechanism: Mechanism::None,
            status: CollectorState::Unavailable,
            reason: Some(reason.to_string()),
            lost: 0,
        };
        let statuses = [status("long", "a; b and more"), status("same", "b"), status("none", "")];
        let unknown =
            |reason: &str, metric| Unknown { reason: reason.to_string(), metrics: vec![metric] };
        let mut left =
            vec![unknown("a", "first"), unknown("b", "second"), unknown("other", "third")];
        let lost = share_out(&mut left, &statuses);
        assert_eq!(lost, [vec!["first"], vec!["second"], vec![]]);
        assert_eq!(left.len(), 1, "what nobody gives a reason for stays");
    }
}
