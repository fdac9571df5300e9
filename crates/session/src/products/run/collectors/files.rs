//! Opened files by fanotify, where functions cannot be probed and the user asks for it: every
//! process of the machine pays for it at each open.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use weigh_collect::fanotify::{Open, OpenEvents, file_uses, is_allowed};
use weigh_schema::event::{CollectorState, CollectorStatus};
use weigh_schema::{Mechanism, Quality, Unit, Value, metric, metric_name};

use super::collector::{
    Claim, CollectorSource, CollectorSpec, Findings, LiveValues, Sampler, StartContext,
};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::Collector;

const OPENED: &str = metric_name::files_opened_total;

pub(super) const SPEC: CollectorSpec = CollectorSpec {
    collector: Collector::Files,
    mechanism: Mechanism::Fanotify,
    metrics: &[OPENED],
    start,
};

fn start(with: &mut StartContext<'_>) -> Result<Box<dyn CollectorSource>, String> {
    let Err(why) = with.follower.open_counts().map(drop) else {
        return Ok(Box::new(FollowerOpens));
    };
    if !with.settings.fanotify {
        let follower = with.follower.mechanism();
        return Err(format!("{why}. {}", remedy(with.runs_already, follower, is_allowed())));
    }
    let events = OpenEvents::start().map_err(|e| e.to_string())?;
    Ok(Box::new(FanotifyOpens { events, opens: BTreeMap::new(), job: HashSet::new(), so_far: 0 }))
}

/// The one option that counts opens here, what it costs and whom. It is never taken unasked.
fn remedy(runs_already: bool, follower: Mechanism, is_privileged: bool) -> &'static str {
    match follower {
        _ if is_privileged => {
            "--files follows opens by fanotify, which costs every process of the machine about a \
             microsecond an open"
        }
        _ if runs_already => {
            "--level 3 counts them without root: each system call of the job takes some 20 to 60 µs \
             longer"
        }
        Mechanism::Preload => "--level 3 counts those of dynamically linked programs without root",
        _ => {
            "--mechanism preload counts those of dynamically linked programs without root, by a \
             library in them"
        }
    }
}

/// The mechanism that follows the job counts opens; its own status says so.
struct FollowerOpens;

impl CollectorSource for FollowerOpens {
    fn finish(self: Box<Self>, _: &mut Findings, _: &mut Recorder<'_>) -> CollectorStatus {
        CollectorStatus::new(
            "fanotify",
            Mechanism::Fanotify,
            CollectorState::Disabled,
            Some("the job's mechanism counts every open".into()),
        )
    }
}

struct FanotifyOpens {
    events: OpenEvents,
    /// Of all processes: which were the job's is known for certain at the end.
    opens: BTreeMap<Open, u64>,
    /// The job's, as far as is known yet.
    job: HashSet<u32>,
    /// Opens of these.
    so_far: u64,
}

impl FanotifyOpens {
    fn drain(&mut self) {
        // A queue that cannot be read is told of in the status.
        for (open, times) in self.events.drain(&mut |_| true).unwrap_or_default() {
            *self.opens.entry(open).or_default() += times;
        }
    }
}

impl CollectorSource for FanotifyOpens {
    fn claim(&self) -> Claim<'_> {
        Claim { metrics: &[OPENED], refusal: None }
    }

    fn sampler(&mut self) -> Option<&mut dyn Sampler> {
        Some(self)
    }

    fn live_values(&self) -> Option<&dyn LiveValues> {
        Some(self)
    }

    fn record(&mut self, recorder: &mut Recorder<'_>) {
        self.job.extend(recorder.pids());
    }

    fn finish(
        mut self: Box<Self>,
        findings: &mut Findings,
        recorder: &mut Recorder<'_>,
    ) -> CollectorStatus {
        self.drain();
        let job: &HashSet<u32> = recorder.pids();
        self.opens.retain(|open, _| job.contains(&open.pid));
        let total: u64 = self.opens.values().sum();
        let unit = metric(OPENED).map_or(Unit::Count, |m| m.unit);
        let reason = "a lower bound: the kernel merges repeated opens of a file by a process until \
                      they are read";
        findings.given.insert(
            OPENED.to_string(),
            Value::whole(unit, total, Mechanism::Fanotify).qualified(Quality::Estimated, reason),
        );
        for used in file_uses(std::mem::take(&mut self.opens)) {
            recorder.opened(used);
        }
        self.events.status()
    }
}

impl Sampler for FanotifyOpens {
    fn samples(&mut self, living: &dyn Fn() -> Vec<u32>) -> Vec<(&'static str, f64)> {
        self.drain();
        self.job.extend(living());
        let of_job = self.opens.iter().filter(|(open, _)| self.job.contains(&open.pid));
        // One of another program had the number before.
        self.so_far = self.so_far.max(of_job.map(|(_, times)| times).sum());
        vec![(OPENED, self.so_far as f64)]
    }

    fn is_of_windows(&self) -> bool {
        false
    }
}

impl LiveValues for FanotifyOpens {
    fn value(&self, name: &str) -> Option<f64> {
        (name == OPENED).then_some(self.so_far as f64)
    }

    fn looks_apart(&self, _metric: &str) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_option_that_works_is_named() {
        for (runs_already, follower, is_privileged, option) in [
            (false, Mechanism::Bpf, true, "--files"),
            (false, Mechanism::Proc, true, "--files"),
            (false, Mechanism::Ptrace, false, "--mechanism preload"),
            (false, Mechanism::Proc, false, "--mechanism preload"),
            (false, Mechanism::Bpf, false, "--mechanism preload"),
            (false, Mechanism::Preload, false, "--level 3"),
            (true, Mechanism::Ptrace, false, "--level 3"),
        ] {
            let text = remedy(runs_already, follower, is_privileged);
            assert!(text.starts_with(&format!("{option} ")), "{text}");
            assert_eq!(text.matches("--").count(), 1, "{text}");
        }
    }
}
