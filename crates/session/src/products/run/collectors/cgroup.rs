//! The peak of a control group that holds the job and nothing else.

use std::time::Duration;

use weigh_collect::cgroup::{self, JobCgroup};
use weigh_collect::follow::JobMechanism;
use weigh_schema::event::{CollectorStatus, Note};
use weigh_schema::{Mechanism, Quality, Unit, Value, metric, metric_name};

use super::collector::{
    CollectorSource, CollectorSpec, Findings, LiveValues, Sampler, StartContext,
};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::{Collector, RunSettings};

const PEAK: &str = metric_name::memory_peak_cgroup_bytes;

pub(super) const SPEC: CollectorSpec = CollectorSpec {
    collector: Collector::Cgroup,
    mechanism: Mechanism::Cgroup,
    metrics: &[PEAK],
    start,
};

/// Makes the group, if it was asked for. Where nothing better knows what all processes hold at one
/// moment, it need not be asked for in a group that was delegated to this user: nobody else is
/// concerned.
pub(in crate::products::run) fn make(
    settings: &RunSettings,
    follower: &dyn JobMechanism,
) -> Result<JobCgroup, String> {
    if !settings.wants(Collector::Cgroup) {
        return Err(String::new()); // the reason is that it is turned off
    }
    if settings.pid.is_some() {
        return Err("a process that runs already is left in its control group".to_string());
    }
    if settings.cgroup {
        return JobCgroup::create(&settings.id).map_err(|e| e.to_string());
    }
    let wish = "--cgroup puts the job into a control group of its own for it";
    if follower.mechanism() == Mechanism::Bpf || cgroup::is_administrator() {
        return Err(wish.to_string());
    }
    JobCgroup::create_delegated(&settings.id).map_err(|e| format!("no delegated group: {e}"))
}

fn start(with: &mut StartContext<'_>) -> Result<Box<dyn CollectorSource>, String> {
    let (group, is_in) = with.group.take().ok_or("no group was made")?;
    let group = group?;
    if !is_in && let Err(error) = group.add(with.pid) {
        // It is empty, so that it can be removed; if not, there is nothing better to say.
        let _ = group.remove();
        return Err(error.to_string());
    }
    Ok(Box::new(JobGroup { group, shared_peak: 0, has_lost: false }))
}

struct JobGroup {
    group: JobCgroup,
    /// The most shared memory and files in memory that it was seen to hold, mapped or not.
    shared_peak: u64,
    /// A process of the job was seen in a group outside of it: what that held is charged there.
    has_lost: bool,
}

const LOST: &str =
    "processes of the job were seen in other control groups: what they held there is not in it";

impl JobGroup {
    fn look_at_shared(&mut self) {
        self.shared_peak = self.shared_peak.max(self.group.shared_bytes().unwrap_or_default());
    }

    /// What no process maps is in no resident size.
    fn note(&self) -> Option<Note> {
        (self.shared_peak > 0).then(|| Note::new(metric_name::memory_peak_bytes, Quality::Exact, format!(
                "of shared memory and files in memory only what was mapped is in it; the job's control group held up to \
                 {} bytes of them at a sample, mapped or not",
                self.shared_peak
            )))
    }
}

impl CollectorSource for JobGroup {
    fn sampler(&mut self) -> Option<&mut dyn Sampler> {
        Some(self)
    }

    fn live_values(&self) -> Option<&dyn LiveValues> {
        Some(self)
    }

    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder<'_>) -> CollectorStatus {
        let unit = metric(PEAK).map_or(Unit::Bytes, |m| m.unit);
        let value = match self.group.peak_bytes() {
            Ok(bytes) => Value::whole(unit, bytes, Mechanism::Cgroup)
                .estimated_for(&Vec::from_iter(self.has_lost.then(|| LOST.to_string()))),
            Err(error) => Value::unavailable(unit, error.to_string()),
        };
        findings.given.insert(PEAK.to_string(), value);
        findings.oom_kills = self.group.oom_kills().filter(|_| !self.has_lost);
        findings.notes.extend(self.note());
        cgroup::status(self.group.remove().as_ref().copied())
    }
}

impl Sampler for JobGroup {
    fn samples(&mut self, living: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)> {
        self.look_at_shared();
        self.has_lost = self.has_lost || self.group.has_lost(&living());
        Vec::new()
    }

    fn is_of_windows(&self) -> bool {
        false
    }
}

impl LiveValues for JobGroup {
    fn value(&self, name: &str) -> Option<f64> {
        (name == PEAK).then(|| self.group.peak_bytes().ok()).flatten().map(|bytes| bytes as f64)
    }

    fn looks_apart(&self, _metric: &str) -> Option<Duration> {
        None
    }
}
