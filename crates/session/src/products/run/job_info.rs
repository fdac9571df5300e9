//! The parts of a summary that are known before the job runs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use jiff::Timestamp;
use weigh_collect::host_state::host_state;
use weigh_collect::{host, procfs};
use weigh_schema::allowed::Allowed;
use weigh_schema::event::{CollectorStatus, Note};
use weigh_schema::summary::{Host, Job, LimitOutcome, SCHEMA, Summary};
use weigh_schema::{Quality, Value, byte_text, metric};

use super::settings::RunSettings;

/// A summary without values.
pub(super) fn provisional(
    settings: &RunSettings,
    collectors: Vec<CollectorStatus>,
    allowed: Allowed,
) -> anyhow::Result<Summary> {
    let host = Host { at_start: host_state(), ..host::host()? };
    let folder = match settings.pid {
        Some(pid) => std::fs::read_link(format!("/proc/{pid}/cwd")),
        None => std::env::current_dir(),
    };
    let cwd = folder.map_or_else(
        |_| "(gone)".to_string(),
        |folder| byte_text::keep(folder.as_os_str().as_bytes()),
    );
    Ok(Summary {
        schema: SCHEMA.to_string(),
        job: Job {
            id: settings.id.clone(),
            command: settings.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
            command_base64: weigh_schema::base64::of_words(&settings.command),
            cwd: byte_text::shown(&cwd),
            cwd_base64: byte_text::base64(&cwd),
            category: settings.category.clone(),
            labels: settings.labels.iter().cloned().collect(),
            user: user(settings.pid),
            node: host.node.clone(),
            started: Timestamp::now(),
            ended: None,
        },
        exit: None,
        metrics: BTreeMap::new(),
        limits: settings
            .limits
            .iter()
            .map(|limit| LimitOutcome {
                metric: limit.metric.name.to_string(),
                limit: limit.metric.unit.number(limit.value),
                written: Some(limit.written.clone()),
                enforced_by: "interval".to_string(),
                exceeded: false,
                observed: None,
                overshoot: None,
                overshoot_at_most: None,
                at_seconds: None,
                offender: None,
            })
            .collect(),
        snapshots: Vec::new(),
        io: None,
        regions: None,
        collectors,
        host,
        file_systems: Vec::new(),
        gpus: Vec::new(),
        allowed,
    })
}

/// The user whose job it is.
fn user(pid: Option<u32>) -> String {
    let of_process = |pid| std::fs::metadata(format!("/proc/{pid}")).ok();
    match pid.and_then(of_process) {
        Some(about) => host::user_name(about.uid()),
        None => host::current_user(),
    }
}

/// The command line of a process that runs; its name where it has none.
pub(super) fn command_of(pid: u32) -> Vec<OsString> {
    let line = procfs::read_of(pid, "cmdline").unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    if line.is_empty() {
        return host::process_name(pid).into_iter().map(Into::into).collect();
    }
    line.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

/// The same as it is recorded of each process.
pub(super) fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| byte_text::keep(word.as_bytes())).collect()
}

/// The metrics of which it is known before the job runs that they will have no value: a recording that is cut short has
/// nothing else to say so.
pub(super) fn not_known(notes: &[Note]) -> BTreeMap<String, Value> {
    let none = notes.iter().filter(|note| note.quality == Quality::Unavailable);
    let value = |note: &Note| {
        let unit = metric(&note.metric)?.unit;
        Some((note.metric.to_string(), Value::unavailable(unit, note.reason.clone())))
    };
    none.filter_map(value).collect()
}
