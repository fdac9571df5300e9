//! `docs/metrics.md`, from the declarations of the metrics; `docs/mechanisms.md` beside it.
//!
//! Reads [`METRICS`]; emits Markdown. A test of the repository holds the file in `docs/` to it.

mod mechanisms;

use weigh_schema::allowed::{
    Allowed, AllowedChange, AllowedGroup, ResourceLimit, SchedulerRequest,
};
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::published::{PUBLISHED_VALUE, TRACE_METRICS};
use weigh_schema::recording::files;
use weigh_schema::running_job::RUNNING_JOB_METRICS;
use weigh_schema::summary::{
    Exit, ExitKind, FileSystemPurpose, FileSystemRoom, GpuUse, Host, Job, LimitOutcome, Mapping,
    Offender, SCHEMA, Sender, SenderKind, Summary,
};
use weigh_schema::{Group, METRICS, Mechanism, Metric, NODE_METRICS, Quality, Unit, Value};

use crate::shape::shape_of;

pub use mechanisms::mechanisms_markdown;

/// The reference of all metrics and of the summary that carries them.
pub fn metrics_markdown() -> String {
    let mut out = String::from(
        "# Metrics\n\n\
         Derived from the declarations in `crates/schema/src/metric.rs`; do not edit by hand.\n\n\
         Names end in their unit: `_bytes`, `_seconds`, `_ratio`; `_total` marks a counter that \
         only grows. Values are in base units; people are shown KiB, MiB and GiB (powers of 1024).\n\n",
    );
    out.push_str(&overview());
    for group in Group::ALL {
        out.push_str(&format!("## {}\n\n", group.title()));
        for metric in METRICS.iter().filter(|m| m.group == *group) {
            out.push_str(&entry(metric));
        }
    }
    out.push_str(&summary_schema());
    out.push_str(&node_metrics());
    out
}

/// Metrics of the node have a heading for each scope: they stand in no summary.
fn node_metrics() -> String {
    let mut out = String::from(
        "## Metrics of the node\n\nOf the whole machine, in no job's summary: what [`weigh top`](top.md) shows.\n\n\
         | metric | unit | kind | of | counts |\n|---|---|---|---|---|\n",
    );
    for m in NODE_METRICS {
        let scope = format!("{:?}", m.scope).to_lowercase();
        out.push_str(&format!(
            "| `{}` | {} | {} | {scope} | {} |\n",
            m.name, m.unit, m.kind, m.counts
        ));
    }
    out.push_str(&running_job_metrics());
    out.push_str(&published_metrics());
    out
}

fn published_metrics() -> String {
    let mut out = String::from(
        "\n## Metrics that clients publish\n\nWhat [exporters](exporters.md#published-values) send of it, if asked for.\n\n\
         | metric | unit | kind | counts |\n|---|---|---|---|\n",
    );
    for m in TRACE_METRICS.iter().chain([&PUBLISHED_VALUE]) {
        out.push_str(&format!("| `{}` | {} | {} | {} |\n", m.name, m.unit, m.kind, m.counts));
    }
    out
}

fn running_job_metrics() -> String {
    let mut out = String::from(
        "\n## Metrics of running jobs\n\nWhat [exporters](exporters.md#jobs) send of jobs, if asked for.\n\n\
         | metric | unit | kind | counts |\n|---|---|---|---|\n",
    );
    for m in &RUNNING_JOB_METRICS {
        out.push_str(&format!("| `{}` | {} | {} | {} |\n", m.name, m.unit, m.kind, m.counts));
    }
    out
}

fn overview() -> String {
    let mut out = String::from(
        "| metric | unit | kind | per process | limit | series |\n|---|---|---|---|---|---|\n",
    );
    for m in METRICS {
        out.push_str(&format!(
            "| [`{0}`](#{0}) | {1} | {2} | {3} | {4} | {5} |\n",
            m.name,
            m.unit,
            m.kind,
            yes(m.is_per_process()),
            yes(m.can_be_limited()),
            m.series.map(|s| format!("`{s}`")).unwrap_or_default(),
        ));
    }
    out.push('\n');
    out.push_str(&format!(
        "*per process*: a column of `{}`. *limit*: may stand in `--limit METRIC=VALUE`. *series*: \
         its name in `{}`; the series of a peak is the quantity it is the peak of.\n\n",
        files::PROCESSES,
        files::SERIES
    ));
    out
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "" }
}

fn entry(m: &Metric) -> String {
    let mut facts = vec![format!("{}, {}", m.unit, m.kind)];
    facts.push(if m.is_per_process() { "job and process" } else { "job only" }.to_string());
    if m.can_be_limited() {
        facts.push("can be limited".to_string());
    }
    if let Some(series) = m.series {
        facts.push(format!("series `{series}`"));
    }
    format!(
        "### `{}`\n\n{} ({}).\n\n{}\n\n",
        m.name,
        capitalised(m.help),
        facts.join("; "),
        m.counts
    )
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        // `CPU time` stays as it is; `time` becomes `Time`.
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// What each quality promises, in the order of trust.
fn quality_meaning(quality: Quality) -> &'static str {
    match quality {
        Quality::Exact => "counted at every event, by the kernel or by weigh",
        Quality::Sampled => "looked at now and then; what happened between two looks is not in it",
        Quality::Estimated => {
            "computed from other values; `reason` says how and within which bounds"
        }
        Quality::Unavailable => "not known; `value` is null, never 0, and `reason` says why",
    }
}

fn summary_schema() -> String {
    let mut out = format!(
        "## The summary\n\n\
         `{}` (schema `{SCHEMA}`) holds every metric above in one flat map, with all that is \
         needed to judge it. `host.at_start` and `host.at_end`, and the three moments of each of \
         `file_systems`, hold values of the same form by the names of [metrics of the \
         node](#metrics-of-the-node). Times are RFC 3339, UTC. `exit` is null while the job runs, and for \
         ever if weigh was killed before the job ended.\n\n\
         | object | fields |\n|---|---|\n",
        files::SUMMARY
    );
    for (place, shape) in [
        ("the summary", shape_of::<Summary>()),
        ("`job`", shape_of::<Job>()),
        ("`exit`", shape_of::<Exit>()),
        ("`sender` of an exit", shape_of::<Sender>()),
        ("each of `metrics`", shape_of::<Value>()),
        ("each of `limits`", shape_of::<LimitOutcome>()),
        ("`offender` of a limit", shape_of::<Offender>()),
        ("each of `mappings`", shape_of::<Mapping>()),
        ("each of `collectors`", shape_of::<CollectorStatus>()),
        ("`host`", shape_of::<Host>()),
        ("each of `file_systems`", shape_of::<FileSystemRoom>()),
        ("each of `gpus`", shape_of::<GpuUse>()),
        ("`allowed`", shape_of::<Allowed>()),
        ("each of `allowed.groups`", shape_of::<AllowedGroup>()),
        ("each of `allowed.rlimits`", shape_of::<ResourceLimit>()),
        ("`allowed.scheduler`", shape_of::<SchedulerRequest>()),
        ("each of `allowed.changes`", shape_of::<AllowedChange>()),
    ] {
        out.push_str(&format!("| {place} | {} |\n", coded(shape.members)));
    }
    out.push_str("\n| word | one of |\n|---|---|\n");
    for (word, shape) in [
        ("`exit.kind`", shape_of::<ExitKind>()),
        ("`exit.sender.kind`", shape_of::<SenderKind>()),
        ("`source`, `mechanism`", shape_of::<Mechanism>()),
        ("`status`", shape_of::<CollectorState>()),
        ("`unit`", shape_of::<Unit>()),
        ("`used_for`", shape_of::<FileSystemPurpose>()),
    ] {
        out.push_str(&format!("| {word} | {} |\n", coded(shape.members)));
    }
    out.push_str("\n| quality | means |\n|---|---|\n");
    for name in shape_of::<Quality>().members {
        let quality = serde_json::from_value(serde_json::Value::from(*name))
            .expect("a shape lists the names that can be read");
        out.push_str(&format!("| `{name}` | {} |\n", quality_meaning(quality)));
    }
    out
}

fn coded(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_described_once() {
        let text = metrics_markdown();
        for m in METRICS {
            assert_eq!(text.matches(&format!("### `{}`\n", m.name)).count(), 1, "{}", m.name);
            assert!(text.contains(m.counts), "{}", m.name);
        }
    }

    #[test]
    fn it_is_clean_markdown() {
        let text = metrics_markdown();
        assert!(text.ends_with("|\n"));
        assert!(!text.contains("\n\n\n"), "two empty lines");
        for line in text.lines() {
            assert_eq!(line.trim_end(), line, "spaces at the end");
        }
    }
}
