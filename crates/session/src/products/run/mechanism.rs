//! What follows the job: the best of the mechanisms that were asked for and work here.
//!
//! Emits one that is ready to follow; says on standard error why it is not a better one. Refuses if
//! the mechanism that was named does not work.

use anyhow::anyhow;
use weigh_agent::{RemoteError, RemoteJob};
use weigh_collect::follow::{JobDetail, JobMechanism, MechanismError};
use weigh_collect::job::{Enforced, KernelJob};
use weigh_collect::notice;
use weigh_collect::poll::PolledJob;
use weigh_collect::preload::{self, PreloadedJob};
use weigh_collect::ptrace::TracedJob;
use weigh_collect::requirements;
use weigh_schema::Mechanism;
use weigh_schema::availability::Availability;
use weigh_schema::following::{Following, Level};
use weigh_schema::limit::{Limit, OnLimit};
use weigh_schema::record::Limited;

use super::candidates::{Candidate, without_library};
use super::settings::{Collector, RunSettings};
use crate::choice::{Plan, Refusal, choose, is_kept_out, own_or_agent};
use crate::error::in_full;
use crate::products::io::mechanism::stops;

type Failures = [Refusal<Candidate, anyhow::Error>];

/// The first that works; why the others do not is told.
pub(super) fn open(
    settings: &RunSettings,
    candidates: &[Candidate],
) -> anyhow::Result<Box<dyn JobMechanism>> {
    let plan = plan(settings, candidates)?;
    let open = |candidate, failures: &Failures| {
        open_candidate(settings, candidate, &why_not_better(settings, failures))
    };
    match choose(&plan, open, is_kept_out) {
        Ok(choice) => {
            let name = choice.mechanism.following.name;
            tell_choice(settings, name, &choice.refusals);
            Ok(choice.opened)
        }
        Err(failures) => Err(none_works(settings, failures)),
    }
}

/// Where the library has no place for a limit that is meant for the job, the job is followed otherwise.
fn plan(settings: &RunSettings, candidates: &[Candidate]) -> anyhow::Result<Plan<Candidate>> {
    let is_library = |c: &Candidate| c.is_asked_for && c.following.mechanism == Mechanism::Preload;
    let substitutes = match candidates.iter().any(is_library) {
        true => without_library(settings)?,
        false => Vec::new(),
    };
    Ok(Plan { candidates: candidates.to_vec(), substitutes })
}

/// Why it is no better one that is opened now; empty if nothing speaks against this one.
fn why_not_better(settings: &RunSettings, failures: &Failures) -> String {
    match failures.first() {
        Some(first) if first.mechanism.is_asked_for => "it was not asked for".to_string(),
        _ if !settings.wants(Collector::Bpf) => "turned off by --without bpf".to_string(),
        first => first.map(|first| in_full(&first.error)).unwrap_or_default(),
    }
}

fn tell_choice(settings: &RunSettings, name: &str, failures: &Failures) {
    if let Some(first) = failures.first().filter(|first| first.mechanism.is_asked_for) {
        let error = &first.error;
        notice!("--mechanism preload does not work here: {error}; by {name} instead");
        return;
    }
    let why = why_not_better(settings, failures);
    if why.is_empty() || settings.is_quiet && !settings.is_verbose {
        return;
    }
    if !settings.is_verbose {
        notice!("followed by {name} instead of the kernel: `weigh doctor` says what is missing");
        return;
    }
    notice!("the kernel does not follow this job: {why}.");
    // Unless BPF was turned off the first is that.
    for failure in failures.iter().skip(usize::from(settings.wants(Collector::Bpf))) {
        let Refusal { mechanism, error } = failure;
        notice!("not by {} either: {}", mechanism.following.name, in_full(error));
    }
    notice!(
        "by {name} instead; what that leaves out is said beside each value, and by `weigh doctor`."
    );
}

fn none_works(
    settings: &RunSettings,
    failures: Vec<Refusal<Candidate, anyhow::Error>>,
) -> anyhow::Error {
    if settings.pid.is_some() {
        let why = |refusal: &Refusal<Candidate, anyhow::Error>| {
            format!("--mechanism {}: {}", refusal.mechanism.following.name, in_full(&refusal.error))
        };
        let all: Vec<String> = failures.iter().map(why).collect();
        return anyhow!("--pid does not work here by {}", all.join("; nor by "));
    }
    let why = why_not_better(settings, &failures);
    let Some(first) = failures.into_iter().next().filter(|first| first.mechanism.is_asked_for)
    else {
        return anyhow!("no mechanism works here: {why}");
    };
    let Refusal { mechanism, error } = first;
    let name = mechanism.following.name;
    match is_kept_out(&error) {
        true => anyhow!("--mechanism {name} does not work here: {error}; nor does another"),
        false => error.context(format!("--mechanism {name} does not work here")),
    }
}

/// Whether a mechanism can follow a job here: what `weigh doctor` shows, and what the error of one that was named says.
/// It is opened, and follows nothing.
pub(crate) fn availability(following: &Following) -> Availability {
    let (detail, nothing) = (JobDetail::default(), Enforced::default());
    let trial = match following.mechanism {
        Mechanism::Bpf => by_kernel(detail, nothing).map(|job| job.close()),
        Mechanism::Ptrace => TracedJob::check().map_err(MechanismError::from),
        Mechanism::Preload => {
            PreloadedJob::check(&std::env::temp_dir()).map_err(MechanismError::from)
        }
        _ => Ok(()),
    };
    let trial = trial.map_err(|error| in_full(&error.into()));
    // No mechanism can do without it, and a run says so first.
    let proc = requirements::check_proc().map_err(|missing| missing.to_string());
    Availability::of_trial(following.name, proc.and(trial))
}

fn open_candidate(
    settings: &RunSettings,
    candidate: Candidate,
    why: &str,
) -> anyhow::Result<Box<dyn JobMechanism>> {
    let why = match why {
        "" => "not asked for (--mechanism, --level)",
        why => why,
    };
    let detail = JobDetail {
        calls: candidate.level == Level::Interposition,
        network: settings.wants(Collector::Network),
        files: settings.wants(Collector::Files),
        cpu_waits: settings.delays,
        joins: settings.pid.is_some(),
    };
    Ok(match candidate.following.mechanism {
        Mechanism::Bpf if detail.joins => Box::new(KernelJob::open(detail, enforced(settings))?),
        Mechanism::Bpf => by_kernel(detail, enforced(settings))?,
        Mechanism::Ptrace => {
            TracedJob::check()?;
            let stops = stops(settings.seccomp, settings.is_quiet);
            Box::new(match &settings.io {
                Some(io) => TracedJob::that_counts(detail, stops, io.telling(), io.apart)?,
                None => TracedJob::that_sees(detail, stops)?,
            })
        }
        Mechanism::Preload => {
            let level = match candidate.level {
                Level::Interposition if settings.io.is_some() => preload::Level::Files,
                Level::Interposition => preload::Level::Calls,
                _ => preload::Level::Processes,
            };
            Box::new(PreloadedJob::open(level, &settings.command[0], &settings.directory)?)
        }
        _ => Box::new(PolledJob::open(why)),
    })
}

/// Which of the limits stop or end the job.
fn enforced(settings: &RunSettings) -> Enforced {
    let of_calls =
        |limit: &Limit| Limited::of_metric(limit.metric.name).is_some_and(Limited::is_of_calls);
    let may_end = settings.on_limit != OnLimit::Warn;
    Enforced {
        any: may_end && !settings.limits.is_empty(),
        of_calls: may_end && settings.limits.iter().any(of_calls),
    }
}

/// The kernel side: weigh's own, or, for a user without privileges, the agent's.
fn by_kernel(
    detail: JobDetail,
    enforced: Enforced,
) -> Result<Box<dyn JobMechanism>, MechanismError> {
    let own =
        KernelJob::open(detail, enforced).map(|job| -> Box<dyn JobMechanism> { Box::new(job) });
    let agent = || -> Result<Box<dyn JobMechanism>, RemoteError> {
        Ok(Box::new(RemoteJob::open(&weigh_agent::socket(), detail)?))
    };
    Ok(own_or_agent(own, agent)?)
}
