//! What threads waited for a CPU for: a quota, the host, threads of the job itself, others.
//!
//! Reads what control groups and the machine count before the job and after it, and, on request, who had the CPUs
//! meanwhile. Emits values for the summary.

use weigh_collect::follow::{CpuWaits, JobMechanism};
use weigh_collect::notice;
use weigh_collect::throttling::{Throttling, stolen_seconds};
use weigh_schema::event::JobReading;
use weigh_schema::{Counter, Mechanism, Quality, Unit, Value, metric_name};

use super::collectors::Findings;

/// What was counted before the job.
pub(super) struct CpuWait {
    throttling: Throttling,
    stolen_seconds: Option<f64>,
}

/// The wait of a job for CPUs.
struct WaitTotals {
    /// In all, if that is known.
    seconds: Option<f64>,
    /// Its threads, at most.
    threads: f64,
    /// CPUs of the machine.
    cpus: f64,
    /// Of it the job's own threads had the CPU, as far as is known.
    own_seconds: f64,
}

impl CpuWait {
    /// Before the job begins, whose first process is `pid`.
    pub fn begin(pid: u32) -> CpuWait {
        CpuWait { throttling: Throttling::begin(pid), stolen_seconds: stolen_seconds() }
    }

    /// The job has ended.
    pub fn finish(
        self,
        job: &dyn JobMechanism,
        is_asked_for: bool,
        reading: &JobReading,
        cpus: u32,
        findings: &mut Findings,
    ) {
        let mechanism = job.mechanism();
        let split = match is_asked_for {
            true => job.cpu_waits(),
            false => Err(format!("--delays tells it (root): {PRICE}")),
        };
        let is_known = matches!(mechanism, Mechanism::Bpf | Mechanism::Ptrace);
        let waited = WaitTotals {
            seconds: is_known.then(|| seconds(reading.counters.get(Counter::RunDelay))),
            threads: reading.population.threads_peak.max(1) as f64,
            cpus: f64::from(cpus.max(1)),
            own_seconds: split.as_ref().map_or(0.0, |split| seconds(split.own_ns)),
        };
        let throttled_ns = self.throttling.since_ns();
        let throttled = match self.throttling.is_known() {
            true => throttled(seconds(throttled_ns), &waited),
            false => {
                Value::unavailable(Unit::Seconds, "the control groups of the command are not known")
            }
        };
        let stolen = self.stolen_seconds.zip(stolen_seconds());
        let stolen = stolen.map(|(before, after)| stolen_from_all((after - before).max(0.0)));
        let none = || Value::unavailable(Unit::Seconds, "/proc/stat has no steal");
        let (own, others) = match &split {
            Ok(split) => had_by(split, reading.counters.get(Counter::RunDelay), throttled_ns),
            Err(why) => {
                let none = Value::unavailable(Unit::Seconds, why.as_str());
                (none.clone(), none)
            }
        };
        findings.given.insert(metric_name::delay_cpu_own_seconds.to_owned(), own);
        findings.given.insert(metric_name::delay_cpu_others_seconds.to_owned(), others);
        findings.given.insert(metric_name::delay_cpu_throttled_seconds.to_owned(), throttled);
        findings
            .given
            .insert(metric_name::delay_cpu_stolen_seconds.to_owned(), stolen.unwrap_or_else(none));
    }
}

/// What it costs others that each switch between threads is looked at.
const PRICE: &str =
    "each switch between threads of this machine takes up to 0.3 µs longer meanwhile";

/// Tells that price.
pub(super) fn tell_price(job: &dyn JobMechanism) {
    if job.cpu_waits().is_ok() {
        notice!("{PRICE}, so that delay_cpu_own_seconds and delay_cpu_others_seconds are known");
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

/// What the job's own threads had of the CPUs that it waited for, and what others had. The kernel's own sum is the
/// witness that no wait was missed.
fn had_by(split: &CpuWaits, run_delay_ns: u64, throttled_ns: u64) -> (Value, Value) {
    let known_ns = split.own_ns + split.others_ns + split.nobody_ns;
    let is_whole = known_ns.abs_diff(run_delay_ns) * 100 <= run_delay_ns;
    let mut reason = format!("of {} s nobody had the CPU", seconds(split.nobody_ns));
    if split.unknown_ns > 0 {
        reason += &format!("; of {} s it is not known", seconds(split.unknown_ns));
    }
    if !is_whole {
        let (followed, counted) = (seconds(known_ns), seconds(run_delay_ns));
        reason += &format!("; {followed} s were followed, the kernel has counted {counted} s");
    }
    let quality = if is_whole { Quality::Exact } else { Quality::Estimated };
    let own = value(seconds(split.own_ns), Mechanism::Bpf, quality, reason.clone());
    let mut others = value(seconds(split.others_ns), Mechanism::Bpf, quality, reason);
    if throttled_ns > 0 && split.others_ns > 0 {
        others.quality = Quality::Estimated;
        let text = others.reason.take().unwrap_or_default();
        others.reason = Some(format!(
            "{text}; as much of it as a quota kept from the job meanwhile is in \
             delay_cpu_throttled_seconds, too"
        ));
    }
    (own, others)
}

fn value(seconds: f64, source: Mechanism, quality: Quality, reason: String) -> Value {
    Value::exact(Unit::Seconds, seconds, source).qualified(quality, reason)
}

/// The kernel counts for how long each CPU was kept from a group. As many threads waited there as had been put on that
/// CPU: one at least, all of them at most.
fn throttled(group_seconds: f64, waited: &WaitTotals) -> Value {
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
    let high = (group_seconds * waited.threads).min(all - waited.own_seconds).max(0.0);
    let low = group_seconds.min(high);
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
        let value =
            throttled(group_seconds, &WaitTotals { seconds, threads, cpus: 2.0, own_seconds: 0.0 });
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
        let behind_own =
            WaitTotals { seconds: Some(9.0), threads: 6.0, cpus: 2.0, own_seconds: 7.5 };
        assert_eq!(throttled(1.0, &behind_own).number(), Some(1.5));
    }

    #[test]
    fn what_does_not_add_up_is_estimated() {
        let split = CpuWaits { own_ns: 30, others_ns: 60, nobody_ns: 9, unknown_ns: 0 };
        let qualities = |kernel, throttled| {
            let (own, others) = had_by(&split, kernel, throttled);
            (own.quality, others.quality)
        };
        assert_eq!(qualities(100, 0), (Quality::Exact, Quality::Exact));
        assert_eq!(qualities(100, 5), (Quality::Exact, Quality::Estimated));
        assert_eq!(qualities(102, 0), (Quality::Estimated, Quality::Estimated));
        assert_eq!(had_by(&CpuWaits::default(), 0, 0).0.quality, Quality::Exact);
    }
}
