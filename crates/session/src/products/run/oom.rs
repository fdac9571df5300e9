//! Kills for want of memory: which processes of the job they were, and how many where the kernel does not follow it.
//!
//! Reads the ends of processes, the count of the job's own control group, and the machine's before and after. Refuses to
//! count kills that may have been of others.

use weigh_collect::host;
use weigh_schema::event::{Note, ProcessEnd};
use weigh_schema::{Counter, Mechanism, Quality, Unit, Value, metric_name};

use super::collectors::Findings;

const METRIC: &str = metric_name::oom_kills_total;

/// So many are named.
const NAMED: usize = 8;

/// What is known while the job runs.
pub(super) struct OomKills {
    /// The machine's count before the job.
    before: Option<u64>,
    victims: Vec<String>,
}

impl OomKills {
    /// Before the job begins.
    pub fn begin() -> OomKills {
        OomKills { before: host::oom_kills(), victims: Vec::new() }
    }

    /// A process has ended.
    pub fn ended(&mut self, process: &ProcessEnd) {
        if process.counters.get(Counter::OomKills) > 0 && self.victims.len() < NAMED {
            self.victims.push(format!("{} (PID {})", process.name, process.pid));
        }
    }

    /// The job has ended, which was followed by `mechanism`.
    pub fn finish(self, mechanism: Mechanism, findings: &mut Findings) {
        if mechanism != Mechanism::Bpf {
            let value = without_bpf(findings.oom_kills, self.before, host::oom_kills());
            findings.given.insert(METRIC.to_owned(), value);
        } else if !self.victims.is_empty() {
            findings.notes.push(Note::new(
                METRIC,
                Quality::Exact,
                format!("killed for want of memory: {}", self.victims.join(", ")),
            ));
        }
    }
}

fn without_bpf(of_group: Option<u64>, before: Option<u64>, after: Option<u64>) -> Value {
    let exact = |count: u64, source, reason: &str| {
        Value::exact(Unit::Count, count as f64, source).qualified(Quality::Exact, reason)
    };
    if let Some(count) = of_group {
        return exact(count, Mechanism::Cgroup, "by the count of the job's control group");
    }
    match before.zip(after).map(|(before, after)| after.saturating_sub(before)) {
        Some(0) => {
            exact(0, Mechanism::Proc, "no process of the machine was killed for it meanwhile")
        }
        Some(count) => Value::unavailable(
            Unit::Count,
            format!(
                "{count} processes of the machine were killed for want of memory meanwhile; whether \
                 of this job takes BPF, or --cgroup, to tell"
            ),
        ),
        None => Value::unavailable(Unit::Count, "needs BPF, or --cgroup"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(
        of_group: Option<u64>,
        before: Option<u64>,
        after: Option<u64>,
    ) -> (Option<f64>, Mechanism) {
        let value = without_bpf(of_group, before, after);
        (value.value.map(|number| number.as_f64()), value.source)
    }

    #[test]
    fn kills_of_others_are_not_counted() {
        assert_eq!(told(Some(2), Some(5), Some(9)), (Some(2.0), Mechanism::Cgroup));
        assert_eq!(told(None, Some(5), Some(5)), (Some(0.0), Mechanism::Proc));
        assert_eq!(told(None, Some(5), Some(6)).0, None);
        assert_eq!(told(None, None, Some(6)).0, None);
    }
}
