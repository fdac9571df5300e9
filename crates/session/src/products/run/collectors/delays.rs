//! The kernel's delay accounting: whether its counters mean anything.

use weigh_collect::delays::{self, DelaysGuard};
use weigh_schema::event::{CollectorStatus, Note};
use weigh_schema::{Mechanism, Quality, metric_name};

use super::collector::{CollectorSource, CollectorSpec, Findings, StartContext};
use crate::products::run::recorder::Recorder;
use crate::products::run::settings::Collector;

/// The first is in doubt.
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

/// Nothing tells when: a write through another mount of procfs makes no event.
const TURNED_OFF: &str =
    "kernel.task_delayacct was turned off during the run: what was waited after that is missing";

impl CollectorSource for Delays {
    fn finish(self: Box<Self>, findings: &mut Findings, _: &mut Recorder<'_>) -> CollectorStatus {
        let state = delays::is_on();
        findings.notes.extend(notes(!matches!(state, Ok(false))));
        let mut status = delays::status(&state);
        if matches!(state, Ok(false)) {
            status.reason = Some(TURNED_OFF.to_string());
        }
        status
    }
}

/// What the values are, given whether the switch is still on at the end.
fn notes(is_on: bool) -> Vec<Note> {
    let doubtful = &DELAYS[..1];
    let (metrics, reason) = if is_on { (doubtful, DOUBT) } else { (DELAYS, TURNED_OFF) };
    let note = |metric: &&str| Note::new(metric, Quality::Estimated, reason);
    metrics.iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_switch_was_turned_off_no_sum_is_exact() {
        let metrics = |is_on| notes(is_on).into_iter().map(|n| n.metric).collect::<Vec<_>>();
        assert_eq!(metrics(true), [metric_name::delay_block_seconds]);
        assert_eq!(metrics(false), DELAYS);
        assert!(notes(false).iter().all(|note| note.reason == TURNED_OFF));
    }
}
