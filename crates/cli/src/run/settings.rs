//! What the user asked for, checked before anything is started.
//!
//! Reads the parsed options and the limits file; refuses what one of them does not allow.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use weigh_schema::Mechanism;
use weigh_schema::following::{FOLLOWINGS, Following, Level};
use weigh_schema::limit::{Limit, OnLimit};
use weigh_session::products::io::mount::MountSpec;

use super::limits_file::{self, LimitsFile};
use super::watched::{self, Watched};
use crate::arguments::{AUTO, Collector, IoBy, RunArguments, RunIoMechanism};
use crate::destination::Destination;
use crate::io::settings::job_folder;

/// Time between TERM and KILL, unless the user says otherwise.
const GRACE: Duration = Duration::from_secs(5);

/// The options of one run.
pub struct Settings {
    /// The options as given.
    pub arguments: RunArguments,
    /// A name for the recording.
    pub id: String,
    /// Where the recording goes.
    pub directory: PathBuf,
    /// All limits, of the command line and the file; the command line's win.
    pub limits: Vec<Limit>,
    /// What happens when one is crossed.
    pub on_limit: OnLimit,
    /// Time between TERM and KILL.
    pub grace: Duration,
    /// The files that are watched for snapshots.
    pub watched: Vec<Watched>,
    /// The ways of following the job that may be tried, the best first.
    pub ways: Vec<Way>,
    /// What is to be mounted for the job.
    pub mount: Option<MountSpec>,
    /// Where the summary goes as JSON.
    pub json: Option<Destination>,
}

/// A way of following, at a level.
#[derive(Clone, Copy)]
pub struct Way {
    /// The way.
    pub following: &'static Following,
    /// The level.
    pub level: Level,
    /// Whether the user asked for this way and no other.
    pub is_asked_for: bool,
}

/// The ways that were asked for, by that mechanism; refuses a level that it does not have.
fn ways(arguments: &RunArguments, mechanism: &str) -> anyhow::Result<Vec<Way>> {
    if arguments.io_mechanism == RunIoMechanism::Preload {
        bail!(
            "--io-mechanism preload: the library counts by file where it follows the job as well: say --mechanism {}",
            Mechanism::Preload
        );
    }
    let by_tracer = arguments.io_mechanism.takes_tracer();
    let tracer = Mechanism::Ptrace.to_string();
    let name = match mechanism {
        AUTO if by_tracer => tracer.as_str(),
        name => name,
    };
    if by_tracer && name != tracer {
        bail!(
            "--io-mechanism {}: its tracer has to be the one who follows the job, for a process can have one only: \
             leave --mechanism {name} out, or say --mechanism {tracer}",
            arguments.io_mechanism.name()
        );
    }
    if arguments.seccomp && arguments.io_mechanism == RunIoMechanism::PreloadPtrace {
        bail!(
            "--seccomp: not with --io-mechanism preload+ptrace, for a filter could not be taken out of the programs \
             that the library counts in: --io-mechanism ptrace takes it"
        );
    }
    let is_asked_for = name != AUTO;
    let has = |following: &&Following| {
        arguments.level.is_none_or(|level| following.levels.contains(&level))
    };
    let without_bpf = arguments.without.contains(&Collector::Bpf);
    let mut ways: Vec<Way> = FOLLOWINGS
        .iter()
        .filter(|following| !is_asked_for || following.name == name)
        .filter(|following| is_asked_for || !without_bpf || following.mechanism != Mechanism::Bpf)
        .filter(has)
        .map(|following| {
            let level = arguments.level.unwrap_or(following.unasked);
            Way { following, level, is_asked_for }
        })
        .collect();
    let by_job = arguments.io && arguments.io_mount.is_empty();
    let lacks_files = |way: &Way| by_job && !way.following.tells_by_file(way.level);
    ways.sort_by_key(|way| (way.following.is_dear_at(way.level), lacks_files(way)));
    if let (true, Some(level)) = (ways.is_empty(), arguments.level) {
        let able: Vec<_> = FOLLOWINGS.iter().filter(has).map(|f| f.name).collect();
        bail!(
            "--mechanism {name} has no level {}; it can be had with {}",
            level.number(),
            able.join(", ")
        );
    }
    let has_calls = |way: &Way| {
        way.following.mechanism == Mechanism::Ptrace
            && (arguments.io || way.level == Level::Interposition)
    };
    if arguments.seccomp && !(is_asked_for && ways.iter().all(has_calls)) {
        bail!("--seccomp is for --mechanism ptrace, with --level 3 or --io, only");
    }
    Ok(ways)
}

/// The ways that are left, without rights, where the library has no place.
pub fn without_library(arguments: &RunArguments) -> anyhow::Result<Vec<Way>> {
    let mut left = ways(arguments, AUTO)?;
    left.retain(|way| !matches!(way.following.mechanism, Mechanism::Bpf | Mechanism::Preload));
    Ok(left)
}

impl Settings {
    /// Checks the options.
    pub fn new(arguments: RunArguments) -> anyhow::Result<Settings> {
        let id = weigh_keep::new_job_id(Timestamp::now(), std::process::id());
        if arguments.output.as_deref().is_some_and(|place| place.as_os_str() == "-") {
            bail!(
                "-o names the directory of the recording; `--json -` writes the summary to standard output"
            );
        }
        let directory = match &arguments.output {
            Some(directory) => directory.clone(),
            None => weigh_keep::default_directory(&id)?,
        };
        let mut file = match &arguments.limits_file {
            Some(path) => limits_file::read(path)?,
            None => LimitsFile::default(),
        };
        file.limits.retain(|l| !arguments.limits.iter().any(|o| o.metric.name == l.metric.name));
        let limits = arguments.limits.iter().cloned().chain(file.limits).collect();
        let on_limit = arguments.on_limit.or(file.on_limit).unwrap_or_default();
        let json = arguments.json.as_deref().map(Destination::open).transpose()?;
        let grace = arguments.grace.or(file.grace).unwrap_or(GRACE);
        let ways = ways(&arguments, &arguments.mechanism)?;
        let mount = job_folder(&arguments).as_ref().map(MountSpec::check).transpose()?;
        let by_job = mount.is_none();
        let by_library = arguments.mechanism == Mechanism::Preload.to_string()
            || arguments.io_mechanism == RunIoMechanism::PreloadPtrace;
        if by_job && arguments.io_calls && by_library {
            bail!("--io-calls: only --mechanism bpf and ptrace tell of each call");
        }
        if by_job && arguments.io_by == IoBy::Thread && by_library {
            bail!("--io-by thread: only --mechanism bpf and ptrace tell threads apart");
        }
        let mut watched = arguments.snapshots.clone();
        if let Some(path) = &arguments.snapshot_events {
            watched.extend(watched::read(path)?);
        }
        Ok(Settings {
            arguments,
            id,
            directory,
            limits,
            on_limit,
            grace,
            watched,
            ways,
            mount,
            json,
        })
    }

    /// Whether a collector was not turned off.
    pub fn wants(&self, collector: crate::arguments::Collector) -> bool {
        !self.arguments.without.contains(&collector)
    }
}
