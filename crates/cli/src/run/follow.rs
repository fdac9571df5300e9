//! Who follows the job: the best of the mechanisms that were asked for and work here.
//!
//! Emits one who is ready to follow; says on standard error why it is not a better one. Refuses if
//! the mechanism that the user named does not work.

use anyhow::Context as _;
use weigh_agent::{RemoteError, RemoteJob};
use weigh_collect::follow::{Follow, Wanted};
use weigh_collect::io::Telling;
use weigh_collect::job::{Enforced, JobError, KernelJob};
use weigh_collect::notice;
use weigh_collect::poll::PolledJob;
use weigh_collect::preload::{self, PreloadError, PreloadedJob};
use weigh_collect::ptrace::TracedJob;
use weigh_schema::Mechanism;
use weigh_schema::following::Level;
use weigh_schema::limit::{Limit, OnLimit};
use weigh_schema::record::Limited;
use weigh_session::products::io::mechanism::stops;

use super::settings::{self, Settings, Way};
use crate::arguments::Collector;

/// The first that works; why the others do not is told.
pub fn open(settings: &Settings) -> anyhow::Result<Box<dyn Follow>> {
    let mut why = match settings.wants(Collector::Bpf) {
        true => String::new(),
        false => "turned off by --without bpf".to_string(),
    };
    let mut neither = Vec::new();
    for way in &settings.ways {
        let name = way.following.name;
        match open_way(settings, way, &why) {
            Ok(follower) => {
                let arguments = &settings.arguments;
                let is_told = !why.is_empty() && (!arguments.quiet || arguments.details);
                if is_told && arguments.details {
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
            Err(error) if way.is_asked_for && PreloadError::of_file_size(&*error).is_some() => {
                return stand_in(settings, &error);
            }
            Err(error) if way.is_asked_for => {
                return Err(error)
                    .with_context(|| format!("--mechanism {name} does not work here"));
            }
            Err(error) if why.is_empty() => why = crate::in_full(&error),
            Err(error) => {
                neither.push(format!("not by {name} either: {}", crate::in_full(&error)));
            }
        }
    }
    anyhow::bail!("no mechanism works here: {why}")
}

/// Where the library has no place for a limit that is meant for the job, the job is followed otherwise.
fn stand_in(settings: &Settings, error: &anyhow::Error) -> anyhow::Result<Box<dyn Follow>> {
    let others = settings::without_library(&settings.arguments)?;
    for way in others {
        if let Ok(follower) = open_way(settings, &way, "it was not asked for") {
            notice!(
                "--mechanism preload does not work here: {error}; by {} instead",
                way.following.name
            );
            return Ok(follower);
        }
    }
    anyhow::bail!("--mechanism preload does not work here: {error}; nor does another")
}

fn open_way(settings: &Settings, way: &Way, why: &str) -> anyhow::Result<Box<dyn Follow>> {
    let why = match why {
        "" => "not asked for (--mechanism, --level)",
        why => why,
    };
    let wanted = Wanted {
        calls: way.level == Level::Interposition,
        network: settings.wants(Collector::Network),
        files: settings.wants(Collector::Files),
        cpu_waits: settings.arguments.delays,
    };
    Ok(match way.following.mechanism {
        Mechanism::Bpf => match KernelJob::open(wanted, enforced(settings)) {
            Ok(job) => Box::new(job),
            Err(error) => through_agent(wanted, error)?,
        },
        Mechanism::Ptrace => {
            TracedJob::check()?;
            let arguments = &settings.arguments;
            let stops = stops(arguments.seccomp, arguments.quiet);
            let telling = if arguments.io_calls { Telling::Each } else { Telling::Sums };
            Box::new(match arguments.io {
                true => TracedJob::that_counts(wanted, stops, telling, arguments.io_by.apart())?,
                false => TracedJob::that_sees(wanted, stops)?,
            })
        }
        Mechanism::Preload => {
            let level = match way.level {
                Level::Interposition if settings.arguments.io => preload::Level::Files,
                Level::Interposition => preload::Level::Calls,
                _ => preload::Level::Processes,
            };
            Box::new(PreloadedJob::open(
                level,
                &settings.arguments.command[0],
                &settings.directory,
            )?)
        }
        _ => Box::new(PolledJob::open(why)),
    })
}

/// Which of the limits stop or end the job.
fn enforced(settings: &Settings) -> Enforced {
    let of_calls =
        |limit: &Limit| Limited::of_metric(limit.metric.name).is_some_and(Limited::is_of_calls);
    let may_end = settings.on_limit != OnLimit::Warn;
    Enforced {
        any: may_end && !settings.limits.is_empty(),
        of_calls: may_end && settings.limits.iter().any(of_calls),
    }
}

/// Who has no rights asks the agent, if there is one.
fn through_agent(wanted: Wanted, own: JobError) -> anyhow::Result<Box<dyn Follow>> {
    match RemoteJob::open(&weigh_agent::socket(), wanted) {
        Ok(job) => Ok(Box::new(job)),
        Err(RemoteError::NoAgent(..)) => Err(own.into()),
        Err(error) => Err(anyhow::anyhow!("{own}; {error}")),
    }
}
