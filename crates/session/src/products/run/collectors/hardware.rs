//! Hardware counters for the summary.

use weigh_collect::hardware::{HardwareCounters, HardwareEvent};
use weigh_schema::event::CollectorStatus;
use weigh_schema::{Mechanism, Unit, Value, metric, metric_name};

use super::collector::{CollectorSource, CollectorSpec, Findings, StartContext};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::Collector;

pub(super) const SPEC: CollectorSpec = CollectorSpec {
    collector: Collector::Hardware,
    mechanism: Mechanism::Perf,
    metrics: &[
        metric_name::cpu_instructions_total,
        metric_name::cpu_cycles_total,
        metric_name::cpu_cache_misses_total,
    ],
    start,
};

fn start(with: &mut StartContext<'_>) -> Result<Box<dyn CollectorSource>, String> {
    if with.runs_already {
        return Err(
            "counters are attached to a command before it runs, not to a process that runs already"
                .into(),
        );
    }
    Ok(Box::new(Hardware(HardwareCounters::attach(with.pid, HardwareEvent::ALL))))
}

struct Hardware(HardwareCounters);

impl CollectorSource for Hardware {
    fn finish(
        mut self: Box<Self>,
        findings: &mut Findings,
        _: &mut Recorder<'_>,
    ) -> CollectorStatus {
        for failure in self.0.failures() {
            findings.unavailable(&[failure.metric()], &failure.to_string());
        }
        for count in self.0.read() {
            match count {
                Ok(count) => {
                    let shared = count.running_ratio < 1.0;
                    let unit = metric(&count.metric).map_or(Unit::Count, |m| m.unit);
                    let value = Value::whole(unit, count.count, Mechanism::Perf);
                    let percent = count.running_ratio * 100.0;
                    let reason =
                        shared.then(|| format!("the counter ran {percent:.0} % of the time"));
                    findings.given.insert(count.metric, value.estimated_for(reason.as_slice()));
                }
                Err(error) => findings.unavailable(&[error.metric()], &error.to_string()),
            }
        }
        self.0.status()
    }
}
