//! The metrics of a job while it runs, as exporters send them: of sessions of `weigh run`, and of control groups that are jobs,
//! units or containers.

use crate::metric::{Formula, Group, Metric, MetricKind, MetricScope};
use crate::top::TopJob;
use crate::unit::{Number, Unit};

const fn gauge(
    name: &'static str,
    unit: Unit,
    group: Group,
    help: &'static str,
    counts: &'static str,
) -> Metric {
    Metric {
        name,
        unit,
        kind: MetricKind::Gauge,
        scope: MetricScope::Job,
        group,
        help,
        counts,
        formula: Formula::NotMeasured("it is known while the job runs, and in no summary"),
        series: None,
    }
}

/// Every metric of a running job, in the order of [`running_job_values`].
pub static RUNNING_JOB_METRICS: [Metric; 6] = [
    gauge(
        "job_cpu_cores",
        Unit::Cores,
        Group::Cpu,
        "CPUs kept busy",
        "CPUs that its processes kept busy since the look before, by the group's own count where it has one.",
    ),
    gauge(
        "job_memory_rss_sum_bytes",
        Unit::Bytes,
        Group::Memory,
        "resident sizes added up",
        "Sum of the resident sizes of its processes; pages that they share count for each.",
    ),
    gauge(
        "job_processes",
        Unit::Count,
        Group::Processes,
        "processes",
        "Processes that descend from its `weigh run`, or are in its group and can be seen.",
    ),
    gauge(
        "job_cpus_requested",
        Unit::Cores,
        Group::Cpu,
        "CPUs asked for",
        "CPUs that were asked for it: of a batch system, by a quota, or by an affinity that leaves some of the node's out.",
    ),
    gauge(
        "job_memory_limit_bytes",
        Unit::Bytes,
        Group::Memory,
        "memory past which it is killed",
        "Memory past which its processes are killed, by its control groups; else what was asked of a batch system.",
    ),
    gauge(
        "job_time_left_seconds",
        Unit::Seconds,
        Group::Time,
        "time until it is ended",
        "Time until a batch system ends it (`SLURM_JOB_END_TIME`).",
    ),
];

/// The values of a job, one for each of [`RUNNING_JOB_METRICS`]; none where it is not known.
pub fn running_job_values(job: &TopJob) -> [Option<Number>; 6] {
    [
        job.cpu_cores.map(Number::Real),
        Some(Number::Whole(job.memory_rss_sum_bytes)),
        Some(Number::Whole(job.processes)),
        job.cpus_requested.map(Number::Real),
        job.memory_limit_bytes.map(Number::Whole),
        job.time_left_seconds.map(Number::Real),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_of_the_metric_in_its_place() {
        let job = TopJob {
            cpu_cores: Some(1.5),
            memory_rss_sum_bytes: 17,
            processes: 3,
            cpus_requested: Some(4.0),
            memory_limit_bytes: Some(99),
            time_left_seconds: Some(-2.5),
            ..TopJob::default()
        };
        let found = RUNNING_JOB_METRICS.iter().zip(running_job_values(&job));
        let found: Vec<_> =
            found.map(|(metric, value)| (metric.name, value.map(Number::as_f64))).collect();
        let expected = [
            ("job_cpu_cores", Some(1.5)),
            ("job_memory_rss_sum_bytes", Some(17.0)),
            ("job_processes", Some(3.0)),
            ("job_cpus_requested", Some(4.0)),
            ("job_memory_limit_bytes", Some(99.0)),
            ("job_time_left_seconds", Some(-2.5)),
        ];
        assert_eq!(found, expected);
        assert_eq!(running_job_values(&TopJob::default())[0], None, "what is not known is not 0");
    }
}
