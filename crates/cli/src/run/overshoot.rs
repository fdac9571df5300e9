//! By how much a metric can have passed its limit before anybody acted.
//!
//! Emits words for people, and a number in the metric's unit where one follows from how the limit was checked.

use std::time::Duration;

use weigh_schema::quality::Number;
use weigh_schema::summary::LimitOutcome;
use weigh_schema::{Group, Mechanism, metric};

/// What there is to say beside the value that was observed.
pub struct Overshoot {
    /// For people.
    pub words: String,
    /// In the metric's unit.
    pub at_most: Option<Number>,
}

/// Of a limit that was checked at looks up to `apart` from each other, on so many CPUs, or where it says by whom.
pub fn overshoot(outcome: &LimitOutcome, apart: Duration, cpus: u32) -> Overshoot {
    let group = metric(&outcome.metric).map(|metric| metric.group);
    let is_by = |mechanism: Mechanism| outcome.enforced_by == mechanism.to_string();
    let (words, at_most) = match group {
        Some(Group::Memory) if is_by(Mechanism::Bpf) => {
            ("checked in the kernel whenever memory is taken: one page or huge page of each thread".into(), None)
        }
        Some(Group::Processes) if is_by(Mechanism::Bpf) || is_by(Mechanism::Ptrace) => {
            ("checked at each birth: one birth of each thread".into(), None)
        }
        _ if is_by(Mechanism::Bpf) => {
            ("checked in the kernel at the end of each system call: what one call of each thread moves".into(), None)
        }
        group => {
            let words = format!(
                "looked at every now and then, {:.0} ms apart at most in this run: what is used in that time",
                (apart.as_secs_f64() * 1e3).ceil()
            );
            (words, in_time(&outcome.metric, group, apart, cpus))
        }
    };
    Overshoot { words, at_most }
}

/// What can be used of a metric in that time, if there is a bound.
fn in_time(name: &str, group: Option<Group>, time: Duration, cpus: u32) -> Option<Number> {
    let unit = metric(name)?.unit;
    let seconds = time.as_secs_f64();
    match (name, group?) {
        (_, Group::Time) => Some(unit.number(seconds)),
        ("cpu_seconds" | "cpu_user_seconds" | "cpu_system_seconds", _) => {
            Some(unit.number(seconds * f64::from(cpus)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(metric: &str, by: &str) -> LimitOutcome {
        LimitOutcome {
            metric: metric.into(),
            limit: Number::Whole(1),
            written: None,
            enforced_by: by.into(),
            exceeded: false,
            observed: None,
            overshoot: None,
            overshoot_at_most: None,
            at_seconds: None,
            offender: None,
        }
    }

    #[test]
    fn time_and_cpu_time_have_a_bound() {
        let of = |metric, by| overshoot(&outcome(metric, by), Duration::from_millis(20), 4);
        assert_eq!(of("wall_seconds", "interval").at_most, Some(Number::Real(0.02)));
        assert_eq!(of("cpu_seconds", "interval").at_most, Some(Number::Real(0.08)));
        let disk = of("disk_growth_peak_bytes", "interval");
        assert!(disk.at_most.is_none() && disk.words.contains("20 ms"), "{}", disk.words);
        assert!(of("io_written_bytes_total", "bpf").words.contains("one call of each thread"));
        assert!(of("memory_peak_bytes", "bpf").words.contains("huge page"));
    }
}
