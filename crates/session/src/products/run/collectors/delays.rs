//! The kernel's delay accounting: whether its counters mean anything.

use weigh_collect::delays::{self, DelaysGuard};
use weigh_schema::event::{CollectorStatus, Note};
use weigh_schema::metric_name;
use weigh_schema::quality::{Mechanism, Quality};

use super::collector::{CollectorSource, CollectorSpec, Findings, StartContext};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::Collector;

const DELAYS: &[&str] = &[
    metric_name::delay_block_seconds,
    metric_name::delay_reclaim_seconds,
    metric_name::delay_swapin_seconds,
];

pub(super) const SPEC: CollectorSpec = CollectorSpec {
    collector: Collector::Delays,
    mechanism: Mechanism::Bpf,
    metrics: DELAYS,
    start,
};

/// The switch itself is thrown before the command's process is made: threads get their counters
/// when they are created.
fn start(with: &mut StartContext<'_>) -> Result<Box<dyn CollectorSource>, String> {
    match delays::is_on() {
        Ok(true) if with.follower.mechanism() == Mechanism::Bpf => Ok(Box::new(Delays)),
        Ok(true) => Err("needs BPF".to_string()),
        Ok(false) => Err("kernel.task_delayacct is 0; --delays turns it on for the run, \
                          `sysctl kernel.task_delayacct=1` for good"
            .to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Turns delay accounting on for the time of the run.
pub(in crate::products::run) fn turn_on(wanted: bool) -> anyhow::Result<Option<DelaysGuard>> {
    Ok(if wanted { Some(delays::enable_while()?) } else { None })
}

struct Delays;

/// Waits as long as the machine was up: where the setting was turned off and on meanwhile, and on Linux 6.18 also where it
/// was on all the time (of 300 runs of `dd oflag=direct`, three at once, 31 had one). `/proc/PID/stat` has them, too.
const DOUBT: &str = "the kernel's own sum; Linux 6.18 was seen to count some waits far too long";

impl CollectorSource for Delays {
    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder<'_>) -> CollectorStatus {
        findings.notes.push(Note {
            metric: metric_name::delay_block_seconds.to_string(),
            quality: Quality::Estimated,
            source: None,
            reason: DOUBT.to_string(),
        });
        delays::status(&delays::is_on())
    }
}
