//! What was typed, as settings of the run and of its output.
//!
//! Reads the parsed options and the files that they name; refuses what one of them does not allow.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use weigh_account::WatchSpec;
use weigh_keep::KeepError;
use weigh_schema::Mechanism;
use weigh_schema::following::FOLLOWINGS;
use weigh_schema::limit::{Limit, OnLimit};
use weigh_session::products::run::limits_file::{self, LimitsFile};
use weigh_session::products::run::{RunSettings, watch_spec};

use crate::destination::Destination;
use weigh_arguments::{RunArguments, RunIoMechanism};

/// Time between TERM and KILL, unless the user says otherwise.
const GRACE: Duration = Duration::from_secs(5);

/// What is shown and written of a run.
pub struct RunOutput {
    /// Where the recording goes; empty where there is no place for one.
    pub directory: PathBuf,
    /// Why there is none.
    pub no_default: Option<KeepError>,
    /// Whether the user has named it.
    pub is_directory_given: bool,
    /// Whether a recording that is there makes room.
    pub replaces: bool,
    /// Where the summary goes as JSON.
    pub json: Option<Destination>,
    /// What is run for events.
    pub on_event: Option<OsString>,
    /// Whether neither table nor notice is printed.
    pub quiet: bool,
    /// Whether all metrics are printed.
    pub details: bool,
    /// Whether a line for each metric is printed instead.
    pub keys: bool,
    /// Whether the live line is there from the start.
    pub live: bool,
    /// Whether weigh ends like the command in spite of a limit.
    pub preserve_status: bool,
    /// Whether the job ran before weigh: then its status is not weigh's.
    pub is_joined: bool,
    /// Whether weigh ends with 125 where something could not be written.
    pub require_recording: bool,
}

/// Limits, and what happens at them.
struct LimitSettings {
    limits: Vec<Limit>,
    on_limit: OnLimit,
    grace: Duration,
}

/// Of the options of one run.
pub fn read(arguments: RunArguments) -> anyhow::Result<(RunSettings, RunOutput)> {
    let id = weigh_keep::new_job_id(Timestamp::now(), std::process::id());
    let (directory, no_default) = match directory(&arguments, &id)? {
        Ok(directory) => (directory, None),
        Err(error) => (PathBuf::new(), Some(error)),
    };
    let LimitSettings { limits, on_limit, grace } = limits(&arguments)?;
    let json = arguments.json.as_deref().map(Destination::open).transpose()?;
    if arguments.io_mechanism == RunIoMechanism::Preload {
        bail!(
            "--io-mechanism preload: the library counts by file where it follows the job as well: say --mechanism {}",
            Mechanism::Preload
        );
    }
    let mechanism = FOLLOWINGS.iter().find(|following| following.name == arguments.mechanism);
    let settings = RunSettings {
        id,
        directory: directory.clone(),
        own_files: json.iter().filter_map(Destination::metadata).collect(),
        io: arguments.io_settings(),
        snapshots: snapshots(&arguments)?,
        calls: arguments.calls,
        command: arguments.command,
        pid: arguments.pid,
        duration: arguments.duration,
        category: arguments.category,
        labels: arguments.labels,
        is_quiet: arguments.quiet,
        is_verbose: arguments.details,
        wait_for: arguments.wait_for,
        interval: arguments.interval,
        limits,
        on_limit,
        grace,
        mechanism: mechanism.map(|following| following.mechanism),
        level: arguments.level,
        seccomp: arguments.seccomp,
        without: arguments.without,
        footprint: arguments.watch,
        fanotify: arguments.files,
        cgroup: arguments.cgroup,
        delays: arguments.delays,
        written: arguments.written,
        conventions: arguments.regions,
    };
    let output = RunOutput {
        directory,
        no_default,
        is_directory_given: arguments.output.is_some(),
        replaces: arguments.replace,
        json,
        on_event: arguments.on_event,
        quiet: arguments.quiet,
        details: arguments.details,
        keys: arguments.keys,
        live: arguments.live,
        preserve_status: arguments.preserve_status,
        is_joined: arguments.pid.is_some(),
        require_recording: arguments.status.require_recording,
    };
    Ok((settings, output))
}

/// Where the recording goes, or why there is no place for it.
fn directory(arguments: &RunArguments, id: &str) -> anyhow::Result<Result<PathBuf, KeepError>> {
    if arguments.output.as_deref().is_some_and(|place| place.as_os_str() == "-") {
        bail!(
            "-o names the directory of the recording; `--json -` writes the summary to standard output"
        );
    }
    Ok(match &arguments.output {
        Some(directory) => Ok(directory.clone()),
        None => weigh_keep::default_directory(id),
    })
}

/// Those of the command line and of the file; the command line's win.
fn limits(arguments: &RunArguments) -> anyhow::Result<LimitSettings> {
    let mut file = match &arguments.limits_file {
        Some(path) => limits_file::read(path)?,
        None => LimitsFile::default(),
    };
    file.limits.retain(|l| !arguments.limits.iter().any(|o| o.metric.name == l.metric.name));
    Ok(LimitSettings {
        limits: arguments.limits.iter().cloned().chain(file.limits).collect(),
        on_limit: arguments.on_limit.or(file.on_limit).unwrap_or_default(),
        grace: arguments.grace.or(file.grace).unwrap_or(GRACE),
    })
}

fn snapshots(arguments: &RunArguments) -> anyhow::Result<Vec<WatchSpec>> {
    let mut files = arguments.snapshots.clone();
    if let Some(path) = &arguments.snapshot_events {
        files.extend(watch_spec::read(path)?);
    }
    Ok(files)
}
