//! The kernel's delay accounting: whether its counters mean anything.

use weigh_collect::delays::{self, DelaysGuard, SwitchWatch};
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
        Ok(true) if with.follower.mechanism() == Mechanism::Bpf => {
            let switch = SwitchWatch::begin();
            Ok(Box::new(Delays { switch, ran_already: with.runs_already }))
        }
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

struct Delays {
    switch: SwitchWatch,
    ran_already: bool,
}

impl Delays {
    /// Why waits for block I/O may have been counted that began while nothing was counted.
    fn doubt(&self, is_on: bool) -> Option<String> {
        let why = if self.ran_already {
            "the job ran before weigh, with kernel.task_delayacct perhaps at 0"
        } else if self.switch.was_written() || !is_on {
            "kernel.task_delayacct was written while the job ran"
        } else {
            return None;
        };
        Some(format!(
            "{why}: a wait that began while it was 0 is counted from the start of the machine"
        ))
    }
}

impl CollectorSource for Delays {
    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder<'_>) -> CollectorStatus {
        let state = delays::is_on();
        let doubt = self.doubt(matches!(state, Ok(true)));
        findings.notes.extend(doubt.map(|reason| Note {
            metric: metric_name::delay_block_seconds.to_string(),
            quality: Quality::Estimated,
            source: None,
            reason,
        }));
        delays::status(&state)
    }
}
