//! The peak of a control group that holds the job and nothing else.

use weigh_collect::cgroup::{self, JobCgroup};
use weigh_schema::event::CollectorStatus;
use weigh_schema::quality::{Mechanism, Quality, Value};
use weigh_schema::{Unit, metric};

use super::{Findings, JobCollector, Kind, Recorder, Start};
use crate::arguments::Collector;

const PEAK: &str = "memory_peak_cgroup_bytes";

pub(super) const KIND: Kind =
    Kind { collector: Collector::Cgroup, mechanism: Mechanism::Cgroup, metrics: &[PEAK], start };

fn start(with: &Start<'_>) -> Result<Box<dyn JobCollector>, String> {
    if !with.settings.arguments.cgroup {
        return Err("--cgroup puts the job into a control group of its own for it".to_string());
    }
    let group = JobCgroup::create(&with.settings.id).map_err(|e| e.to_string())?;
    match group.add(with.pid) {
        Ok(()) => Ok(Box::new(Group(group))),
        Err(error) => {
            // It is empty, so that it can be removed; if not, there is nothing better to say.
            let _ = group.remove();
            Err(error.to_string())
        }
    }
}

struct Group(JobCgroup);

impl JobCollector for Group {
    fn value(&self, name: &str) -> Option<f64> {
        (name == PEAK).then(|| self.0.peak_bytes().ok()).flatten().map(|bytes| bytes as f64)
    }

    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder) -> CollectorStatus {
        let unit = metric(PEAK).map_or(Unit::Bytes, |m| m.unit);
        let value = match self.0.peak_bytes() {
            Ok(bytes) => Value {
                value: Some(unit.number(bytes as f64)),
                unit,
                source: Mechanism::Cgroup,
                quality: Quality::Exact,
                reason: None,
            },
            Err(error) => Value::unavailable(unit, error.to_string()),
        };
        findings.given.insert(PEAK.to_string(), value);
        cgroup::status(self.0.remove().as_ref().copied())
    }
}
