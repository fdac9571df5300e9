//! What works on this machine, what does not, why, and what is lost without it.
//!
//! Nothing is guessed from version numbers: a real `weigh run` of a short command is made, and what
//! its collectors say of themselves is what is reported. Beside it stand the facts of the machine
//! that decide it: capabilities, kernel type information, switches. Refuses nothing; if the trial itself fails, the
//! report says how. The trials are weighs of their own: each starts this very program again.

mod call_trial;
mod conditions;
mod io;
mod notes;
mod trial;

use weigh_schema::availability::Availability;
use weigh_schema::doctor::{
    CollectorFinding, DoctorReport, MechanismFinding, RunVerdict, UnknownMetrics,
};
use weigh_schema::event::CollectorStatus;
use weigh_schema::following::{FOLLOWINGS, Following};
use weigh_schema::metric_name;
use weigh_schema::summary::Summary;
use weigh_schema::{METRICS, Mechanism, Quality};

use crate::error::in_full;
use notes::note_on;
use trial::Trial;

pub use call_trial::{be_caller, place_of_calls};
pub use io::{IO_MECHANISMS, IoMechanismTrials, io_overhead};

/// What is exact only if the kernel itself follows the job.
const TELLTALE: &str = metric_name::processes_total;

/// Makes the trials, and reports what they found. The conventions of annotated programs are the product's to add.
pub fn examine() -> DoctorReport {
    let conditions = conditions::all();
    let mechanisms = FOLLOWINGS.iter().map(mechanism_finding).collect();
    match trial::run() {
        Ok(Trial { summary, said }) => {
            let run = verdict(&summary);
            let mut unknown = unknown_metrics(&summary);
            let lost = share_out(&mut unknown, &summary.collectors);
            let statuses = summary.collectors.into_iter().zip(lost);
            let collectors = statuses.map(|(status, lost)| collector_finding(status, lost));
            let collectors = collectors.collect();
            let host = Some(summary.host);
            DoctorReport {
                run,
                said,
                host,
                mechanisms,
                collectors,
                conventions: Vec::new(),
                unknown,
                conditions,
            }
        }
        Err(error) => DoctorReport {
            run: RunVerdict::Fails,
            said: vec![in_full(&error)],
            host: weigh_collect::host::host().ok(),
            mechanisms,
            collectors: Vec::new(),
            conventions: Vec::new(),
            unknown: Vec::new(),
            conditions,
        },
    }
}

/// Whether a mechanism works here, by a trial: the reason is the error of a `weigh run` that names it.
pub fn mechanism_availability(mechanism: &Following) -> Availability {
    match trial::run_mechanism(mechanism.name) {
        Ok(_) => Availability::active(mechanism.name),
        Err(error) => Availability::unavailable(mechanism.name, in_full(&error)),
    }
}

/// Whether a collector works here, as it fared: with what helps, where something does.
pub fn collector_availability(status: CollectorStatus) -> Availability {
    let remedy = note_on(&status.name).and_then(|note| note.remedy);
    Availability::of_collector(status, remedy)
}

/// What a collector is good for, by its name.
pub fn what_it_gives(collector: &str) -> Option<&'static str> {
    note_on(collector).map(|note| note.gives)
}

fn verdict(summary: &Summary) -> RunVerdict {
    match summary.metrics.get(TELLTALE) {
        Some(value) if value.quality != Quality::Exact => RunVerdict::Fallback,
        Some(value) if value.source == Mechanism::Bpf => RunVerdict::Exact,
        Some(_) => RunVerdict::Reported,
        None => RunVerdict::Fallback,
    }
}

fn mechanism_finding(mechanism: &'static Following) -> MechanismFinding {
    MechanismFinding {
        availability: mechanism_availability(mechanism),
        sees: mechanism.sees,
        loses: mechanism.loses,
    }
}

fn collector_finding(status: CollectorStatus, lost_metrics: Vec<&'static str>) -> CollectorFinding {
    CollectorFinding {
        gives: what_it_gives(&status.name),
        mechanism: status.mechanism,
        lost_metrics,
        availability: collector_availability(status),
    }
}

/// Gives each collector the metrics that went without a value for its reason: for the very same
/// one, or, if no collector has that, for one that is a part of its own. The others stay.
fn share_out(
    unknown: &mut Vec<UnknownMetrics>,
    statuses: &[CollectorStatus],
) -> Vec<Vec<&'static str>> {
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

fn unknown_metrics(summary: &Summary) -> Vec<UnknownMetrics> {
    let mut all: Vec<UnknownMetrics> = Vec::new();
    for metric in METRICS {
        let Some(value) = summary.metrics.get(metric.name) else { continue };
        if value.quality != Quality::Unavailable {
            continue;
        }
        let reason = value.reason.clone().unwrap_or_else(|| "no reason given".to_string());
        match all.iter_mut().find(|unknown| unknown.reason == reason) {
            Some(unknown) => unknown.metrics.push(metric.name),
            None => all.push(UnknownMetrics { reason, metrics: vec![metric.name] }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::event::CollectorState;

    fn status(name: &str, state: CollectorState, reason: &str) -> CollectorStatus {
        CollectorStatus {
            name: name.to_string(),
            mechanism: Mechanism::None,
            status: state,
            reason: Some(reason.to_string()),
            lost: 0,
        }
    }

    #[test]
    fn a_metric_is_lost_with_the_collector_that_gives_its_reason() {
        let status = |name, reason| status(name, CollectorState::Unavailable, reason);
        let statuses = [status("long", "a; b and more"), status("same", "b"), status("none", "")];
        let unknown = |reason: &str, metric| UnknownMetrics {
            reason: reason.to_string(),
            metrics: vec![metric],
        };
        let mut left =
            vec![unknown("a", "first"), unknown("b", "second"), unknown("other", "third")];
        let lost = share_out(&mut left, &statuses);
        assert_eq!(lost, [vec!["first"], vec!["second"], vec![]]);
        assert_eq!(left.len(), 1, "what nobody gives a reason for stays");
    }

    #[test]
    fn what_helps_is_said_where_a_collector_does_not_work() {
        let off = collector_availability(status("gpu", CollectorState::Unavailable, "no driver"));
        assert_eq!(off.reason.as_deref(), Some("no driver"));
        assert!(off.remedy.is_some_and(|remedy| remedy.contains("NVIDIA")));
        let on = collector_availability(status("gpu", CollectorState::Active, ""));
        assert!(on.is_active() && on.remedy.is_none());
    }
}
