//! Which part of the time that threads waited for a CPU came from outside: from a quota, from the host.
//!
//! Reads what control groups and the machine count before the job and after it. Emits values for the summary. Refuses to
//! split what is left between the job's own threads and others.

use weigh_collect::throttling::{Throttling, stolen_seconds};
use weigh_schema::event::JobReading;
use weigh_schema::quality::{Mechanism, Quality, Value};
use weigh_schema::{Counter, Unit};

use super::collectors::Findings;

/// What was counted before the job.
pub struct CpuWait {
    throttling: Throttling,
    stolen_seconds: Option<f64>,
}

/// The wait of a job for CPUs.
struct Waited {
    /// In all, if that is known.
    seconds: Option<f64>,
    /// Its threads, at most.
    threads: f64,
    /// CPUs of the machine.
    cpus: f64,
}

impl CpuWait {
    /// Before the job begins, whose first process is `pid`.
    pub fn begin(pid: u32) -> CpuWait {
        CpuWait { throttling: Throttling::begin(pid), stolen_seconds: stolen_seconds() }
    }

    /// The job has ended.
    pub fn finish(
        self,
        mechanism: Mechanism,
        reading: &JobReading,
        cpus: u32,
        findings: &mut Findings,
    ) {
        let is_known = matches!(mechanism, Mechanism::Bpf | Mechanism::Ptrace);
        let waited = Waited {
            seconds: is_known.then(|| reading.counters.get(Counter::RunDelay) as f64 * 1e-9),
            threads: reading.population.threads_peak.max(1) as f64,
            cpus: f64::from(cpus.max(1)),
        };
        let throttled = match self.throttling.is_known() {
            true => throttled(self.throttling.since_ns() as f64 * 1e-9, &waited),
            false => {
                Value::unavailable(Unit::Seconds, "the control groups of the command are not known")
            }
        };
        let stolen = self.stolen_seconds.zip(stolen_seconds());
        let stolen = stolen.map(|(before, after)| stolen_from_all((after - before).max(0.0)));
        let none = || Value::unavailable(Unit::Seconds, "/proc/stat has no steal");
        findings.given.insert("delay_cpu_throttled_seconds".to_owned(), throttled);
        findings.given.insert("delay_cpu_stolen_seconds".to_owned(), stolen.unwrap_or_else(none));
    }
}

fn value(seconds: f64, source: Mechanism, quality: Quality, reason: String) -> Value {
    let number = Some(Unit::Seconds.number(seconds));
    Value { value: number, unit: Unit::Seconds, source, quality, reason: Some(reason) }
}

/// The kernel counts for how long each CPU was kept from a group. As many threads waited there as had been put on that
/// CPU: one at least, all of them at most.
fn throttled(group_seconds: f64, waited: &Waited) -> Value {
    if group_seconds <= 0.0 {
        let reason = "none of the control groups that can be seen was throttled".to_owned();
        return value(0.0, Mechanism::Cgroup, Quality::Exact, reason);
    }
    let Some(all) = waited.seconds else {
        let reason = format!(
            "a control group was throttled for {group_seconds:.3} s, added up over CPUs; how long \
             threads waited needs BPF or ptrace"
        );
        return Value::unavailable(Unit::Seconds, reason);
    };
    let (low, high) = (group_seconds.min(all), (group_seconds * waited.threads).min(all));
    let on_each = (waited.threads / waited.cpus).max(1.0);
    let reason = format!(
        "between {low} and {high} seconds, if nothing else runs in the control group, which was \
         throttled for {group_seconds} s, added up over CPUs"
    );
    let seconds = (group_seconds * on_each).clamp(low, high);
    value(seconds, Mechanism::Cgroup, Quality::Estimated, reason)
}

fn stolen_from_all(seconds: f64) -> Value {
    let reason = "of the whole machine while the job ran, in clock ticks: at most so much was the \
                  job's, which is in no other wait"
        .to_owned();
    value(seconds, Mechanism::Proc, Quality::Estimated, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(group_seconds: f64, seconds: Option<f64>, threads: f64) -> (Option<f64>, Quality) {
        let value = throttled(group_seconds, &Waited { seconds, threads, cpus: 2.0 });
        (value.number(), value.quality)
    }

    #[test]
    fn a_part_is_never_more_than_the_whole() {
        assert_eq!(told(0.0, Some(3.0), 1.0), (Some(0.0), Quality::Exact));
        assert_eq!(told(1.5, Some(3.0), 1.0), (Some(1.5), Quality::Estimated));
        assert_eq!(told(1.5, Some(1.0), 1.0), (Some(1.0), Quality::Estimated));
        assert_eq!(told(1.0, Some(9.0), 6.0), (Some(3.0), Quality::Estimated));
        assert_eq!(told(1.0, Some(2.0), 6.0), (Some(2.0), Quality::Estimated));
        assert_eq!(told(1.0, None, 1.0), (None, Quality::Unavailable));
    }
}
