//! By how much a metric can have passed its limit before anybody acted.
//!
//! Emits words for people, and a number in the metric's unit where one follows from how the limit was checked.

use std::fmt::Write as _;
use std::time::Duration;

use weigh_schema::amount::show_amount;
use weigh_schema::summary::LimitOutcome;
use weigh_schema::{Group, Mechanism, Number, metric, metric_name};

/// What there is to say beside the value that was observed.
pub(super) struct Overshoot {
    /// For people.
    pub words: String,
    /// In the metric's unit.
    pub at_most: Option<Number>,
}

/// What is known of the looks at a limited metric.
pub(super) struct LookSpacing {
    /// The longest time between two of them.
    pub apart: Duration,
    /// The CPUs that the job can have used meanwhile.
    pub cpus: u32,
    /// By how much the metric has grown from one to the next, at most, where it only grows.
    pub step: Option<f64>,
}

/// Of a limit that was checked at such looks, or where it says by whom.
pub(super) fn overshoot(outcome: &LimitOutcome, looks: &LookSpacing) -> Overshoot {
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
        _ if is_by(Mechanism::Ptrace) => {
            ("checked by the tracer at the end of each system call: what one call of each thread moves".into(), None)
        }
        group => by_looks(&outcome.metric, group, looks),
    };
    Overshoot { words, at_most }
}

fn by_looks(name: &str, group: Option<Group>, looks: &LookSpacing) -> (String, Option<Number>) {
    let mut words = format!(
        "looked at every now and then, {:.0} ms apart at most in this run: what is used in that time",
        (looks.apart.as_secs_f64() * 1e3).ceil()
    );
    let in_time = in_time(name, group, looks.apart, looks.cpus);
    let unit = metric(name).map(|metric| metric.unit);
    let stepped = looks.step.zip(unit).filter(|_| in_time.is_none());
    let Some((step, unit)) = stepped else { return (words, in_time) };
    let _ = write!(words, ", at most {}", show_amount(step, unit));
    (words, Some(unit.number(step)))
}

/// What can be used of a metric in that time, if there is a bound.
fn in_time(name: &str, group: Option<Group>, time: Duration, cpus: u32) -> Option<Number> {
    let unit = metric(name)?.unit;
    let seconds = time.as_secs_f64();
    match (name, group?) {
        (_, Group::Time) => Some(unit.number(seconds)),
        (
            metric_name::cpu_seconds
            | metric_name::cpu_user_seconds
            | metric_name::cpu_system_seconds,
            _,
        ) => Some(unit.number(seconds * f64::from(cpus))),
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
        let looks = |step| LookSpacing { apart: Duration::from_millis(20), cpus: 4, step };
        let of = |metric, by| overshoot(&outcome(metric, by), &looks(None));
        assert_eq!(of("wall_seconds", "interval").at_most, Some(Number::Real(0.02)));
        assert_eq!(of("cpu_seconds", "interval").at_most, Some(Number::Real(0.08)));
        let disk = of("disk_growth_peak_bytes", "interval");
        assert!(disk.at_most.is_none() && disk.words.contains("20 ms"), "{}", disk.words);
        for by in ["bpf", "ptrace"] {
            let at_calls = of("io_written_bytes_total", by);
            assert!(at_calls.words.contains("one call of each thread"), "{}", at_calls.words);
        }
        let stepped =
            overshoot(&outcome("io_written_bytes_total", "interval"), &looks(Some(4096.0)));
        assert_eq!(stepped.at_most, Some(Number::Whole(4096)));
        assert!(stepped.words.ends_with("at most 4.0 KiB"), "{}", stepped.words);
        assert!(of("memory_peak_bytes", "bpf").words.contains("huge page"));
    }
}
