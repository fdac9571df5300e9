//! The parts of a summary that are known before the job runs.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;

use jiff::Timestamp;
use weigh_schema::allowed::Allowed;
use weigh_schema::event::{CollectorStatus, Note};
use weigh_schema::quality::{Quality, Value};
use weigh_schema::summary::{Job, LimitOutcome, SCHEMA, Summary};
use weigh_schema::{byte_text, metric};

use super::settings::RunSettings;

/// A summary without values.
pub(super) fn provisional(
    settings: &RunSettings,
    collectors: Vec<CollectorStatus>,
    allowed: Allowed,
) -> anyhow::Result<Summary> {
    let host = weigh_collect::host::host()?;
    let cwd = std::env::current_dir().map_or_else(
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
            user: weigh_collect::host::current_user(),
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
        collectors,
        host,
        allowed,
    })
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
