//! What works on this machine, what does not, why, and what is lost without it.
//!
//! Knows nothing by itself: a mechanism and a collector say by `availability()` whether they can run here, and errors
//! say the same. Nothing is guessed from version numbers: a real `weigh run` of a short command is made, and what its
//! collectors say of themselves is what is reported. Beside it stand the facts of the machine that decide it:
//! capabilities, kernel type information, switches. Refuses nothing; if the trial itself fails, the report says how.
//! The trials are weighs of their own: each starts this very program again.

mod call_trial;
mod conditions;
mod io;
mod trial;

use weigh_schema::availability::{Availability, CollectorInfo};
use weigh_schema::doctor::{
    CollectorFinding, DoctorReport, MechanismFinding, RunVerdict, UnknownMetrics,
};
use weigh_schema::event::CollectorStatus;
use weigh_schema::following::{FOLLOWINGS, Following};
use weigh_schema::metric_name;
use weigh_schema::summary::Summary;
use weigh_schema::{METRICS, Mechanism, Quality};

use crate::error::in_full;
use crate::products::run::{collector_infos, mechanism_availability};
use trial::Trial;

pub use call_trial::{be_caller, place_of_calls};
pub use io::{IO_MECHANISMS, IoMechanismTrials, io_overhead};

/// What is exact only if the kernel itself follows the job.
const TELLTALE: &str = metric_name::processes_total;

/// Makes the trials, and reports what they found. The conventions of annotated programs are the product's to add.
pub fn examine() -> DoctorReport {
    let conditions = conditions::all();
    match trial::run() {
        Ok(Trial { summary, said }) => {
            let run = verdict(&summary);
            let mut unknown = unknown_metrics(&summary);
            let lost = share_out(&mut unknown, &summary.collectors);
            let followed_by = summary.metrics.get(TELLTALE).map(|value| value.source);
            let statuses = summary.collectors.into_iter().zip(lost);
            let found = statuses.map(|(status, lost)| collector_finding(status, lost)).collect();
            let host = Some(summary.host);
            let mechanisms = mechanisms(followed_by);
            let collectors = with_probed(found);
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
            mechanisms: mechanisms(None),
            collectors: with_probed(Vec::new()),
            conventions: Vec::new(),
            unknown: Vec::new(),
            conditions,
        },
    }
}

/// All collectors of `weigh run`, and what they say of themselves.
pub fn collectors() -> impl Iterator<Item = CollectorInfo> {
    collector_infos()
}

fn info_on(collector: &str) -> Option<CollectorInfo> {
    collector_infos().find(|info| info.name == collector)
}

fn verdict(summary: &Summary) -> RunVerdict {
    match summary.metrics.get(TELLTALE) {
        Some(value) if value.quality != Quality::Exact => RunVerdict::Fallback,
        Some(value) if value.source == Mechanism::Bpf => RunVerdict::Exact,
        Some(_) => RunVerdict::Reported,
        None => RunVerdict::Fallback,
    }
}

/// Each mechanism; the one that has followed the trial works.
fn mechanisms(followed_by: Option<Mechanism>) -> Vec<MechanismFinding> {
    let finding = |mechanism: &'static Following| MechanismFinding {
        availability: match followed_by == Some(mechanism.mechanism) {
            true => Availability::active(mechanism.name),
            false => tried(mechanism),
        },
        sees: mechanism.sees,
        loses: mechanism.loses,
    };
    FOLLOWINGS.iter().map(finding).collect()
}

/// What a mechanism says of itself; where it sees no obstacle, a `weigh run` that names it is the proof.
fn tried(mechanism: &Following) -> Availability {
    let said = mechanism_availability(mechanism);
    match said.is_active().then(|| trial::run_mechanism(mechanism.name)) {
        Some(Err(error)) => Availability::unavailable(mechanism.name, in_full(&error)),
        _ => said,
    }
}

fn collector_finding(status: CollectorStatus, lost_metrics: Vec<&'static str>) -> CollectorFinding {
    let info = info_on(&status.name);
    CollectorFinding {
        gives: info.map(|info| info.gives),
        mechanism: status.mechanism,
        lost_metrics,
        availability: match info {
            Some(info) => info.availability_in(status),
            None => CollectorInfo::new("", "", None).availability_in(status),
        },
    }
}

/// Those of the trial, and all others that can be tried without a job.
fn with_probed(mut found: Vec<CollectorFinding>) -> Vec<CollectorFinding> {
    for info in collector_infos() {
        let is_there = found.iter().any(|one| one.availability.name == info.name);
        if let Some(probe) = info.probe.filter(|_| !is_there) {
            found.push(collector_finding(probe(), Vec::new()));
        }
    }
    found
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
    use weigh_schema::recording::RECORDING;

    fn status(name: &str, state: CollectorState, reason: &str) -> CollectorStatus {
        CollectorStatus::new(name, Mechanism::None, state, Some(reason.to_string()))
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
        let found =
            |state| collector_finding(status("gpu", state, "no driver"), Vec::new()).availability;
        let off = found(CollectorState::Unavailable);
        assert_eq!(off.reason.as_deref(), Some("no driver"));
        assert!(off.remedy.is_some_and(|remedy| remedy.contains("NVIDIA")));
        let on = found(CollectorState::Active);
        assert!(on.is_active() && on.remedy.is_none());
    }

    #[test]
    fn no_collector_is_declared_twice_and_those_without_a_trial_say_their_word() {
        let names: Vec<_> = collector_infos().map(|info| info.name).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name}");
        }
        let is_source = |info: &CollectorInfo| info.name != RECORDING.name;
        for info in collector_infos().filter(is_source) {
            assert!(info.traits.is_some(), "{} says not what it asks", info.name);
        }
        let of_trial = vec![collector_finding(
            status("mount", CollectorState::Unavailable, "of the trial"),
            Vec::new(),
        )];
        let found = with_probed(of_trial);
        let named = |name: &str| -> Vec<_> {
            found.iter().filter(|one| one.availability.name == name).collect()
        };
        assert_eq!(named("mount").len(), 1);
        assert_eq!(named("mount")[0].availability.reason.as_deref(), Some("of the trial"));
        for name in ["hardware", "gpu", "delays"] {
            assert!(named(name)[0].gives.is_some(), "{name}");
        }
    }
}
