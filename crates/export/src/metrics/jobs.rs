//! Jobs that run: their points, and the bound of how many there are.

use std::collections::HashSet;
use std::sync::Arc;

use weigh_schema::running_job::{RUNNING_JOB_METRICS, running_job_values};
use weigh_schema::top::{TopJob, TopJobKind, TopReport};
use weigh_schema::{Metric, Number, Quality};

use super::point::Point;
use super::scope_label::ScopeLabels;

/// Leaves as many jobs in reports as are to be exported; one that is exported is so until it ends.
///
/// Sessions of `weigh run` come first, then jobs of Slurm, containers, units; of each the greatest users of CPUs.
pub struct JobBound {
    most: usize,
    exported: HashSet<JobKey>,
}

/// A job, from one report to the next.
#[derive(Clone, PartialEq, Eq, Hash)]
enum JobKey {
    Session(u32),
    Group(String),
}

impl JobBound {
    /// So many at most.
    pub fn new(most: usize) -> JobBound {
        JobBound { most, exported: HashSet::new() }
    }

    /// How many at most.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Takes those out of the report that are too many; how many these are.
    pub fn apply(&mut self, report: &mut TopReport) -> usize {
        let all = report.jobs.len();
        let is_new = |job: &TopJob| !self.exported.contains(&key(job));
        report.jobs.sort_by(|a, b| {
            let cores = |job: &TopJob| job.cpu_cores.unwrap_or(0.0);
            let order = (is_new(a), rank(a.kind)).cmp(&(is_new(b), rank(b.kind)));
            order.then_with(|| cores(b).total_cmp(&cores(a)))
        });
        report.jobs.truncate(self.most);
        self.exported = report.jobs.iter().map(key).collect();
        all - report.jobs.len()
    }
}

fn key(job: &TopJob) -> JobKey {
    match &job.group {
        Some(group) => JobKey::Group(group.scope.to_string()),
        None => JobKey::Session(job.pid),
    }
}

fn rank(kind: TopJobKind) -> u8 {
    match kind {
        TopJobKind::Weigh => 0,
        TopJobKind::Slurm => 1,
        TopJobKind::Container => 2,
        TopJobKind::Unit => 3,
    }
}

/// The points of the jobs of a report, by metric. Of jobs that look the same the first has them. They are looks at one
/// moment: `sampled`.
pub(super) fn job_points(report: &TopReport) -> Vec<Point> {
    let mut used = HashSet::new();
    let labelled = report.jobs.iter().map(|job| (job, ScopeLabels::of_job(job, &report.processes)));
    let jobs: Vec<_> = labelled.filter(|(_, labels)| used.insert(labels.clone())).collect();
    let mut points = vec![Vec::new(); RUNNING_JOB_METRICS.len()];
    for (job, labels) in jobs {
        let scope = Arc::new(labels);
        let values = RUNNING_JOB_METRICS.iter().zip(running_job_values(job));
        for (of_metric, (metric, value)) in points.iter_mut().zip(values) {
            of_metric.extend(value.and_then(|value| point(metric, &scope, value)));
        }
    }
    points.into_iter().flatten().collect()
}

fn point(metric: &'static Metric, scope: &Arc<ScopeLabels>, value: Number) -> Option<Point> {
    let is_number = value.as_f64().is_finite();
    is_number.then(|| Point { metric, scope: scope.clone(), value, quality: Quality::Sampled })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::test_report::{group_job, session};

    fn report(jobs: Vec<TopJob>) -> TopReport {
        TopReport { jobs, ..TopReport::default() }
    }

    fn pids(report: &TopReport) -> Vec<u32> {
        report.jobs.iter().map(|job| job.pid).collect()
    }

    #[test]
    fn a_job_that_is_exported_stays_whatever_comes() {
        let mut bound = JobBound::new(3);
        let unit = || group_job(7, TopJobKind::Unit, "/system.slice/a.service", 9.0);
        let mut first = report(vec![unit(), session(1, 0.5), session(2, 1.5)]);
        assert_eq!(bound.apply(&mut first), 0);
        assert_eq!(pids(&first), [2, 1, 7]);
        let more = vec![session(3, 8.0), unit(), session(4, 7.0), session(1, 0.0), session(2, 0.0)];
        let mut second = report(more);
        assert_eq!((bound.apply(&mut second), pids(&second)), (2, vec![1, 2, 7]));
        // One has ended: of the new ones the busiest has its place.
        let mut third = report(vec![session(3, 8.0), unit(), session(4, 7.0), session(1, 0.0)]);
        assert_eq!((bound.apply(&mut third), pids(&third)), (1, vec![1, 7, 3]));
        let mut none = report(vec![session(1, 1.0)]);
        assert_eq!((JobBound::new(0).apply(&mut none), none.jobs.len()), (1, 0));
    }

    #[test]
    fn what_is_not_known_of_a_job_is_left_out_and_of_equal_jobs_one_is_there() {
        let mut unknown = session(5, f64::NAN);
        unknown.user = "a\u{1b}\"\n".to_string();
        let unit = || group_job(7, TopJobKind::Slurm, "/slurm/job_17", 0.25);
        let points = job_points(&report(vec![session(1, 0.5), unknown, unit(), unit()]));
        let found: Vec<(&str, String, f64)> = points
            .iter()
            .map(|point| (point.metric.name, point.scope.instance(), point.value.as_f64()))
            .collect();
        let row = |metric, instance: &str, value| (metric, instance.to_string(), value);
        let expected = [
            row("job_cpu_cores", "1", 0.5),
            row("job_cpu_cores", "/slurm/job_17", 0.25),
            row("job_memory_rss_sum_bytes", "1", 4096.0),
            row("job_memory_rss_sum_bytes", "5", 4096.0),
            row("job_memory_rss_sum_bytes", "/slurm/job_17", 4096.0),
            row("job_processes", "1", 2.0),
            row("job_processes", "5", 2.0),
            row("job_processes", "/slurm/job_17", 2.0),
        ];
        assert_eq!(found, expected);
        let user = &points[3].scope.labels.last().unwrap().1;
        assert_eq!(user, "a\\u{1b}\"\\n", "nothing in it steers a terminal");
    }
}
