//! What follows the job: the best of the mechanisms that were asked for and work here.
//!
//! Emits one that is ready to follow; says on standard error why it is not a better one. Refuses if
//! the mechanism that was named does not work.

use anyhow::Context as _;
use weigh_agent::{RemoteError, RemoteJob};
use weigh_collect::follow::{Follow, Wanted};
use weigh_collect::job::{Enforced, JobError, KernelJob};
use weigh_collect::notice;
use weigh_collect::poll::PolledJob;
use weigh_collect::preload::{self, PreloadError, PreloadedJob};
use weigh_collect::ptrace::TracedJob;
use weigh_schema::Mechanism;
use weigh_schema::following::Level;
use weigh_schema::limit::{Limit, OnLimit};
use weigh_schema::record::Limited;

use super::candidates::{Candidate, without_library};
use super::settings::{Collector, RunSettings};
use crate::error::in_full;
use crate::products::io::mechanism::stops;

/// The first that works; why the others do not is told.
pub(super) fn open(
    settings: &RunSettings,
    candidates: &[Candidate],
) -> anyhow::Result<Box<dyn Follow>> {
    let mut why = match settings.wants(Collector::Bpf) {
        true => String::new(),
        false => "turned off by --without bpf".to_string(),
    };
    let mut neither = Vec::new();
    for candidate in candidates {
        let name = candidate.following.name;
        match open_candidate(settings, candidate, &why) {
            Ok(follower) => {
                let is_told = !why.is_empty() && (!settings.is_quiet || settings.is_verbose);
                if is_told && settings.is_verbose {
                    notice!("the kernel does not follow this job: {why}.");
                    neither.iter().for_each(|line: &String| notice!("{line}"));
                    notice!(
                        "by {name} instead; what that leaves out is said beside each value, and by `weigh doctor`."
                    );
                } else if is_told {
                    notice!(
                        "followed by {name} instead of the kernel: `weigh doctor` says what is missing"
                    );
                }
                return Ok(follower);
            }
            Err(error)
                if candidate.is_asked_for && PreloadError::of_file_size(&*error).is_some() =>
            {
                return stand_in(settings, &error);
            }
            Err(error) if candidate.is_asked_for => {
                return Err(error).with_context(|| match settings.pid {
                    Some(_) => "--pid takes --mechanism bpf, which does not work here".to_string(),
                    None => format!("--mechanism {name} does not work here"),
                });
            }
            Err(error) if why.is_empty() => why = in_full(&error),
            Err(error) => {
                neither.push(format!("not by {name} either: {}", in_full(&error)));
            }
        }
    }
    anyhow::bail!("no mechanism works here: {why}")
}

/// Where the library has no place for a limit that is meant for the job, the job is followed otherwise.
fn stand_in(settings: &RunSettings, error: &anyhow::Error) -> anyhow::Result<Box<dyn Follow>> {
    for candidate in without_library(settings)? {
        if let Ok(follower) = open_candidate(settings, &candidate, "it was not asked for") {
            notice!(
                "--mechanism preload does not work here: {error}; by {} instead",
                candidate.following.name
            );
            return Ok(follower);
        }
    }
    anyhow::bail!("--mechanism preload does not work here: {error}; nor does another")
}

fn open_candidate(
    settings: &RunSettings,
    candidate: &Candidate,
    why: &str,
) -> anyhow::Result<Box<dyn Follow>> {
    let why = match why {
        "" => "not asked for (--mechanism, --level)",
        why => why,
    };
    let wanted = Wanted {
        calls: candidate.level == Level::Interposition,
        network: settings.wants(Collector::Network),
        files: settings.wants(Collector::Files),
        cpu_waits: settings.delays,
        joins: settings.pid.is_some(),
    };
    Ok(match candidate.following.mechanism {
        Mechanism::Bpf => match KernelJob::open(wanted, enforced(settings)) {
            Ok(job) => Box::new(job),
            Err(error) if wanted.joins => return Err(error.into()),
            Err(error) => through_agent(wanted, error)?,
        },
        Mechanism::Ptrace => {
            TracedJob::check()?;
            let stops = stops(settings.seccomp, settings.is_quiet);
            Box::new(match &settings.io {
                Some(io) => TracedJob::that_counts(wanted, stops, io.telling(), io.apart)?,
                None => TracedJob::that_sees(wanted, stops)?,
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

/// The agent follows the job of a user without privileges, if there is one.
fn through_agent(wanted: Wanted, own: JobError) -> anyhow::Result<Box<dyn Follow>> {
    match RemoteJob::open(&weigh_agent::socket(), wanted) {
        Ok(job) => Ok(Box::new(job)),
        Err(RemoteError::NoAgent(..)) => Err(own.into()),
        Err(error) => Err(anyhow::anyhow!("{own}; {error}")),
    }
}
