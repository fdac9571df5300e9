//! The values that rules judge, when they were taken, and those of jobs.

use std::borrow::Cow;

use jiff::Timestamp;
use weigh_schema::rule::{job_metric, scope_of_job};
use weigh_schema::top::{PublishedValue, TopJob, TopJobKind};
use weigh_schema::update::Scope;

/// When a look was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleMoment {
    /// Nanoseconds on a clock that nobody can set: what durations are counted by.
    pub ns: u64,
    /// The same by the clock of the day: what events say.
    pub time: Timestamp,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleInput<'a> {
    /// What it is about.
    pub scope: Cow<'a, Scope>,
    /// The metric's name.
    pub metric: &'a str,
    /// In the metric's unit; none where it is unavailable, which is not 0.
    pub value: Option<f64>,
    /// Its growth in a second, where that is known otherwise than by the values themselves.
    pub per_second: Option<f64>,
}

/// The values of jobs of `weigh run` (`job:PID`).
pub fn job_inputs(jobs: &[TopJob]) -> impl Iterator<Item = RuleInput<'_>> {
    jobs.iter().filter(|job| job.kind == TopJobKind::Weigh).flat_map(of_job)
}

/// What a client has published.
impl<'a> From<&'a PublishedValue> for RuleInput<'a> {
    fn from(value: &'a PublishedValue) -> RuleInput<'a> {
        RuleInput {
            scope: Cow::Borrowed(&value.scope),
            metric: &value.metric,
            value: Some(value.value),
            per_second: None,
        }
    }
}

fn of_job(job: &TopJob) -> impl Iterator<Item = RuleInput<'_>> {
    let scope = scope_of_job(job.pid);
    let bytes = |bytes: u64| bytes as f64;
    let values = [
        (job_metric::cpu_cores, job.cpu_cores),
        (job_metric::memory_rss_sum_bytes, Some(bytes(job.memory_rss_sum_bytes))),
        (job_metric::processes, Some(job.processes as f64)),
        (job_metric::job_cpus_requested, job.cpus_requested),
        (job_metric::job_memory_limit_bytes, job.memory_limit_bytes.map(bytes)),
        (job_metric::job_time_left_seconds, job.time_left_seconds),
    ];
    values.into_iter().map(move |(metric, value)| RuleInput {
        scope: Cow::Owned(scope.clone()),
        metric,
        value,
        per_second: None,
    })
}
